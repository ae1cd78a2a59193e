"""Checkpoints on disk: `checkpoints/<number>/` each, and one pool of contents that all of them share.

`checkpoints/<number>/about.json` describes it, `<tree>.table` lists the nodes of one tree; `checkpoints/objects/` holds contents
by SHA-256. A checkpoint is written under another name and renamed to its number when it is complete.
"""

import errno
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from agent_dev import snapshot_retention
from agent_dev.checkpoint import content_pool, lock, node_table, restore_plan, snapshot
from agent_dev.checkpoint.node_table import Pieces
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.errors import CheckpointFailed, DamagedCheckpoint, UnknownCheckpoint
from agent_dev.fs import checksummed_json
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import streams
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session import events, open_transaction, store
from agent_dev.snapshot_retention import RetainedItem, RetentionLimits

VERSION = 3
_READ = (1, VERSION)
START, END, TIMER, MANUAL, ROLLBACK = "start", "end", "timer", "manual", "before a rollback"
AUTOMATIC_CAUSES = (START, TIMER, END)  # not requested by the user
_BACKGROUND = (START, TIMER)  # taken at low priority, in the background
FIRST_ROOT = "root-0"  # the key of the repository's tree in `places`


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The description of a checkpoint. `time` in ns since 1970.

    `changed`: number of paths that differ from the previous one, without those in the agent's git directory; `size`: bytes of all
    its files, `copied`: bytes that were new; `problems`: unreadable files, and files that kept changing.
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
    digests: tuple[tuple[str, str], ...]  # digests of the tables, by tree
    is_new: bool = True  # False: nothing changed since the newest checkpoint, which is returned


def tree_paths(session: store.Session, record: store.Record) -> dict[str, str]:
    """Return the paths of a session's trees that a checkpoint holds, by file name: the uppers and the git directories."""
    found = {f"root-{number}": session.root(number, "").upper for number in range(len(record["roots"]))}
    outside = (git["root"] for git in record["git"] if not git["inside"])
    return found | {f"git-{number}": f"{session.folder}/git/{number}" for number in outside}


def take_checkpoint(
    session: store.Session, record: store.Record, cause: str, message: str = "", *, always: bool = False, stop: bool = True
) -> Checkpoint:
    """Take a checkpoint of a running or ended session; return it, or the newest one if nothing changed since.

    `cause`: why, or the command about to run; `always`: even if nothing changed. An automatic checkpoint does not replace one
    with a reason, since retention treats them differently. `stop`: freeze the sandbox while copying; a file that still changes
    while it is copied is copied again, and reported if it keeps changing. Raises CheckpointFailed for a full disk or too little
    free space for the agent, YieldedLock for START or TIMER, which run at low priority, if another process waits for the lock.
    Contents copied before a failure are reused.
    """
    return take_with_pieces(session, record, (cause, message), always=always, stop=stop)[0]


def take_with_pieces(
    session: store.Session, record: store.Record, reason: tuple[str, str], *, always: bool = False, stop: bool = True
) -> tuple[Checkpoint, dict[str, Pieces]]:
    """Do the same as `take_checkpoint`, given (cause, message); also return the contents of each tree."""
    folder, started = f"{session.folder}/checkpoints", time.monotonic_ns()
    try:
        os.makedirs(f"{folder}/objects", 0o700, exist_ok=True)
        with lock.exclusive_lock(folder), _freeze_if_running(session, record) if stop else nullcontext(bool) as is_still_frozen:
            taken, tree_pieces = _take(folder, tree_paths(session, record), reason, always=always)
            is_frozen = is_still_frozen()
    except OSError as error:
        try:
            with lock.exclusive_lock(folder):
                remove_unreferenced(folder)
        except OSError:
            pass  # the session or the disk is gone: the first error is reported
        hint = "free disk space, or agent-dev checkpoints --thin" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        events.log_event(session, events.CHECKPOINT, cause=reason[0], failed=error.strerror)
        raise CheckpointFailed(session=store.session_name(session), reason=error.strerror, hint=hint) from error
    if taken.is_new:
        duration = (time.monotonic_ns() - started) // 1_000_000
        details = {"changed": taken.changed, "milliseconds": duration, "frozen": is_frozen}
        events.log_event(session, events.CHECKPOINT, checkpoint=taken.number, cause=reason[0], **details)
    return taken, tree_pieces


def _freeze_if_running(session: store.Session, record: store.Record) -> AbstractContextManager[Callable[[], bool]]:
    if record.get("state") != store.RUNNING:
        return nullcontext(bool)  # bool() is False: nothing is frozen
    from agent_dev.checkpoint import freezer  # only for a running session

    return freezer.freeze(session, record)


def current_nodes(session: store.Session, record: store.Record) -> dict[str, dict[str, Node]]:
    """Return the current nodes of all trees of a session, as a checkpoint would hold them; nothing is copied."""
    return {name: node_table.all_nodes(found) for name, found in current_pieces(session, record).items()}


