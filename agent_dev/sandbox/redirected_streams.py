"""Files that the user redirects to and from, parted from the sandbox by a pipe and a process that copies.

Inside, `/proc/self/fd/0` would open the file anew, for writing too, and a directory there would be a way out of every
mount; a pipe is no file of the host's. Loaded only when something is redirected.
"""

import fcntl
import os
import stat
import termios

from agent_dev.linux import signals
from agent_dev.linux import syscalls as kernel

_WHOLE = 4096  # bytes: a pipe takes as many or none
_LARGE = 1 << 16


def _is_file(fd: int) -> bool:
    """Whether a descriptor leads to something of the host's that can be opened anew from inside."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False  # closed
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)


class Streams:
    """The pipes in place of input, output and errors, and what copies through them. Made before the keeper is forked."""

    def __init__(self) -> None:
        self._inner: dict[int, int] = {}  # descriptor of the agent's → our end for it
        self._input = -1  # the agent's end of the input, kept to know what it did not read
        self._copying: list[int] = []
        self._feeding = 0
        launcher = os.getpid()
        if _is_file(0):
            self._input, feed = os.pipe()
            self._inner[0] = self._input
            self._feeding = self._forked(launcher, _feed, feed)
            os.close(feed)
        for fd in (1, 2):
            if _is_file(fd):
                self._take(fd, launcher)

    def _take(self, fd: int, launcher: int) -> None:
        if fd == 2 and 1 in self._inner and os.path.sameopenfile(1, 2):
            self._inner[2] = self._inner[1]
            return
        drain, self._inner[fd] = os.pipe()
        self._copying.append(self._forked(launcher, _drain, drain, fd))
        os.close(drain)

    def _forked(self, launcher: int, copy: "object", *ends: int) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                kernel.die_with_parent()
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

    def put_on(self) -> None:
        """Be the agent's side: in the keeper."""
        for fd, inner in self._inner.items():
            os.dup2(inner, fd)
        for inner in set(self._inner.values()):
            os.close(inner)

    def let_go(self) -> None:
        """Leave the agent's side to the keeper: in the launcher."""
        for inner in set(self._inner.values()) - {self._input}:
            os.close(inner)

    def finish(self) -> None:
        """Wait until everything that was written is in its file, and give back what of the input was not read."""
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
    """Copy standard input; its offset is always behind what the pipe has taken."""
    try:
        place = os.lseek(0, 0, os.SEEK_CUR)
        while data := os.pread(0, _WHOLE, place):
            os.write(pipe, data)
            place += len(data)
            os.lseek(0, place, os.SEEK_SET)
    except OSError:
        return  # nobody reads any more, or a directory: the agent sees the end


def _drain(pipe: int, fd: int) -> None:
    while data := os.read(pipe, _LARGE):
        while data:
            data = data[os.write(fd, data) :]
