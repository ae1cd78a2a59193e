"""Submodules that commits of a session moved: from which commit to which, and what lies between."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent_dev.commits.agent_git import commits, refs
from agent_dev.git import bare
from agent_dev.git.bare import Bare
from agent_dev.git.formats.commit_format import Commit, Told, parse_log
from agent_dev.session import store

GITLINK = 0o160000
_MANY = 20  # commits that are told of one move
_DEEPEST, _MOST = 6, 500  # how far a name of a submodule goes down, how many directories are looked at


@dataclass(frozen=True, slots=True)
class Pointer:
    """A submodule of a commit that moved. `log`: what came, newest first; None where its objects are not there."""

    commit: str
    path: bytes
    old: str
    new: str
    log: tuple[Commit, ...] | None


def moved(session: store.Session, record: store.Record, told: tuple[Told, ...], environ: dict[str, str]) -> tuple[Pointer, ...]:
    """Return the submodules that some commits moved. Raises CommandFailed without git."""
    links = [(one, file) for one in told for file in one.files if GITLINK in (file.old_mode, file.new_mode)]
    if not links or refs.private_dir(session, record) is None:
        return ()
    with opened(session, record, environ) as skeleton:
        return tuple(
            Pointer(
                one.id, file.path, _id(file.old_mode, file.old), _id(file.new_mode, file.new), log(skeleton, file.old, file.new)
            )
            for one, file in links
        )


def of_session(session: store.Session, record: store.Record, ids: list[str], environ: dict[str, str]) -> tuple[Pointer, ...]:
    """Return the same of some commits by their ids, where the agent had submodules. Raises CommandFailed."""
    folder = refs.private_dir(session, record)
    if not ids or folder is None or not git_dirs(folder):
        return ()
    with commits.opened(session, record, environ) as skeleton:
        told = commits.with_files(skeleton, commits.read(skeleton, ids))
    return moved(session, record, told, environ)


@contextmanager
def opened(session: store.Session, record: store.Record, environ: dict[str, str], more: tuple[str, ...] = ()) -> Iterator[Bare]:
    """Have what the session's submodules hold, and `more` stores, for as long as it is needed. Raises CommandFailed."""
    folder = refs.private_dir(session, record) or os.devnull
    stores = tuple(outside for outside, _ in record["stores"])
    with bare.temporary(session.folder) as place:
        skeleton = bare.skeleton(place, commits.git_program(record, environ), folder, (*stores, *more))
        for one in git_dirs(folder):
            bare.borrow(skeleton, one)
        yield skeleton


def _id(mode: int, oid: str) -> str:
    return oid if mode == GITLINK else ""


def log(skeleton: Bare, old: str, new: str) -> tuple[Commit, ...] | None:
    """Return the commits from one to another, the newest first; None where they are not there."""
    if not new.strip("0"):
        return ()
    words = (f"^{old}",) if old.strip("0") else ()
    code, said, _ = skeleton.run("log", f"-{_MANY}", "-z", "--format=%H%n%s", new, *words, "--")
    return None if code else parse_log(said)


def git_dirs(folder: str) -> list[str]:
    """Return the git dirs of submodules in a private git dir, no link followed."""
    found: list[str] = []
    tops = [f"{folder}/modules", *(f"{entry.path}/modules" for entry in _folders(f"{folder}/worktrees"))]
    waiting = [(top, 0) for top in tops if refs.is_real(folder) and refs.is_real(os.path.dirname(top), "modules")]
    for count, (place, depth) in enumerate(waiting):
        if refs.is_real(place, "objects"):
            found.append(place)
        if depth < _DEEPEST and count < _MOST:
            names = _folders(f"{place}/modules" if place in found else place)
            waiting += [(entry.path, depth + 1) for entry in names]
    return found


def _folders(place: str) -> "list[os.DirEntry[str]]":
    try:
        return [entry for entry in os.scandir(place) if entry.is_dir(follow_symlinks=False)] if refs.is_real(place) else []
    except OSError:
        return []