def current_pieces(session: store.Session, record: store.Record) -> dict[str, Pieces]:
    """Return the current contents of all trees, by directory."""
    folder = f"{session.folder}/checkpoints"
    numbers = _numbers(folder)
    last = _last(folder, numbers)
    started = time.time_ns()
    return {
        name: snapshot.take_snapshot(path, content_pool.name_content, _known(folder, last, name), started).pieces
        for name, path in tree_paths(session, record).items()
    }


def _take(folder: str, trees: dict[str, str], reason: tuple[str, str], *, always: bool) -> tuple[Checkpoint, dict[str, Pieces]]:
    now = time.time_ns()
    numbers = _numbers(folder)
    last = _last(folder, numbers)
    fd = os.open(f"{folder}/objects", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        known = {name: _known(folder, last, name) for name in trees}
        keep = content_pool.ContentPool(fd, last.size if last else 0, lambda: _contents(known)).add
        yield_lock = partial(lock.yield_to_waiter, folder) if reason[0] in _BACKGROUND else None
        snapshots = {name: snapshot.take_snapshot(path, keep, known[name], now, yield_lock) for name, path in trees.items()}
        changed = {name: node_table.changed_paths(known[name], one.pieces) for name, one in snapshots.items()}
        tree_pieces = {name: one.pieces for name, one in snapshots.items()}
        if (
            last is not None
            and not any(changed.values())
            and not always
            and not (last.cause in AUTOMATIC_CAUSES and reason[0] not in AUTOMATIC_CAUSES)
        ):
            return replace(last, is_new=False), tree_pieces
        shown = sum(len(shown_paths(name, paths)) for name, paths in changed.items())
        copied = sum(one.copied for one in snapshots.values())
        new = _NewCheckpoint(numbers[-1] + 1 if numbers else 1, now, reason, shown, copied)
        return _write(folder, new, snapshots), tree_pieces
    finally:
        os.close(fd)


def shown_paths(tree: str, paths: tuple[str, ...]) -> list[str]:
    """Return a tree's paths as shown to users: without git's directory; outside the first root, with the tree's name."""
    prefix = "" if tree == FIRST_ROOT else f"{tree}:"
    return [prefix + path for path in paths if path and not restore_plan.is_git_path(prefix + path)]


def _last(folder: str, numbers: list[int]) -> Checkpoint | None:
    """Return the last checkpoint; None if there is none or it is damaged."""
    try:
        return read_checkpoint(folder, numbers[-1]) if numbers else None
    except DamagedCheckpoint:
        return None


def _known(folder: str, last: Checkpoint | None, name: str) -> Pieces:
    """Return a tree of the last checkpoint; empty if that is damaged: then everything is copied again."""
    try:
        return read_pieces(folder, last, name) if last is not None else {}
    except DamagedCheckpoint:
        return {}


def _contents(known: dict[str, Pieces]) -> Iterator[str]:
    return (node.content for one in known.values() for node in node_table.iterate_nodes(one) if node.content)


@dataclass(frozen=True, slots=True)
class _NewCheckpoint:
    number: int
    time: int
    reason: tuple[str, str]
    changed: int
    copied: int


def _write(folder: str, new: _NewCheckpoint, snapshots: dict[str, snapshot.TreeSnapshot]) -> Checkpoint:
    temp = f"{folder}/.new"
    remove_tree(temp)
    os.mkdir(temp, 0o700)
    digests = []
    count = size = 0
    for name, one in snapshots.items():
        data = node_table.encode_table(one.pieces)
        _save(f"{temp}/{name}.table", data)
        digests.append((name, hashlib.sha256(data).hexdigest()))
        count, size = count + one.files, size + one.size
    problems = tuple(problem for one in snapshots.values() for problem in one.problems)
    taken = Checkpoint(new.number, new.time, *new.reason, new.changed, count, size, new.copied, problems, tuple(digests))
    row = {name: getattr(taken, name) for name in Checkpoint.__slots__}
    _save(f"{temp}/about.json", checksummed_json.dumps({"version": VERSION, **row}))
    os.rename(temp, f"{folder}/{new.number}")
    return taken


def _save(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        streams.write_all(fd, data)
    finally:
        os.close(fd)


# Reading


def _numbers(folder: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except FileNotFoundError:
        return []


def list_checkpoints(session: store.Session) -> tuple[Checkpoint, ...]:
    """Return a session's undamaged checkpoints, oldest first."""
    folder = f"{session.folder}/checkpoints"
    found = []
    for number in _numbers(folder):
        try:
            found.append(read_checkpoint(folder, number))
        except DamagedCheckpoint:
            continue
    return tuple(found)


def list_readable(session: store.Session) -> tuple[Checkpoint, ...]:
    """Return the checkpoints whose tables are all readable, oldest first."""
    return tuple(one for one in list_checkpoints(session) if _is_readable(session, one))


def damaged_numbers(session: store.Session) -> tuple[int, ...]:
    """Return the numbers of damaged checkpoints; a power cut can leave some."""
    good = {one.number for one in list_readable(session)}
    return tuple(number for number in _numbers(f"{session.folder}/checkpoints") if number not in good)


def _is_readable(session: store.Session, one: Checkpoint) -> bool:
    try:
        read_all_pieces(session, one)
    except DamagedCheckpoint:
        return False
    return True


def find_checkpoint(session: store.Session, number: int) -> Checkpoint:
    """Return one checkpoint. Raises UnknownCheckpoint, DamagedCheckpoint."""
    folder = f"{session.folder}/checkpoints"
    if number not in _numbers(folder):
        raise UnknownCheckpoint(number=number, session=store.session_name(session), hint="agent-dev checkpoints lists them")
    return read_checkpoint(folder, number)


def read_checkpoint(folder: str, number: int) -> Checkpoint:
    """Return the description of a checkpoint. Raises DamagedCheckpoint."""
    try:
        row = checksummed_json.loads(_read(folder, number, "about.json"))
    except ValueError as error:
        raise DamagedCheckpoint(number=number, reason=str(error)) from None
    if row.pop("version", None) not in _READ:
        raise DamagedCheckpoint(number=number, reason="it was written by another version of agent-dev")
    row |= {"problems": tuple(row["problems"]), "digests": tuple((name, digest) for name, digest in row["digests"])}
    return Checkpoint(**row)


def _read(folder: str, number: int, name: str) -> bytes:
    try:
        with open(f"{folder}/{number}/{name}", "rb", 0) as file:
            return file.read()
    except OSError as error:
        raise DamagedCheckpoint(number=number, reason=str(error)) from None


def read_pieces(folder: str, one: Checkpoint, name: str) -> Pieces:
    """Return one tree of a checkpoint, by directory; empty for a tree that it does not have. Raises DamagedCheckpoint."""
    digest = dict(one.digests).get(name)
    if digest is None:
        return {}
    data = _read(folder, one.number, f"{name}.table")
    if hashlib.sha256(data).hexdigest() != digest:
        raise DamagedCheckpoint(number=one.number, reason=f"checksum mismatch in {name}.table")
    return node_table.decode_table(data)


def read_table(session: store.Session, one: Checkpoint, name: str = FIRST_ROOT) -> dict[str, Node]:
    """Return the nodes of one tree by path. Raises DamagedCheckpoint."""
    return node_table.all_nodes(read_pieces(f"{session.folder}/checkpoints", one, name))


def read_tables(session: store.Session, one: Checkpoint) -> dict[str, dict[str, Node]]:
    """Return the nodes of all trees of a checkpoint. Raises DamagedCheckpoint."""
    return {name: node_table.all_nodes(found) for name, found in read_all_pieces(session, one).items()}


def read_all_pieces(session: store.Session, one: Checkpoint) -> dict[str, Pieces]:
    """Return all trees of a checkpoint, by directory. Raises DamagedCheckpoint."""
    return {name: read_pieces(f"{session.folder}/checkpoints", one, name) for name, _ in one.digests}


def open_content(session: store.Session, digest: str) -> int:
    """Open a content file of the pool after verifying its digest. Raises OSError."""
    fd = os.open(f"{session.folder}/checkpoints/objects/{digest}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if content_pool.digest_of(fd) != digest:
        os.close(fd)
        raise OSError(errno.EBADMSG, "checksum mismatch")
    return fd


# Pruning


def prune(session: store.Session, keep: RetentionLimits, interval: int, *, is_dry: bool = False) -> tuple[Checkpoint, ...]:
    """Prune checkpoints by the retention rules and return them; `is_dry`: only return them. `interval` in ns."""
    folder = f"{session.folder}/checkpoints"
    if not os.path.isdir(folder):
        return ()
    with lock.exclusive_lock(folder):
        found = {one.number: one for one in list_checkpoints(session)}
        entries = tuple(RetainedItem(one.number, one.time, one.copied, one.cause == MANUAL) for one in found.values())
        open_since = open_transaction.recorded_checkpoint(session) or sys.maxsize  # an open transaction may need its checkpoint
        pruned = tuple(
            one for one in snapshot_retention.select_expired(entries, time.time_ns(), interval, keep) if one < open_since
        )
        if not is_dry and pruned:
            for number in pruned:
                _remove_whole(folder, number)
            remove_unreferenced(folder)
    return tuple(found[number] for number in pruned)


def _remove_whole(folder: str, number: int) -> None:
    """Remove a checkpoint under another name: if this process is killed, no part of it counts as a damaged checkpoint."""
    remove_tree(f"{folder}/.old")  # of a killed process
    os.rename(f"{folder}/{number}", f"{folder}/.old")
    remove_tree(f"{folder}/.old")


def remove_unreferenced(folder: str) -> None:
    """Remove unreferenced contents and leftovers of killed processes. Do nothing while a checkpoint is damaged."""
    used = set()
    for number in _numbers(folder):
        try:
            one = read_checkpoint(folder, number)
            used |= {node.content for name, _ in one.digests for node in node_table.iterate_nodes(read_pieces(folder, one, name))}
        except DamagedCheckpoint:
            return
    for name in (".new", ".old"):
        remove_tree(f"{folder}/{name}")
    with os.scandir(f"{folder}/objects") as entries:
        for entry in entries:
            if entry.name not in used:
                os.unlink(entry.path)
