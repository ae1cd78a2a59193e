"""What the agent committed in its private git dir, read without ever running git in anything it could write (decision 0005).

Refs are parsed here; objects are hard-linked, regular files only, into a skeleton of our own, and git reads that one.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from agent_dev.agent_git import changes as finding
from agent_dev.agent_git.changes import Found, Tips
from agent_dev.commits.agent_git import refs
from agent_dev.errors import CommandFailed
from agent_dev.git import bare
from agent_dev.git.bare import Bare
from agent_dev.git.formats.commit_format import Commit, Told, TreeChange, parse_commit, parse_diff, parse_log
from agent_dev.sandbox import machine
from agent_dev.session import store

MANY = 1000
_MANY_FETCHED = 100_000


def made(session: store.Session, record: store.Record, environ: dict[str, str]) -> tuple[Commit, ...]:
    """Return the commits that the agent made, newest first, not what it fetched. Raises CommandFailed."""
    tips = _tips(session, record, environ)
    if not tips.new:
        return ()
    with opened(session, record, environ) as skeleton:
        fetched = _fetched(skeleton, tips)
        words = ("log", f"-{MANY + len(fetched)}", "-z", "--format=%H%n%s", "--ignore-missing", "--stdin")
        every = parse_log(skeleton.ask(*words, question=_question(tips.new, tips.old)))
        return tuple(one for one in every if one.id not in fetched)[:MANY]


def found(session: store.Session, record: store.Record, skeleton: Bare, environ: dict[str, str]) -> Found:
    """Return all that came of the agent's git dir, by a skeleton of it. Raises CommandFailed when git cannot read it."""
    with begun(session, record, skeleton, environ) as end:
        return end()


@contextmanager
def begun(session: store.Session, record: store.Record, skeleton: Bare, environ: dict[str, str]) -> Iterator[Callable[[], Found]]:
    """Have git at work on what takes it longest, the files of commits, and what waits for all that came; as `found`."""
    folder = refs.place(session, record, environ)
    if folder is None:
        yield Found
        return
    before, after = refs.remembered(session), refs.now(session, record, environ)
    known = refs.remembered_stashes(session)
    stashes = tuple(one for one in finding.parse_stashes(refs.stash_log(folder)) if one.id not in known)
    tips = _tips(session, record, environ)
    fetched = _fetched(skeleton, tips)
    every = _reached(skeleton, _question(tips.new, tips.old), MANY + 1 + len(fetched), "--parents") if tips.new else []
    rows = [row for row in every if row[0] not in fetched][: MANY + 1]
    ids = [row[0] for row in rows]
    remote = reached(skeleton, tips.remote, tips.old, _MANY_FETCHED) if tips.remote and ids else frozenset()
    with _reading(skeleton, ids) as told, _filed(skeleton, rows) as files:
        whole = Found(
            (),
            tuple(one for one in finding.ref_changes(before, after) if one.name != "refs/stash"),
            stashes,
            refs.unfinished(session, record, folder),
            finding.branch_of(after.get("HEAD", "")),
            finding.branch_of(before.get("HEAD", "")),
            is_cut=len(ids) > MANY,
            fetched=len(fetched),
            remote=remote.intersection(ids),
        )
        yield lambda: replace(whole, commits=_joined(told(), files())[:MANY])


def _tips(session: store.Session, record: store.Record, environ: dict[str, str]) -> Tips:
    """Return what the agent's refs lead to that they did not before."""
    if refs.private_dir(session, record) is None:
        return Tips()
    return finding.tips(refs.remembered(session), refs.now(session, record, environ))


def _question(new: tuple[str, ...], *old: tuple[str, ...]) -> bytes:
    return ("".join(f"{oid}\n" for oid in new) + "".join(f"^{oid}\n" for ids in old for oid in ids)).encode()


_Rows = list[list[str]]  # of commits, each with its parents where they are asked for


def _reached(skeleton: Bare, question: bytes, most: int, *how: str) -> _Rows:
    words = ("rev-list", f"-{most}", *how, "--ignore-missing", "--stdin")
    return [line.split(" ") for line in skeleton.ask(*words, question=question).decode("ascii", "replace").splitlines()]


