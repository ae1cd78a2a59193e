"""Marks of merges that have begun and are not yet at rest, so that a start finds an unfinished one by one look.

A mark is a file `ID~N`: N phases of the merge were begun. A journal that knows of fewer was cut off.
"""

import os

from agent_dev.fs import durable as disk
from agent_dev.session.store import Store


def listed(store: Store) -> tuple[str, ...]:
    """Return the ids of merges that are under way, or were when their process was killed; oldest first."""
    return tuple(sorted({name.rpartition("~")[0] for name in _names(store)}))


def phases(store: Store, merge_id: str) -> int:
    """Return how many phases of a merge were begun, by its mark."""
    counts = [name.rpartition("~")[2] for name in _names(store) if name.rpartition("~")[0] == merge_id]
    return max((int(count) for count in counts if count.isdigit()), default=0)


def _names(store: Store) -> tuple[str, ...]:
    try:
        return tuple(os.listdir(store.pending))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def add(store: Store, merge_id: str, count: int = 0) -> None:
    """Make a mark, in place of any other of this merge; durable on return."""
    try:
        disk.mkdir_path(store.pending)
        disk.sync_path(store.path)
    except FileExistsError:
        pass
    folder = os.open(store.pending, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    name = f"{merge_id}~{count}"
    others = [other for other in _names(store) if other != name and other.rpartition("~")[0] == merge_id]
    try:
        if others:
            disk.replace(folder, others.pop().encode(), name.encode())  # one change: a power cut leaves one or the other
        else:
            os.close(disk.create(name.encode(), folder))
    except FileExistsError:
        pass
    try:
        for other in others:
            disk.unlink(other.encode(), folder)
        disk.fsync(folder)
    finally:
        os.close(folder)


def remove(store: Store, merge_id: str) -> None:
    """Remove a mark. That it comes back after a power cut does no harm: its merge is found at rest."""
    try:
        folder = os.open(store.pending, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        for name in _names(store):
            if name.rpartition("~")[0] == merge_id:
                disk.unlink(name.encode(), folder)
    finally:
        os.close(folder)
