"""Hearing of each execve before it happens: the filter, the listener, and the words of the call (seccomp_unotify(2)).

The call waits until it is answered. When nobody is left to answer, it fails. What is read from the caller's memory can be
changed by another of its threads before the kernel reads it again: a guard rail, never a boundary.
"""

import fcntl
import os
import struct

from agent_dev.sandbox import seccomp
from agent_dev.supervisor.exec_arguments import FEW, MANY, Reader, Words

_RECEIVE, _SEND, _IS_VALID, _FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SYNC_WAKE_UP = 1  # wake each other on the waker's own processor
_OFTEN = 8  # calls
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QI4xI4x8x3Q24x")  # id, thread, number of the call, its first arguments
_ANSWER = struct.Struct("=QqiI")
_EMPTY = bytes(_NOTIFICATION.size)
_AT_FDCWD = 0xFFFFFF9C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Told = tuple[int, int, int, int, int]


class Call:
    """An execve that waits: who calls, which file, with which words; when, for whom and where is noted by who hears of it."""

    __slots__ = ("cwd", "end", "id", "last", "parent", "path", "pid", "rule", "time", "words")

    def __init__(self, told: tuple[int, int], path: bytes, words: Words) -> None:
        self.id, self.pid = told
        self.path, self.words = path, words
        self.time = self.last = 0  # ns since 1970: of the first place on its PATH, and of the last
        self.parent = 0
        self.end = -1  # a pidfd that tells how it ended
        self.cwd = self.rule = ""

    @property
    def program(self) -> str:
        """The path as it was called."""
        return os.fsdecode(self.path)

    @property
    def argv(self) -> tuple[str, ...]:
        """The words."""
        return self.words.argv

    def row(self) -> "dict[str, Any]":
        """Return what the log says of it."""
        names = ("time", "pid", "parent", "cwd", "program", "argv")
        row = {name: getattr(self, name) for name in names}
        return {**row, "cut": True} if self.words.is_cut else row


def program(machine: str = "") -> bytes:
    """Return the filter for a machine (this one unless named); empty for one that is not known."""
    return seccomp.watching(machine or os.uname().machine)


class Listener:
    """The descriptor that tells of calls."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._reader = Reader()
        self._notification = bytearray(_NOTIFICATION.size)
        self._execveat = seccomp.NUMBERS["execveat"][seccomp.column()]
        self._heard, self._flags = 0, 0
        self._can_choose, self._are_others = True, False
        try:
            self._load = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._load = -1
        self._wake_up(_SYNC_WAKE_UP)

    def _wake_up(self, flags: int) -> None:
        """Say on whose processor to wake: who calls always wakes us on its own, since it waits for nothing but us.

        Where nothing else runs we wake it on ours, which is quicker by a fifth. Where something does it would wait there behind
        that, for milliseconds, while the processor it came from has nothing to do.
        """
        if flags == self._flags or not self._can_choose:
            return
        try:
            fcntl.ioctl(self.fd, _FLAGS, flags)
        except OSError:
            self._can_choose = False  # before Linux 6.6: only slower
        self._flags = flags

    def _is_alone(self) -> bool:
        try:
            return os.pread(self._load, 64, 0).split(None, 4)[3].startswith(b"1/")  # how many run, of how many
        except OSError:
            return True

    def receive(self) -> "Told | None":
        """Return id, thread, address of the path, of the words, and the directory; None when the caller is gone."""
        self._heard += 1
        if not self._heard % _OFTEN:
            self._are_others = not self._is_alone()
        self._notification[:] = _EMPTY
        try:
            fcntl.ioctl(self.fd, _RECEIVE, self._notification)
        except OSError:
            return None
        number, pid, call, first, second, third = _NOTIFICATION.unpack(self._notification)
        if call == self._execveat:
            return number, pid, second, third, first & 0xFFFFFFFF
        return number, pid, first, second, _AT_FDCWD

    def again(self, told: "Told", before: Call) -> bytes | None:
        """Return the path of a call whose words are those of the one before, at the same places; None where anything differs."""
        return self._reader.again(before.words, told[1], told[2], told[3])

    def call(self, told: "Told", *, all_of_it: bool = False) -> Call:
        """Read what is called. Raises OSError when it cannot be read."""
        number, pid, address, argv, folder = told
        path, words = self._reader.read(pid, address, argv, MANY if all_of_it else FEW)
        if folder != _AT_FDCWD and not path.startswith(b"/"):
            opened = os.fsencode(os.readlink(f"/proc/{pid}/fd/{folder}"))  # the program itself, or the directory it is in
            path = b"/".join(filter(None, (opened, path)))
        return Call((number, pid), path, words)

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
        if self._are_others:
            self._wake_up(0)
        try:
            fcntl.ioctl(self.fd, _SEND, answer)
        except OSError:
            return False  # the caller is gone
        finally:
            self._wake_up(_SYNC_WAKE_UP)
        return True
