"""Hearing of each execve before it happens: the filter, the listener, and the words of the call (seccomp_unotify(2)).

The call waits until it is answered. When nobody is left to answer, it fails. What is read from the caller's memory can be
changed by another of its threads before the kernel reads it again: a guard rail, never a boundary.
"""

import fcntl
import os
import struct

from agent_dev.host import kernel, seccomp

_RECEIVE, _SEND, _IS_VALID, _FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SYNC_WAKE_UP = 1  # wake the caller on our own processor: it waits for nothing but us
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_LONGEST_PATH = 4096
_AT_FDCWD = 0xFFFFFF9C
_FEW_WORDS, _MANY_WORDS = 64, 4096
_LONGEST_WORD, _MANY_BYTES = 4096, 1 << 18


class Call:
    """An execve that waits: who calls, which file, with which words. `is_cut`: there are more or longer words."""

    __slots__ = ("argv", "id", "is_cut", "pid", "program")

    def __init__(self, told: tuple[int, int], program: str, argv: tuple[str, ...], *, is_cut: bool) -> None:
        self.id, self.pid = told
        self.program, self.argv, self.is_cut = program, argv, is_cut


def program(machine: str = "") -> bytes:
    """Return the filter for a machine (this one unless named); empty for one that is not known."""
    return seccomp.watching(machine or os.uname().machine)


class Listener:
    """The descriptor that tells of calls."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = kernel.Memory()
        self._notification = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(fd, _FLAGS, _SYNC_WAKE_UP)
        except OSError:
            pass  # before Linux 6.6: only slower

    def receive(self) -> tuple[int, int, int, int, int] | None:
        """Return id, thread, address of the path, of the words, and the directory; None when the caller is gone."""
        self._notification[:] = bytes(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, self._notification)
        except OSError:
            return None
        number, pid, _, call, _, _, first, second, third, *_ = _NOTIFICATION.unpack(self._notification)
        if call == seccomp.NUMBERS["execveat"][seccomp.column()]:
            return number, pid, second, third, first & 0xFFFFFFFF
        return number, pid, first, second, _AT_FDCWD

    def words(self, told: tuple[int, int, int, int, int], *, all_of_it: bool = False) -> Call:
        """Read what is called. Raises OSError when it cannot be read."""
        number, pid, path, argv, folder = told
        program = self._memory.text(pid, path, _LONGEST_PATH) if path else b""
        if not program and folder != _AT_FDCWD:
            program = os.fsencode(os.readlink(f"/proc/{pid}/fd/{folder}"))
        words, is_cut = self._argv(pid, argv, _MANY_WORDS if all_of_it else _FEW_WORDS)
        return Call((number, pid), os.fsdecode(program), tuple(map(os.fsdecode, words)), is_cut=is_cut)

    def _argv(self, pid: int, address: int, most: int) -> tuple[list[bytes], bool]:
        pointers: list[int] = []
        while address and len(pointers) < most:
            page = self._memory.page(pid, address + 8 * len(pointers), 8 * (most - len(pointers)))
            found = memoryview(page[: len(page) // 8 * 8]).cast("Q").tolist()
            if 0 in found:
                pointers += found[: found.index(0)]
                break
            pointers += found
            if not found:
                break
        is_cut = len(pointers) >= most
        words: list[bytes] = []
        known, start, left = b"", 0, _MANY_BYTES
        for pointer in pointers:
            at = pointer - start
            end = known.find(b"\0", at) if 0 <= at < len(known) else -1
            if end < 0:
                known, start, at = self._memory.page(pid, pointer), pointer, 0
                end = known.find(b"\0")
            word = known[at:end] if end >= 0 else self._memory.text(pid, pointer, _LONGEST_WORD)
            left -= len(word)
            is_cut |= len(word) >= _LONGEST_WORD
            if left < 0:
                return words, True
            words.append(word)
        return words, is_cut

    def is_valid(self, number: int) -> bool:
        """Whether the caller still waits: then what was read was its own."""
        try:
            fcntl.ioctl(self.fd, _IS_VALID, number.to_bytes(8, "little"))
        except OSError:
            return False
        return True

    def go_on(self, number: int) -> None:
        """Let the call happen."""
        self._answer(_ANSWER.pack(number, 0, 0, _CONTINUE))

    def refuse(self, number: int, error: int) -> None:
        """Let the call fail."""
        self._answer(_ANSWER.pack(number, 0, -error, 0))

    def _answer(self, answer: bytes) -> None:
        try:
            fcntl.ioctl(self.fd, _SEND, answer)
        except OSError:
            return  # the caller is gone
