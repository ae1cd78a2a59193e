"""Kill the processes that a dead launcher left in its recorded pid namespace."""

import os
import select

from agent_dev.linux import signals
from agent_dev.value import Value


class NamespaceIdentity(Value):
    """Identifies a pid namespace even after its number is reused: its init's pid and start time, and the boot."""

    pid_namespace: int
    init: int
    start_time: str  # field 22 of /proc/PID/stat, in clock ticks since the boot
    boot_id: str

    def as_row(self) -> tuple[int, int, str, str]:
        """Return the values from which `NamespaceIdentity(*row)` restores this."""
        return (self.pid_namespace, self.init, self.start_time, self.boot_id)


def identify(init: int, pid_namespace: int) -> NamespaceIdentity:
    """Return the identity of a running namespace, to be recorded."""
    return NamespaceIdentity(pid_namespace, init, start_time_of(init), boot_id())


def is_running(recorded: NamespaceIdentity) -> bool:
    """Return whether the recorded init is still running, and not another process with its pid."""
    return recorded.boot_id == boot_id() and recorded.start_time == start_time_of(recorded.init)


def kill_all(recorded: NamespaceIdentity, patience: int = 5000) -> int:
    """Kill every process of a recorded pid namespace and wait until it is empty; return how many were killed.

    The kernel reuses namespace numbers, so nothing is killed unless the recorded init is still running. Killing it kills the
    others. Raises TimeoutError when one does not end within `patience` ms.
    """
    if not is_running(recorded):
        return 0
    fds = _members(recorded.pid_namespace)
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
        signals.pidfd_send_signal(fd, signals.KILL)
    waiting = set(fds)
    while waiting:
        ready = poll.poll(patience)
        if not ready:
            raise TimeoutError(f"{len(waiting)} processes did not end within {patience} ms")
        for fd, _ in ready:
            poll.unregister(fd)
            waiting.discard(fd)
    for fd in fds:
        os.close(fd)
    return len(fds)


def start_time_of(pid: int) -> str:
    """Return when a process started, in clock ticks since the boot; "" if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", 0) as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:  # to import the codec of ASCII takes 0.4 ms
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
    """Return a pidfd of a process if it is in the namespace; checked again after opening, since pids are reused."""
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
        pass  # it ended; its pid may have been reused
    os.close(fd)
    return None
