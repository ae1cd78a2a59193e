"""Being the only one that makes or removes the checkpoints of a session; who waits for that is seen by who can give way.

The folder's own lock says who is at it. Whoever waits next for it holds the one on `objects` meanwhile. Both go with their
process, however it ends.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


class GaveWay(Exception):
    """A checkpoint for which nobody waits was given up, since somebody waits for another."""


@contextmanager
def alone(folder: str) -> Iterator[None]:
    """Be the only one at the checkpoints in a folder, as soon as who was there before has ended."""
    fd = _opened(folder)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with _seen_waiting(folder):
                fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def _seen_waiting(folder: str) -> Iterator[None]:
    fd = _opened(f"{folder}/objects")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def give_way(folder: str) -> None:
    """Raise GaveWay if somebody waits."""
    fd = _opened(f"{folder}/objects")
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two processes of one checkpoint ask
    except BlockingIOError:
        raise GaveWay from None
    finally:
        os.close(fd)


def _opened(folder: str) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
