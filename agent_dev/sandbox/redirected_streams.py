"""Pipes and copying processes between the sandbox and files that the user redirects to and from.

In the sandbox, `/proc/self/fd/0` would reopen the file, even for writing, and a directory would lead out of every mount; a pipe
refers to no file of the host. The same applies to a terminal that is not our controlling one: output to it is copied, and it is
never read. Loaded only if something is redirected.
"""

import fcntl
import os
import stat
import termios

from agent_dev.linux import signals, streams, syscalls
from agent_dev.sandbox.terminal.foreground import is_other_terminal

_ATOMIC = 4096  # bytes: PIPE_BUF, written completely or not at all
_CHUNK = 1 << 16


def _is_reopenable(fd: int) -> bool:
    """Return whether a descriptor refers to a file of the host that the sandbox could reopen."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False  # closed
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode) or is_other_terminal(fd)


class RedirectedStreams:
    """The pipes that replace stdin, stdout and stderr, and the copying processes. Made before the setup process is forked."""

    def __init__(self) -> None:
        self._inner: dict[int, int] = {}  # the agent's descriptor → the agent's pipe end
        self._input = -1  # the agent's end of the input, kept to count unread bytes
        self._copying: list[int] = []
        self._feeding = 0
        launcher = os.getpid()
        if _is_reopenable(0):
            self._input, feed = os.pipe()
            self._inner[0] = self._input
            self._feeding = self._fork(launcher, _feed, feed)
            os.close(feed)
        for fd in (1, 2):
            if _is_reopenable(fd):
                self._add_output(fd, launcher)

    def _add_output(self, fd: int, launcher: int) -> None:
        if fd == 2 and 1 in self._inner and os.path.sameopenfile(1, 2):
            self._inner[2] = self._inner[1]
            return
        drain, self._inner[fd] = os.pipe()
        self._copying.append(self._fork(launcher, _drain, drain, fd))
        os.close(drain)

    def _fork(self, launcher: int, copy: "object", *ends: int) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                syscalls.die_with_parent()
                for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM, signals.TSTP):
                    signals.ignore(number)
                for inner in self._inner.values():
                    if inner not in ends:
                        os.close(inner)
                if os.getppid() == launcher and callable(copy):
                    copy(*ends)
            finally:
                os._exit(0)
        return pid

    def use_sandbox_side(self) -> None:
        """Use the agent's side, in the setup process."""
        for fd, inner in self._inner.items():
            os.dup2(inner, fd)
        for inner in set(self._inner.values()):
            os.close(inner)

    def close_sandbox_side(self) -> None:
        """Close the agent's side, in the launcher; the setup process has it."""
        for inner in set(self._inner.values()) - {self._input}:
            os.close(inner)

    def finish(self) -> None:
        """Wait until all output is in its file; move stdin's offset back over unread input."""
        for pid in self._copying:
            os.waitpid(pid, 0)
        self._copying = []
        if self._feeding:
            os.kill(self._feeding, signals.KILL)
            os.waitpid(self._feeding, 0)
            self._feeding = 0
            unread = int.from_bytes(fcntl.ioctl(self._input, termios.FIONREAD, bytes(4)), "little")
            if unread:
                os.lseek(0, -unread, os.SEEK_CUR)
            os.close(self._input)


def _feed(pipe: int) -> None:
    """Copy standard input; its offset advances only after the pipe has accepted the data."""
    try:
        offset = os.lseek(0, 0, os.SEEK_CUR)
        while data := os.pread(0, _ATOMIC, offset):
            os.write(pipe, data)
            offset += len(data)
            os.lseek(0, offset, os.SEEK_SET)
    except OSError:
        return  # no reader, or a directory: the agent sees end of file


def _drain(pipe: int, fd: int) -> None:
    while data := os.read(pipe, _CHUNK):
        streams.write_all(fd, data)
