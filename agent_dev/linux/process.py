"""Query another process, write to its stderr, end a child, and detach a background process from the launcher."""

import os
import select
import time

from agent_dev.linux import signals, syscalls

_RETRY, _PATIENCE = 50, 60_000  # ms
_UNWINDING = 5  # seconds: more than `finally` blocks take on a loaded machine
_EXITING = 0x4  # PF_EXITING among a task's flags, proc_pid_stat(5)


def parent_pid(pid: int) -> int:
    """Return a process's parent pid. Raises OSError when the process is gone."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return _listed_parent(pid)  # not a thread-group leader
    try:
        return syscalls.pidfd_parent(fd)  # four times as fast as /proc
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


def is_exiting(pid: int) -> bool:
    """Return whether a process has ended or is exiting."""
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


def used_time(pid: int) -> int:
    """Return how much processor time a process and its ended children have used, in clock ticks. Raises OSError."""
    with open(f"/proc/{pid}/stat", "rb", 0) as file:
        return sum(map(int, file.read().rpartition(b")")[2].split()[11:15]))


def write_to_stderr(pid: int, text: str) -> None:
    """Write a line to a process's stderr, as if the process had written it; give up after 100 ms if nothing reads it.

    The write uses a copy of the process's own descriptor, which grants no more than the process has; reopening the file could.
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
        stderr = syscalls.pidfd_getfd(os.pidfd_open(pid), 2)
        os.write(stderr, text.encode("utf-8", "replace"))
    finally:
        os._exit(0)


def start_writing_to_stderr(pid: int, text: str, network: int) -> int:
    """Write a line to a process's stderr in a child, without waiting; return the child's pid.

    Nothing is written if the process is not in the network namespace with that inode, or if a full-screen program runs there.
    """
    child = os.fork()
    if child:
        return child
    try:
        signals.set_alarm(1)
        pidfd = os.pidfd_open(pid)
        if os.stat(f"/proc/{pid}/ns/net").st_ino == network:
            stderr = syscalls.pidfd_getfd(pidfd, 2)
            if not os.isatty(stderr) or _is_line_by_line(stderr):
                os.write(stderr, text.encode("utf-8", "replace"))
    finally:
        os._exit(0)


def _is_line_by_line(terminal: int) -> bool:
    """Return whether a terminal is in canonical mode, so that no full-screen program uses it."""
    import termios  # only in the child of start_writing_to_stderr

    flags = termios.tcgetattr(terminal)[3]
    return bool(flags & termios.ICANON)


def close_all_but(fds: set[int]) -> None:
    """Close every other descriptor; standard streams that are not among them become /dev/null."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for standard in {0, 1, 2} - fds:
        os.dup2(null, standard)
    start = 3
    for fd in sorted(fd for fd in fds if fd > 2):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, 4096)


def leave_launcher(launcher: int) -> None:
    """Detach a process that the launcher forked from its terminal and signal handlers; exit if the launcher has ended."""
    os.setsid()
    syscalls.die_with_parent()
    if os.getppid() != launcher:
        os._exit(1)
    for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM):
        signals.reset(number)


def exit_on_sigterm() -> None:
    """Exit on SIGTERM as on an exception, so that `finally` blocks restore what this process has changed for a moment.

    Python drops an exception that is raised in a finalizer: `terminate` repeats the signal, which counts again after a while.
    """
    last = 0.0

    def raise_exit(*_: object) -> None:
        nonlocal last
        if time.monotonic() - last > _UNWINDING:  # else it would interrupt what the first one began
            last = time.monotonic()
            raise SystemExit(1)

    signals.catch(signals.TERM, raise_exit)


def terminate(pid: int, patience: int = _PATIENCE) -> None:
    """End a child by SIGTERM, on which it exits once its work is done, or by SIGKILL after `patience` ms.

    SIGTERM is repeated: just after its fork the process ignores it.
    """
    pidfd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    for _ in range(0, patience, _RETRY):
        os.kill(pid, signals.TERM)
        if poll.poll(_RETRY):
            break
    else:
        os.kill(pid, signals.KILL)
    os.close(pidfd)
    os.waitpid(pid, 0)


def first_child(pid: int) -> int:
    """Return the pid of a process's first child, 0 when it has none."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb", 0) as file:
            children = file.read().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0
