"""End the jobs of an attempt: when they are not needed any more, and by a guard process when the coordinator was killed.

All of them, GNU parallel, its shells and ssh, work in the attempt's directory; processes on the hosts end with their connections.
"""

import os
import signal
import time
from collections.abc import Callable

from agent_dev.linux import process

_PATIENCE = 3.0  # seconds for SIGTERM
_PAUSE = 0.02


def end_jobs(folder: str) -> None:
    """End all processes that work in a directory: SIGTERM, after three seconds SIGKILL."""
    deadline = time.monotonic() + _PATIENCE
    number = signal.SIGTERM
    while pids := _processes_in(folder):
        for pid in pids:
            _send(pid, number)
        time.sleep(_PAUSE)
        if time.monotonic() > deadline:
            number = signal.SIGKILL


def start_guard(folder: str) -> Callable[[], None]:
    """Start a process that ends the jobs when this process has ended; return a function that ends the guard and the jobs."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            process.close_all_but({read_end})
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.read(read_end, 1)  # returns at the end of the other process
            end_jobs(folder)
        finally:
            os._exit(0)
    os.close(read_end)

    def stop() -> None:
        os.close(write_end)
        os.waitpid(pid, 0)

    return stop


def _processes_in(folder: str) -> list[int]:
    """Return the running processes of this user whose current directory this is."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.readlink(f"/proc/{name}/cwd") == folder and not process.is_exiting(int(name)):
                    found.append(int(name))
            except OSError:
                continue  # it has ended, or is another user's
    return found


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended
