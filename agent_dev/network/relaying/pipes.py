"""Pipes through which the kernel moves bytes from one socket to another without copying them (splice(2)).

There are few: their pages count against a limit of the user, beyond which the pipes of all the user's programs get smaller.
"""

import fcntl
import os
import socket

_MAX_PIPES = 8
_SIZE = 1 << 20  # bytes; the kernel's default limit for an ordinary user
_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK


class Pipe:
    """A pipe; `size` bytes are in it."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.size = 0
        try:
            fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, _SIZE)
        except OSError:
            pass  # the user's limit: it keeps its 64 KiB

    def fill(self, source: socket.socket) -> int:
        """Move bytes from a socket into the empty pipe; return how many, 0 at the end of the stream. Raises OSError."""
        self.size = os.splice(source.fileno(), self._writer, _SIZE, flags=_FLAGS)
        return self.size

    def drain(self, target: socket.socket) -> None:
        """Move bytes from the pipe to a socket. Raises OSError."""
        self.size -= os.splice(self._reader, target.fileno(), self.size, flags=_FLAGS)

    def close(self) -> None:
        """Close it, and drop what is in it."""
        os.close(self._reader)
        os.close(self._writer)


class PipePool:
    """The pipes of a process."""

    def __init__(self) -> None:
        self._free: list[Pipe] = []
        self._count = 0

    def take(self) -> Pipe | None:
        """Return an empty pipe; None if all are in use."""
        if self._free:
            return self._free.pop()
        if self._count >= _MAX_PIPES:
            return None
        try:
            made = Pipe()
        except OSError:
            return None  # too many open files
        self._count += 1
        return made

    def give_back(self, pipe: Pipe) -> None:
        """Take a pipe back."""
        if pipe.size:
            pipe.close()
            self._count -= 1
        else:
            self._free.append(pipe)
