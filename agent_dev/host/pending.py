"""Marks of merges that have begun and are not yet at rest, so that a start finds an unfinished one by one look."""

import os

from agent_dev.host import disk
from agent_dev.host.store import Store


def listed(store: Store) -> tuple[str, ...]:
    """Return the ids of merges that are under way, or were when their process was killed; oldest first."""
    try:
        return tuple(sorted(os.listdir(store.pending)))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def add(store: Store, merge_id: str) -> None:
    """Make a mark; durable on return."""
    os.makedirs(store.pending, 0o700, exist_ok=True)
    folder = os.open(store.pending, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(disk.create(merge_id.encode(), folder))
        disk.fsync(folder)
    except FileExistsError:
        pass
    finally:
        os.close(folder)


def remove(store: Store, merge_id: str) -> None:
    """Remove a mark. That it comes back after a power cut does no harm: its merge is found at rest."""
    try:
        folder = os.open(store.pending, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        disk.unlink(merge_id.encode(), folder)
    except FileNotFoundError:
        pass
    finally:
        os.close(folder)
