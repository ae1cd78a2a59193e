"""Marks of unfinished merges, found at the start of a command by reading one directory.

A mark is a file `ID~N`: N phases of the merge were begun. A journal with fewer phases is truncated.

When a merge is complete, its mark moves to the merge's folder as `rest-TIME-CHAIN`: the start of its last phase and the checksum
of its journal's last line. A journal that ends with another checksum is truncated too.
"""

import os

from agent_dev.fs import durable
from agent_dev.fs.state_files import list_names
from agent_dev.session.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.merge_engine.journal import Journal

_REST = "rest-"


def unfinished_merges(store: Store) -> tuple[str, ...]:
    """Return the ids of merges that are running or were killed, oldest first."""
    return tuple(sorted({name.rpartition("~")[0] for name in list_names(store.pending)}))


def phase_count(store: Store, merge_id: str) -> int:
    """Return how many phases of a merge were begun, according to its mark."""
    counts = [name.rpartition("~")[2] for name in list_names(store.pending) if name.rpartition("~")[0] == merge_id]
    return max((int(count) for count in counts if count.isdigit()), default=0)


def mark_pending(store: Store, merge_id: str, count: int = 0) -> None:
    """Create a mark, replacing any other of this merge; durable on return."""
    try:
        durable.mkdir_path(store.pending)
        durable.sync_path(store.path)
    except FileExistsError:
        pass
    folder = os.open(store.pending, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    name = f"{merge_id}~{count}"
    others = [other for other in list_names(store.pending) if other != name and other.rpartition("~")[0] == merge_id]
    try:
        if others:
            durable.replace(folder, others.pop().encode(), name.encode())  # atomic: a power cut leaves one of the two
        else:
            os.close(durable.create(name.encode(), folder))
    except FileExistsError:
        pass
    try:
        for other in others:
            durable.unlink(other.encode(), folder)
        durable.fsync(folder)
    finally:
        os.close(folder)


def mark_complete(store: Store, merge_id: str, journal: "Journal") -> None:
    """Mark a merge as complete: move its mark to its folder. If a power cut reverts that, recovery finds nothing to do."""
    name = f"{_REST}{journal.last_phase_time:x}-{journal.checksum:08x}".encode()
    folder = os.open(f"{store.merges}/{merge_id}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        other_marks = [other for other in _rest_marks(store, merge_id) if other != name.decode()]
        marks = [mark for mark in list_names(store.pending) if mark.rpartition("~")[0] == merge_id]
        if not marks:
            _create(name, folder)
        else:
            _move_mark(store, marks, folder, name)
        for other in other_marks:
            durable.unlink(other.encode(), folder)
    finally:
        os.close(folder)


def _create(name: bytes, folder: int) -> None:
    try:
        os.close(durable.create(name, folder))
    except FileExistsError:
        return


def _move_mark(store: Store, marks: list[str], folder: int, name: bytes) -> None:
    pending_dir = os.open(store.pending, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        durable.rename_over(pending_dir, marks[0].encode(), folder, name)
        for mark in marks[1:]:
            durable.unlink(mark.encode(), pending_dir)
    finally:
        os.close(pending_dir)


def is_truncated(store: Store, merge_id: str, journal: "Journal") -> bool:
    """Return whether a journal is truncated: lines missing from a complete one, or whole phases."""
    if merge_id in unfinished_merges(store):
        return journal.phases_begun < phase_count(store, merge_id)
    ends = [name.rpartition("-")[2] for name in _rest_marks(store, merge_id)]
    if ends:
        return f"{journal.checksum:08x}" not in ends
    from agent_dev.merge_engine.journal import NextAction  # every command imports this module, few read a journal

    return journal.next_action not in (NextAction.NONE, NextAction.DISCARD)


def is_end(store: Store, merge_id: str, checksum: str) -> bool:
    """Return whether a complete merge's mark names this checksum of its journal's last line, in hexadecimal."""
    return any(name.rpartition("-")[2] == checksum for name in _rest_marks(store, merge_id))


def last_phase_time(store: Store, merge_id: str) -> int:
    """Return when the last phase of a complete merge began, in ns since 1970; 0 without a mark."""
    times = [name.removeprefix(_REST).partition("-")[0] for name in _rest_marks(store, merge_id)]
    try:
        return max((int(time, 16) for time in times), default=0)
    except ValueError:
        return 0


def _rest_marks(store: Store, merge_id: str) -> list[str]:
    return [name for name in list_names(f"{store.merges}/{merge_id}") if name.startswith(_REST)]


def remove_mark(store: Store, merge_id: str) -> None:
    """Remove a merge's mark. If a power cut reverts that, recovery finds nothing to do."""
    try:
        folder = os.open(store.pending, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        for name in list_names(store.pending):
            if name.rpartition("~")[0] == merge_id:
                durable.unlink(name.encode(), folder)
    finally:
        os.close(folder)
