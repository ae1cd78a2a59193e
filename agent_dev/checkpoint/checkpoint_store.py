"""A session's checkpoints on disk: `checkpoints/<number>/` each, their contents in one pool that all of them share.

`checkpoints/<number>/about.json` says what it is, `<place>.table` what one tree held; `checkpoints/objects/` holds contents by
their SHA-256. A checkpoint is there when its folder has its number: it is written under another name and renamed.
"""

import errno
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from agent_dev.checkpoint import content_pool as pool
from agent_dev.checkpoint import lock as turns
from agent_dev.checkpoint import node_table, snapshot
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.node_table import Pieces
from agent_dev.checkpoint.restore_plan import Held, Keep, Node
from agent_dev.errors import CheckpointFailed, DamagedCheckpoint, UnknownCheckpoint
from agent_dev.fs import fast_json as quick_json
from agent_dev.fs.rmtree import remove_tree
from agent_dev.inside.control import socket_file as door
from agent_dev.session import events, store

VERSION = 3
_READ = (1, VERSION)
START, END, TIMER, MANUAL, ROLLBACK = "start", "end", "timer", "manual", "before a rollback"
BY_ITSELF = (START, TIMER, END)  # causes for which nobody asked
_NOBODY_WAITS = (START, TIMER)  # and of those the ones for which nobody waits
FIRST = "root-0"  # the tree of the repository itself, among those of `places`


@dataclass(frozen=True, slots=True)
class About:
    """A checkpoint as lists show it. `time` in ns since 1970; `changed`: paths unlike in the one before.

    `size`: bytes of all files in it, `copied`: those that were new; `problems`: what could not be read, or moved meanwhile.
    """

    number: int
    time: int
    cause: str
    message: str
    changed: int
    files: int
    size: int
    copied: int
    problems: tuple[str, ...]
    digests: tuple[tuple[str, str], ...]  # of the tables, by place
    is_new: bool = True  # False: nothing had changed since, and this one stands for it


def places(session: store.Session, record: store.Record) -> dict[str, str]:
    """Return the trees of a session that a checkpoint holds, by a name that is a file's: its uppers and its git dir."""
    found = {f"root-{number}": session.root(number, "").upper for number in range(len(record["roots"]))}
    git = record.get("git")
    if git and not git["inside"]:
        found["git-0"] = f"{session.folder}/git/0"
    return found


def take(
    session: store.Session, record: store.Record, cause: str, message: str = "", *, always: bool = False, stop: bool = True
) -> About:
    """Take a checkpoint of a session, running or ended; return it, or the newest one when nothing changed since that.

    `cause`: why, or the command that is about to run; `always`: even when nothing changed. One that was taken by itself does not
    stand for one with a reason: what that holds is kept when nothing else is left. `stop`: let the sandbox stand still meanwhile,
    where it can be stopped; a file that changes while it is copied all the same is copied again, and named when it will not hold
    still. Raises CheckpointFailed: a full disk, or too little room left for the agent; GaveWay: one of START or TIMER, which a
    process of low priority takes, when somebody waits for another. What was copied by then need not be copied again.
    """
    return take_all(session, record, (cause, message), always=always, stop=stop)[0]


def take_all(
    session: store.Session, record: store.Record, words: tuple[str, str], *, always: bool = False, stop: bool = True
) -> tuple[About, dict[str, Pieces]]:
    """Take a checkpoint as `take` does, by its cause and message; return with it what each tree holds, which is known by then."""
    folder, begun = f"{session.folder}/checkpoints", time.monotonic_ns()
    try:
        os.makedirs(f"{folder}/objects", 0o700, exist_ok=True)
        with turns.alone(folder), _stopped(session, record) if stop else nullcontext(bool) as stands_still:
            made, held = _take(folder, places(session, record), words, always=always)
            is_frozen = stands_still()
    except OSError as error:
        try:
            with turns.alone(folder):
                sweep(folder)
        except OSError:
            pass  # the session is gone, or the disk is: the first error says it
        hint = "make room, or let some go: agent-dev checkpoints --thin" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        events.note(session, events.CHECKPOINT, cause=words[0], failed=error.strerror)
        raise CheckpointFailed(session=session.id, reason=error.strerror, hint=hint) from error
    if made.is_new:
        took = (time.monotonic_ns() - begun) // 1_000_000
        more = {"changed": made.changed, "milliseconds": took, "frozen": is_frozen}
        events.note(session, events.CHECKPOINT, checkpoint=made.number, cause=words[0], **more)
    return made, held


