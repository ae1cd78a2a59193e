"""The agent's objects, checked: a pack of what is new, read again and verified in a repository of ours (decision 0017).

Nothing of it is in the user's repository before all of it was found good, and then it comes by the rename of a whole pack.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from agent_dev.commits.agent_git import refs
from agent_dev.errors import RefusedCommits
from agent_dev.fs import durable as disk
from agent_dev.git import bare
from agent_dev.git.bare import Bare
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.git.user_refs import UserGit
from agent_dev.session import store

_LARGEST = 1 << 20
_STAY = "nothing was brought home; they stay in the session"
# What git only mentions unless it is told that these are errors (git: Documentation/fsck-msgids.txt).
_ERRORS = ("gitmodulesParse", "gitmodulesSymlink")


@dataclass(frozen=True, slots=True)
class Sides:
    """Two git dirs: the agent's, and the (common) one of the user's that takes from it; `stores`: the farms."""

    agent: str
    common: str
    stores: tuple[str, ...]


@contextmanager
def opened(session: store.Session, record: store.Record, user: UserGit, tips: tuple[str, ...]) -> Iterator[Bare]:
    """Have a repository that holds some of the agent's commits, checked, and borrows the rest from the user's.

    Raises RefusedCommits with the reason for what git finds wrong with them, CommandFailed.
    """
    git = record["git"]
    assert git is not None  # noqa: S101  (who has commits has a git dir)
    stores = tuple(str(outside) for outside, _ in record["stores"])
    sides = Sides(refs.private_dir(session, record) or os.devnull, git["common"], stores)
    with between(session.folder, sides, user, tips) as ours:
        yield ours


@contextmanager
def between(folder: str, sides: Sides, user: UserGit, tips: tuple[str, ...]) -> Iterator[Bare]:
    """Have the same in a session's folder for any two git dirs. Raises the same."""
    users = f"{sides.common}/objects"
    with bare.temporary(folder) as place:
        theirs = bare.skeleton(place, user.program, sides.agent, (users, *sides.stores))
        ours = bare.make(f"{place}/checked", user.program, is_sha256=theirs.is_sha256, stores=(users,))
        for one in (theirs, ours):
            _be_shallow(sides.common, one)
        is_partial = "extensions.partialclone" in user.config()
        _fetch(theirs, ours, tips, tuple(user.values().values()), is_partial=is_partial)
        yield replace(ours, environ=dict(user.environ))


def _be_shallow(common: str, place: Bare) -> None:
    """Let history end where the user's does."""
    shallow = refs.regular(f"{common}/shallow", _LARGEST)
    if shallow:
        bare.write(f"{place.path}/shallow", shallow)


def _fetch(theirs: Bare, ours: Bare, tips: tuple[str, ...], known: tuple[str, ...], *, is_partial: bool) -> None:
    wanted = "".join(f"{oid}\n" for oid in tips if parse_ref(oid.encode()))
    question = wanted + "".join(f"^{oid}\n" for oid in sorted(set(known)))
    code, pack, why = theirs.run("pack-objects", "--revs", "--stdout", "-q", "--window=0", question=question.encode())
    if code:
        raise RefusedCommits(reason=why, hint=_STAY)
    code, _, why = ours.run("-c", "core.fsync=none", "index-pack", "--stdin", _strictness(is_partial=is_partial), question=pack)
    if code:
        raise RefusedCommits(reason=why, hint=_STAY)


def _strictness(*, is_partial: bool) -> str:
    """Return how strictly git checks: in a partial clone not that everything is there, for not everything is."""
    return "--fsck-objects" if is_partial else "--strict=" + ",".join(f"{name}=error" for name in _ERRORS)


def adopt(ours: Bare, common: str, wanted: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Bring what is reachable from `wanted` and not from `known` into the user's object store, durable. Raises OSError."""
    if not _has_loose(ours):  # then it holds the pack that was checked, and nothing else
        packs = f"{ours.path}/objects/pack"
        names = os.listdir(packs)
        for name in names:
            _sync(f"{packs}/{name}")
        for name in names:
            if name.endswith(".idx"):
                _place(packs, name.removesuffix(".idx"), f"{common}/objects/pack")
        return
    question = "".join(f"{oid}\n" for oid in wanted) + "".join(f"^{oid}\n" for oid in known)
    made = f"{ours.path}/home"
    os.mkdir(made, 0o700)
    words = ("-c", "core.fsync=all", "pack-objects", "--revs", "-q", f"{made}/pack")
    said = ours.ask(*words, question=question.encode()).decode("ascii").strip()
    for name in said.split():
        _place(made, f"pack-{name}", f"{common}/objects/pack")


def _has_loose(ours: Bare) -> bool:
    return any(len(name) == 2 for name in os.listdir(f"{ours.path}/objects"))


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        disk.fsync(fd)
    finally:
        os.close(fd)


def _place(made: str, name: str, packs: str) -> None:
    """Put a pack among the user's, its index last: only with that git sees it."""
    os.makedirs(packs, exist_ok=True)
    into = os.open(packs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for end in (".pack", ".rev", ".idx"):
            source = f"{made}/{name}{end}"
            if os.path.exists(source) and not os.path.exists(f"{packs}/{name}{end}"):
                _one(source, f"{name}{end}", packs, into)
        disk.fsync(into)
    finally:
        os.close(into)


def _one(source: str, name: str, packs: str, into: int) -> None:
    mode = 0o444 & os.stat(packs).st_mode
    os.chmod(source, mode)
    if os.stat(source).st_dev != os.fstat(into).st_dev:
        source = _copied(source, packs)
    folder = os.open(os.path.dirname(source), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.move(folder, os.path.basename(source).encode(), into, name.encode())
    except FileExistsError:
        pass  # the same pack, by another import
    finally:
        os.close(folder)


def _copied(source: str, packs: str) -> str:
    """Copy a file beside its place on another file system, under a name that git's gc removes."""
    copy = f"{packs}/tmp_pack_agent_dev_{os.path.basename(source)}"
    shutil.copy2(source, copy)
    _sync(copy)
    return copy
