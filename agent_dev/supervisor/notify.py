"""Receive each execve and rename before it happens: the seccomp listener and the call's arguments (seccomp_unotify(2)).

The call waits until it is answered, and fails once there is no supervisor. Another thread of the caller can change the
arguments before the kernel reads them again: this is a guard rail, not a security boundary.
"""

import fcntl
import os
import struct

from agent_dev.linux import syscalls
from agent_dev.sandbox import seccomp
from agent_dev.supervisor.exec_arguments import MAX_ARGUMENTS, USUAL_ARGUMENTS, ArgumentReader, ExecArguments

_RECEIVE, _SEND, _IS_VALID, _FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SYNC_WAKE_UP = 1  # wake the other process on the waker's CPU
_LOAD_INTERVAL = 32  # calls between two checks of the machine's load
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QI4xI4x8x5Q8x")  # id, thread, number of the call, its first arguments
_RESPONSE = struct.Struct("=QqiI")
_EMPTY = bytes(_NOTIFICATION.size)
_LOW_HALF = 0xFFFFFFFF  # the part that the kernel reads as an int
AT_FDCWD = 0xFFFFFF9C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Notification = tuple[int, int, int, int, int]


class ExecCall:
    """An execve that waits for an answer: caller, path and arguments; the receiver adds time, parent and directory."""

    __slots__ = ("arguments", "cwd", "id", "last_time", "parent", "path", "pid", "pidfd", "rule", "time")

    def __init__(self, identity: tuple[int, int], path: bytes, words: ExecArguments) -> None:
        self.id, self.pid = identity
        self.path, self.arguments = path, words
        self.time = self.last_time = 0  # ns since 1970: of the first PATH lookup, and of the last
        self.parent = 0
        self.pidfd = -1  # a pidfd, for the exit code
        self.cwd = self.rule = ""

    @property
    def program(self) -> str:
        """The path as called."""
        return os.fsdecode(self.path)

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments."""
        return self.arguments.argv

    def row(self) -> "dict[str, Any]":
        """Return the log entry."""
        names = ("time", "pid", "parent", "cwd", "program", "argv")
        row = {name: getattr(self, name) for name in names}
        return {**row, "truncated": True} if self.arguments.is_truncated else row


class RenameCall:
    """A rename that waits for an answer: the arguments of renameat2(2); paths are addresses in the caller's memory."""

    __slots__ = ("flags", "id", "new", "new_folder", "old", "old_folder", "pid")

    def __init__(  # noqa: PLR0913, PLR0917  the arguments of the call; a tuple of them would cost more time than the rest
        self, number: int, pid: int, old_folder: int, old: int, new_folder: int, new: int, flags: int
    ) -> None:
        self.id, self.pid = number, pid
        self.old_folder, self.old = old_folder, old
        self.new_folder, self.new = new_folder, new
        self.flags = flags


class LookupCall:
    """A call that looks for a path, and waits for an answer; the path is an address in the caller's memory."""

    __slots__ = ("address", "id", "pid")

    def __init__(self, number: int, pid: int, address: int) -> None:
        self.id, self.pid, self.address = number, pid, address