def reached(skeleton: Bare, new: tuple[str, ...], old: tuple[str, ...], most: int) -> frozenset[str]:
    """Return some of the commits that lead from old ones to new ones, at most so many. Raises CommandFailed."""
    return frozenset(row[0] for row in _reached(skeleton, _question(new, old), most))


def _fetched(skeleton: Bare, tips: Tips) -> frozenset[str]:
    """Return the commits that are on remote branches only: the agent fetched them."""
    if not tips.remote:
        return frozenset()
    return frozenset(row[0] for row in _reached(skeleton, _question(tips.remote, tips.own, tips.old), _MANY_FETCHED))


@contextmanager
def opened(session: store.Session, record: store.Record, environ: dict[str, str]) -> Iterator[Bare]:
    """Have a skeleton of the agent's git dir for as long as it is needed. Raises CommandFailed."""
    folder = refs.private_dir(session, record)
    with bare.temporary(session.folder) as place:
        stores = tuple(str(outside) for outside, _ in record.get("stores"))
        yield bare.skeleton(place, git_program(record, environ), folder or os.devnull, stores)


def git_program(record: store.Record, environ: dict[str, str]) -> str:
    """Return the user's git, which lies nowhere that the agent could write. Raises CommandFailed."""
    program = machine.program("git", environ, store.untrusted(record))
    if program is None:
        raise CommandFailed(program="git", reason="it is not installed")
    return program


def read(place: Bare, ids: list[str]) -> tuple[Told, ...]:
    """Return what commits say of themselves. Raises CommandFailed for one that is not what its id says."""
    with _reading(place, ids) as told:
        return told()


@contextmanager
def _reading(place: Bare, ids: list[str]) -> Iterator[Callable[[], tuple[Told, ...]]]:
    """Have git at work on that, and what waits for it."""
    if not ids:
        yield tuple
        return
    with place.started("cat-file", "--batch", "--buffer", question="".join(f"{oid}\n" for oid in ids).encode()) as answer:

        def told() -> tuple[Told, ...]:
            code, said, why = answer()
            if code:
                raise CommandFailed(program="git cat-file", reason=why)
            return _parsed(said, ids)

        yield told


def _parsed(data: bytes, ids: list[str]) -> tuple[Told, ...]:
    found, at = [], 0
    for oid in ids:
        end = data.find(b"\n", at)
        words = data[at:end].split(b" ")
        if end < 0 or len(words) != 3 or words[1] != b"commit":
            raise CommandFailed(program="git cat-file", reason=f"{oid} is no commit")
        size = int(words[2])
        body, at = data[end + 1 : end + 1 + size], end + size + 2
        if id_of(body, is_sha256=len(oid) == 64) != oid:
            raise CommandFailed(program="git cat-file", reason=f"{oid} is not what its id says")
        found.append(parse_commit(oid, body))
    return tuple(found)


def id_of(body: bytes, *, is_sha256: bool) -> str:
    """Return the id of a commit."""
    kind = hashlib.sha256 if is_sha256 else hashlib.sha1
    return kind(b"commit %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def with_files(place: Bare, told: tuple[Told, ...]) -> tuple[Told, ...]:
    """Return commits with what differs from their first parents; what cannot be compared has none."""
    with _filed(place, [[one.id, *one.parents] for one in told]) as files:
        return _joined(told, files())


_Files = dict[str, tuple[TreeChange, ...]]


def _joined(told: tuple[Told, ...], files: _Files) -> tuple[Told, ...]:
    return tuple(replace(one, files=files.get(one.id, ())) for one in told)


@contextmanager
def _filed(place: Bare, rows: _Rows) -> Iterator[Callable[[], _Files]]:
    """Have git at work on what differs between commits and their first parents, and what waits for it."""
    if not rows:
        yield dict
        return
    question = "".join(" ".join(row[:2]) + "\n" for row in rows)
    words = ("diff-tree", "--stdin", "-r", "--root", "-z", "--raw", "--no-renames", "--no-abbrev")
    with place.started(*words, question=question.encode()) as answer:

        def files() -> _Files:
            code, said, _ = answer()
            return parse_diff(said) if not code else {}

        yield files