def _stopped(session: store.Session, record: store.Record) -> AbstractContextManager[Callable[[], bool]]:
    if record.get("state") != store.RUNNING:
        return nullcontext(bool)  # False
    from agent_dev.checkpoint import freezer  # only of a running one

    return freezer.frozen(session, record)


def now(session: store.Session, record: store.Record) -> dict[str, dict[str, Node]]:
    """Return what every tree of a session holds at this moment, as a checkpoint would have it; nothing is copied."""
    return {name: node_table.nodes(found) for name, found in all_now(session, record).items()}


def all_now(session: store.Session, record: store.Record) -> dict[str, Pieces]:
    """Return the same by directory."""
    folder = f"{session.folder}/checkpoints"
    numbers = _numbers(folder)
    last = _last(folder, numbers)
    begun = time.time_ns()
    return {
        name: snapshot.take(path, pool.name_of, _known(folder, last, name), begun).pieces
        for name, path in places(session, record).items()
    }


def _take(folder: str, trees: dict[str, str], words: tuple[str, str], *, always: bool) -> tuple[About, dict[str, Pieces]]:
    now = time.time_ns()
    numbers = _numbers(folder)
    last = _last(folder, numbers)
    fd = os.open(f"{folder}/objects", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        known = {name: _known(folder, last, name) for name in trees}
        keep = pool.Pool(fd, last.size if last else 0, lambda: _contents(known)).add
        give_way = partial(turns.give_way, folder) if words[0] in _NOBODY_WAITS else None
        taken = {name: snapshot.take(path, keep, known[name], now, give_way) for name, path in trees.items()}
        changed = sum(len(history.changed(*node_table.unlike(known[name], one.pieces))) for name, one in taken.items())
        held = {name: one.pieces for name, one in taken.items()}
        if last is not None and not changed and not always and not (last.cause in BY_ITSELF and words[0] not in BY_ITSELF):
            return replace(last, is_new=False), held
        new = _About(numbers[-1] + 1 if numbers else 1, now, words, changed, sum(one.copied for one in taken.values()))
        return _write(folder, new, taken), held
    finally:
        os.close(fd)


def _last(folder: str, numbers: list[int]) -> About | None:
    """Return the last checkpoint; None when there is none, or it is damaged."""
    try:
        return about(folder, numbers[-1]) if numbers else None
    except DamagedCheckpoint:
        return None


def _known(folder: str, last: About | None, name: str) -> Pieces:
    """Return what the last checkpoint held; nothing when it is damaged: then all is copied anew."""
    try:
        return pieces(folder, last, name) if last is not None else {}
    except DamagedCheckpoint:
        return {}


def _contents(known: dict[str, Pieces]) -> Iterator[str]:
    return (node.content for one in known.values() for node in node_table.nodes(one).values() if node.content)


@dataclass(frozen=True, slots=True)
class _About:
    number: int
    time: int
    words: tuple[str, str]
    changed: int
    copied: int


def _write(folder: str, new: _About, taken: dict[str, snapshot.Snapshot]) -> About:
    temp = f"{folder}/.new"
    remove_tree(temp)
    os.mkdir(temp, 0o700)
    digests = []
    count = size = 0
    for name, one in taken.items():
        data = node_table.encode(one.pieces)
        _save(f"{temp}/{name}.table", data)
        digests.append((name, hashlib.sha256(data).hexdigest()))
        count, size = count + one.files, size + one.size
    problems = tuple(problem for one in taken.values() for problem in one.problems)
    made = About(new.number, new.time, *new.words, new.changed, count, size, new.copied, problems, tuple(digests))
    row = {name: getattr(made, name) for name in About.__slots__}
    _save(f"{temp}/about.json", quick_json.dumps({"version": VERSION, **row}))
    os.rename(temp, f"{folder}/{new.number}")
    return made


def _save(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


# Reading


def _numbers(folder: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except FileNotFoundError:
        return []


def listed(session: store.Session) -> tuple[About, ...]:
    """Return a session's checkpoints, oldest first; damaged ones are left out."""
    folder = f"{session.folder}/checkpoints"
    found = []
    for number in _numbers(folder):
        try:
            found.append(about(folder, number))
        except DamagedCheckpoint:
            continue
    return tuple(found)


def whole(session: store.Session) -> tuple[About, ...]:
    """Return those of which every table can be read, too, oldest first."""
    return tuple(one for one in listed(session) if _is_whole(session, one))


def damaged(session: store.Session) -> tuple[int, ...]:
    """Return the numbers of those that cannot be read, as a power cut may leave them."""
    good = {one.number for one in whole(session)}
    return tuple(number for number in _numbers(f"{session.folder}/checkpoints") if number not in good)


def _is_whole(session: store.Session, one: About) -> bool:
    try:
        all_pieces(session, one)
    except DamagedCheckpoint:
        return False
    return True


def find(session: store.Session, number: int) -> About:
    """Return one checkpoint. Raises UnknownCheckpoint, DamagedCheckpoint."""
    folder = f"{session.folder}/checkpoints"
    if number not in _numbers(folder):
        raise UnknownCheckpoint(number=number, session=session.id, hint="agent-dev checkpoints lists them")
    return about(folder, number)


def about(folder: str, number: int) -> About:
    """Return what one checkpoint says of itself. Raises DamagedCheckpoint."""
    try:
        row = quick_json.loads(_read(folder, number, "about.json"))
    except ValueError as error:
        raise DamagedCheckpoint(number=number, reason=str(error)) from None
    if not isinstance(row, dict) or row.pop("version", None) not in _READ:
        raise DamagedCheckpoint(number=number, reason="another version of agent-dev made it")
    row |= {"problems": tuple(row["problems"]), "digests": tuple((name, digest) for name, digest in row["digests"])}
    return About(**row)


def _read(folder: str, number: int, name: str) -> bytes:
    try:
        with open(f"{folder}/{number}/{name}", "rb", 0) as file:
            return file.read()
    except OSError as error:
        raise DamagedCheckpoint(number=number, reason=str(error)) from None


def pieces(folder: str, one: About, name: str) -> Pieces:
    """Return what one tree held, by directory; nothing for a tree that the checkpoint does not know. Raises DamagedCheckpoint."""
    digest = dict(one.digests).get(name)
    if digest is None:
        return {}
    data = _read(folder, one.number, f"{name}.table")
    if hashlib.sha256(data).hexdigest() != digest:
        raise DamagedCheckpoint(number=one.number, reason=f"{name}.table is not as it was written")
    return node_table.decode(data)


def table(session: store.Session, one: About, name: str = FIRST) -> dict[str, Node]:
    """Return what one tree held, by path. Raises DamagedCheckpoint."""
    return node_table.nodes(pieces(f"{session.folder}/checkpoints", one, name))


def tables(session: store.Session, one: About) -> dict[str, dict[str, Node]]:
    """Return what every tree of a checkpoint held. Raises DamagedCheckpoint."""
    return {name: node_table.nodes(found) for name, found in all_pieces(session, one).items()}


def all_pieces(session: store.Session, one: About) -> dict[str, Pieces]:
    """Return the same by directory. Raises DamagedCheckpoint."""
    return {name: pieces(f"{session.folder}/checkpoints", one, name) for name, _ in one.digests}


def content(session: store.Session, digest: str) -> int:
    """Open a content of the pool, once its bytes are known to be those that were copied. Raises OSError."""
    fd = os.open(f"{session.folder}/checkpoints/objects/{digest}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if pool.digest_of(fd) != digest:
        os.close(fd)
        raise OSError(errno.EBADMSG, "its content is not as it was copied")
    return fd


# Letting go


def let_go(session: store.Session, keep: Keep, interval: int, *, is_dry: bool = False) -> tuple[About, ...]:
    """Remove the checkpoints that need not be kept, and return them; `is_dry`: only say which. `interval` in ns."""
    folder = f"{session.folder}/checkpoints"
    if not os.path.isdir(folder):
        return ()
    with turns.alone(folder):
        found = {one.number: one for one in listed(session)}
        held = tuple(Held(one.number, one.time, one.copied, one.cause == MANUAL) for one in found.values())
        open_since = door.marked(session) or sys.maxsize  # what the agent may have to be rolled back to stays
        gone = tuple(one for one in history.thinned(held, time.time_ns(), interval, keep) if one < open_since)
        if not is_dry and gone:
            for number in gone:
                remove_tree(f"{folder}/{number}")
            sweep(folder)
    return tuple(found[number] for number in gone)


def sweep(folder: str) -> None:
    """Remove the contents that no checkpoint names, and what a killed one left. Nothing while one cannot be read."""
    used = set()
    for number in _numbers(folder):
        try:
            one = about(folder, number)
            used |= {node.content for name, _ in one.digests for node in node_table.nodes(pieces(folder, one, name)).values()}
        except DamagedCheckpoint:
            return
    remove_tree(f"{folder}/.new")
    with os.scandir(f"{folder}/objects") as entries:
        for entry in entries:
            if entry.name not in used:
                os.unlink(entry.path)