class Listener:
    """The seccomp listener, which receives calls and answers them."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._reader = ArgumentReader()
        self._notification = bytearray(_NOTIFICATION.size)
        column = seccomp.number_column()
        self._execveat = seccomp.NUMBERS["execveat"][column]
        self._rename, self._renameat, self._renameat2 = (seccomp.NUMBERS[name][column] for name in seccomp.RENAMES)
        self._lookups = {seccomp.NUMBERS[name][column]: argument for name, argument in seccomp.LOOKUPS.items()}
        self._received, self._flags = 0, 0
        self._can_set_flags, self._is_busy = True, False
        try:
            self._loadavg = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._loadavg = -1
        self._set_wake_up(_SYNC_WAKE_UP)

    def _set_wake_up(self, flags: int) -> None:
        """Set on which CPU to wake callers. A caller always wakes us on its own CPU, since it only waits for us.

        On an idle machine we wake it on ours, which is faster by a fifth. On a busy machine it could wait there for
        milliseconds behind another process, while its previous CPU is idle.
        """
        if flags == self._flags or not self._can_set_flags:
            return
        try:
            fcntl.ioctl(self.fd, _FLAGS, flags)
        except OSError:
            self._can_set_flags = False  # before Linux 6.6: slower
        self._flags = flags

    def _is_alone(self) -> bool:
        try:
            return os.pread(self._loadavg, 64, 0).split(None, 4)[3].startswith(b"1/")  # running/total
        except OSError:
            return True

    def receive(self) -> "Notification | RenameCall | LookupCall | None":
        """Return id, thread, addresses and directory of an execve, another call, or None if the caller is gone."""
        self._received += 1
        if not self._received % _LOAD_INTERVAL:
            self._is_busy = not self._is_alone()
        self._notification[:] = _EMPTY
        try:
            fcntl.ioctl(self.fd, _RECEIVE, self._notification)
        except OSError:
            return None
        number, pid, call, first, second, third, fourth, fifth = _NOTIFICATION.unpack(self._notification)
        if call == self._rename:
            return RenameCall(number, pid, AT_FDCWD, first, AT_FDCWD, second, 0)
        if call in (self._renameat, self._renameat2):
            flags = fifth & _LOW_HALF if call == self._renameat2 else 0
            return RenameCall(number, pid, first & _LOW_HALF, second, third & _LOW_HALF, fourth, flags)
        if call in self._lookups:
            return LookupCall(number, pid, second if self._lookups[call] else first)
        if call == self._execveat:
            return number, pid, second, third, first & _LOW_HALF
        return number, pid, first, second, AT_FDCWD

    def read_repeated(self, notification: "Notification", previous: ExecCall) -> bytes | None:
        """Return the path of a call that repeats the previous arguments at the same addresses; None if anything differs."""
        return self._reader.read_repeated(previous.arguments, notification[1], notification[2], notification[3])

    def read_call(self, notification: "Notification", *, is_complete: bool = False) -> ExecCall:
        """Read the path and arguments of a call. Raises OSError when they cannot be read."""
        number, pid, address, argv, folder = notification
        path, words = self._reader.read(pid, address, argv, MAX_ARGUMENTS if is_complete else USUAL_ARGUMENTS)
        if folder != AT_FDCWD and not path.startswith(b"/"):
            base = os.fsencode(os.readlink(f"/proc/{pid}/fd/{folder}"))  # the program itself, or its directory
            path = b"/".join(filter(None, (base, path)))
        return ExecCall((number, pid), path, words)

    def is_valid(self, number: int) -> bool:
        """Return whether the caller still waits, so that the memory that was read is its own."""
        try:
            fcntl.ioctl(self.fd, _IS_VALID, number.to_bytes(8, "little"))
        except OSError:
            return False
        return True

    def allow(self, number: int) -> bool:
        """Let the call continue; return as `is_valid`."""
        return self._respond(_RESPONSE.pack(number, 0, 0, _CONTINUE))

    def refuse(self, number: int, error: int) -> None:
        """Make the call fail with an error."""
        self._respond(_RESPONSE.pack(number, 0, -error, 0))

    def _respond(self, response: bytes) -> bool:
        if self._is_busy:
            self._set_wake_up(0)
        try:
            fcntl.ioctl(self.fd, _SEND, response)
        except OSError:
            return False  # the caller is gone
        finally:
            self._set_wake_up(_SYNC_WAKE_UP)
        return True


def exists_inside(call: "ExecCall", cwd: str) -> bool:
    """Return whether the program exists in the caller's root."""
    path = call.program if call.program.startswith("/") else f"{cwd}/{call.program}"
    try:
        root = os.open(f"/proc/{call.pid}/root", os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return True
    try:
        return syscalls.exists_in_root(root, os.fsencode(path))
    finally:
        os.close(root)
