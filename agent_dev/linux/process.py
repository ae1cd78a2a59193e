"""A process inside that starts a command: what it is, what it sees, and a word to it."""

import os
import select

from agent_dev.linux import signals
from agent_dev.linux import syscalls as kernel

_EXITING = 0x4  # PF_EXITING among a task's flags, proc_pid_stat(5)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.supervisor.notify import Call


def parent(pid: int) -> int:
    """Return the pid of its parent. Raises OSError when it is gone."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return _listed_parent(pid)  # a thread that is not its process's first
    try:
        return kernel.parent(fd)  # a quarter of the time of what follows
    except OSError:
        return _listed_parent(pid)
    finally:
        os.close(fd)


def _listed_parent(pid: int) -> int:
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        return int(os.read(fd, 1024).rpartition(b")")[2].split(None, 2)[1])
    finally:
        os.close(fd)


def is_ending(pid: int) -> bool:
    """Whether a process has ended, or has begun to."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return True
    try:
        return bool(int(os.read(fd, 1024).rpartition(b")")[2].split(None, 7)[6]) & _EXITING)
    except OSError:
        return True
    finally:
        os.close(fd)


def is_there(call: "Call", cwd: str) -> bool:
    """Whether what is called exists where the caller lives."""
    path = call.program if call.program.startswith("/") else f"{cwd}/{call.program}"
    try:
        root = os.open(f"/proc/{call.pid}/root", os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return True
    try:
        return kernel.is_in_root(root, os.fsencode(path))
    finally:
        os.close(root)


def tell(pid: int, text: str) -> None:
    """Write a line to what a process has as stderr, as if it did; never wait for who does not read it.

    Through a copy of its own descriptor, which can do no more than it can: opening its file anew could.
    """
    child = os.fork()
    if child:
        pidfd = os.pidfd_open(child)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(100):
            os.kill(child, signals.KILL)
        os.close(pidfd)
        os.waitpid(child, 0)
        return
    try:
        stderr = kernel.borrow(os.pidfd_open(pid), 2)
        os.write(stderr, text.encode("utf-8", "replace"))
    finally:
        os._exit(0)
