"""Hearing of each execve before it happens: the filter, the listener, and the words of the call (seccomp_unotify(2)).

The call waits until it is answered. When nobody is left to answer, it fails. What is read from the caller's memory can be
changed by another of its threads before the kernel reads it again: a guard rail, never a boundary.
"""

import fcntl
import os
import struct

from agent_dev.host import seccomp, words

_RECEIVE, _SEND, _IS_VALID, _FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SYNC_WAKE_UP = 1  # wake the caller on our own processor: it waits for nothing but us
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_EMPTY = bytes(_NOTIFICATION.size)
_AT_FDCWD = 0xFFFFFF9C


class Call:
    """An execve that waits: who calls, which file, with which words. `is_cut`: there are more or longer words."""

    __slots__ = ("argv", "id", "is_cut", "pid", "program")

    def __init__(self, told: tuple[int, int], program: str, found: "words.Words") -> None:
        self.id, self.pid = told
        self.program = program
        self.argv, self.is_cut = found


def program(machine: str = "") -> bytes:
    """Return the filter for a machine (this one unless named); empty for one that is not known."""
    return seccomp.watching(machine or os.uname().machine)


class Listener:
    """The descriptor that tells of calls."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._reader = words.Reader()
        self._notification = bytearray(_NOTIFICATION.size)
        self._execveat = seccomp.NUMBERS["execveat"][seccomp.column()]
        try:
            fcntl.ioctl(fd, _FLAGS, _SYNC_WAKE_UP)
        except OSError:
            pass  # before Linux 6.6: only slower

    def receive(self) -> tuple[int, int, int, int, int] | None:
        """Return id, thread, address of the path, of the words, and the directory; None when the caller is gone."""
        self._notification[:] = _EMPTY
        try:
            fcntl.ioctl(self.fd, _RECEIVE, self._notification)
        except OSError:
            return None
        number, pid, _, call, _, _, first, second, third, *_ = _NOTIFICATION.unpack(self._notification)
        if call == self._execveat:
            return number, pid, second, third, first & 0xFFFFFFFF
        return number, pid, first, second, _AT_FDCWD

    def words(self, told: tuple[int, int, int, int, int], *, all_of_it: bool = False) -> Call:
        """Read what is called. Raises OSError when it cannot be read."""
        number, pid, path, argv, folder = told
        again = None if all_of_it else self._reader.again(pid, path, argv)
        program, found = again or self._reader.read(pid, path, argv, words.MANY if all_of_it else words.FEW)
        if not program and folder != _AT_FDCWD:
            program = os.fsencode(os.readlink(f"/proc/{pid}/fd/{folder}"))
        return Call((number, pid), os.fsdecode(program), found)

    def is_valid(self, number: int) -> bool:
        """Whether the caller still waits: then what was read was its own."""
        try:
            fcntl.ioctl(self.fd, _IS_VALID, number.to_bytes(8, "little"))
        except OSError:
            return False
        return True

    def go_on(self, number: int) -> bool:
        """Let the call happen; return whether the caller still waited: then what was read was its own."""
        return self._answer(_ANSWER.pack(number, 0, 0, _CONTINUE))

    def refuse(self, number: int, error: int) -> None:
        """Let the call fail."""
        self._answer(_ANSWER.pack(number, 0, -error, 0))

    def _answer(self, answer: bytes) -> bool:
        try:
            fcntl.ioctl(self.fd, _SEND, answer)
        except OSError:
            return False  # the caller is gone
        return True
