"""What a dead launcher left behind: processes of its recorded pid namespace."""

import os
import select

from agent_dev.linux import signals
from agent_dev.value import Value


class Life(Value):
    """What tells a pid namespace from a later one of the same number: its init's pid and start, and the boot."""

    pid_namespace: int
    init: int
    started: str  # field 22 of /proc/PID/stat, in clock ticks since the boot
    boot: str

    def as_row(self) -> tuple[int, int, str, str]:
        """Return what `Life(*row)` makes again."""
        return (self.pid_namespace, self.init, self.started, self.boot)


def life(init: int, pid_namespace: int) -> Life:
    """Return the life of a running namespace, to be recorded."""
    return Life(pid_namespace, init, _start_of(init), boot_id())


def is_there(recorded: Life) -> bool:
    """Whether the init that was recorded is still running, and not another process of its number."""
    return recorded.boot == boot_id() and recorded.started == _start_of(recorded.init)


def end(recorded: Life, patience: int = 5000) -> int:
    """Kill every process of a recorded pid namespace and wait until it is empty; return how many there were.

    A namespace lives as long as its init, and the kernel gives its number to others later: nothing is touched unless
    that very init is still there. Killing it takes the others with it. Raises TimeoutError when one will not go in
    `patience` ms.
    """
    if not is_there(recorded):
        return 0
    fds = _members(recorded.pid_namespace)
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


def _start_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb", 0) as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def boot_id() -> str:
    """Return what the kernel calls this start of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


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
