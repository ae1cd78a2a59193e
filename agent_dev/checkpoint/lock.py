"""The lock on a session's checkpoints. A background holder yields to a waiter.

The holder locks the folder; the next waiter locks `objects` until then. Both locks end with their process.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


class YieldedLock(Exception):
    """A background checkpoint was abandoned because another process waits for the lock."""


@contextmanager
def exclusive_lock(folder: str) -> Iterator[None]:
    """Hold the exclusive lock on the checkpoints in a folder; wait for it."""
    fd = _open(folder)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with _announce_waiting(folder):
                fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def _announce_waiting(folder: str) -> Iterator[None]:
    fd = _open(f"{folder}/objects")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def yield_to_waiter(folder: str) -> None:
    """Raise YieldedLock if another process waits for the lock."""
    fd = _open(f"{folder}/objects")
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two processes of one checkpoint may check
    except BlockingIOError:
        raise YieldedLock from None
    finally:
        os.close(fd)


def _open(folder: str) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
