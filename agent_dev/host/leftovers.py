"""What a dead launcher left behind: processes of its recorded pid namespace."""

import os
import select

from agent_dev.host import signals


def end(pid_namespace: int, patience: int = 5000) -> int:
    """Kill every process of a pid namespace and wait until it is empty; return how many there were.

    Killing the namespace's init takes the others with it. Raises TimeoutError when one will not go in `patience` ms.
    """
    fds = _members(pid_namespace)
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
        signals.send_by_descriptor(fd, signals.KILL)
    waiting = set(fds)
    while waiting:
        ready = poll.poll(patience)
        if not ready:
            raise TimeoutError(f"{len(waiting)} processes do not end")
        for fd, _ in ready:
            poll.unregister(fd)
            waiting.discard(fd)
    for fd in fds:
        os.close(fd)
    return len(fds)


def _members(pid_namespace: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fd = _descriptor(int(name), pid_namespace)
            if fd is not None:
                found.append(fd)
    return found


def _descriptor(pid: int, pid_namespace: int) -> int | None:
    """Return a pidfd of a process if it is in the namespace; asked again after opening, since pids are used anew."""
    try:
        if os.stat(f"/proc/{pid}/ns/pid").st_ino != pid_namespace:
            return None
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        if os.stat(f"/proc/{pid}/ns/pid").st_ino == pid_namespace:
            return fd
    except OSError:
        pass  # it ended: its pid may be another's now
    os.close(fd)
    return None
