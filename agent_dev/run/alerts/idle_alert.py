"""Alert the user once when the agent is idle: nothing was shown or typed for a time, and its processes used no processor.

An agent that waits for the user's answer is not idle: the question has alerted the user.
The times of the user's terminal say when it was last written and read. The kernel updates them every eight seconds.
"""

import os
import time

from agent_dev.notification import TITLE, NotificationSettings, short_text
from agent_dev.session.alerts import Alerts
from agent_dev.session.store import QUESTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.run.job import RunJob
    from agent_dev.sandbox import launch

_INTERVAL = 1.0  # seconds between two checks
_BUSY = 0.05  # share of one processor from which an agent is busy: an idle one still blinks a cursor
_OWN = 2.0  # seconds after an alert in which the terminal is written by its own bell


class IdleState:
    """The decision when an agent is idle. Times in seconds since 1970."""

    def __init__(self, seconds: int, now: float, used: float) -> None:
        self._seconds, self._active, self._checked, self._used = seconds, now, now, used
        self._is_alerted = False

    def update(self, now: float, used: float, touched: float) -> bool:
        """Return whether to alert: given the processor seconds used so far, and when the terminal was last read or written."""
        is_busy = used - self._used > _BUSY * (now - self._checked)
        self._used, self._checked = used, now
        active = now if is_busy else touched
        if active > self._active:
            self._active, self._is_alerted = active, False
        if self._is_alerted or now - self._active < self._seconds:
            return False
        self._is_alerted, self._active = True, now + _OWN
        return True


def idle_check(job: "RunJob", setup: "launch.SetupProcess", sandbox: "launch.Sandbox") -> "Callable[[], None] | None":
    """Return a function that checks for an idle agent, to be called often; None without a terminal."""
    terminal = next((fd for fd in range(3) if os.isatty(fd)), -1)
    profile = job.prepared.settings.profile
    if terminal < 0 or not setup.terminal.exists():
        return None
    untrusted = (*job.prepared.untrusted_paths, job.session.folder)
    settings = NotificationSettings(profile.notify, profile.notify_command, job.environ, untrusted)
    alerts = Alerts(settings, setup.terminal.relay_pid)
    state = IdleState(profile.notify_idle_seconds, time.time(), processor_time(sandbox.init_pid))
    next_check = time.monotonic()

    def check() -> None:
        nonlocal next_check
        if time.monotonic() < next_check:
            return
        next_check = time.monotonic() + _INTERVAL
        status = os.fstat(terminal)
        touched = time.time() if _has_question(job.session.folder) else max(status.st_atime, status.st_mtime)
        if state.update(time.time(), processor_time(sandbox.init_pid), touched):
            program, place = (os.path.basename(str(one).rstrip("/")) for one in (job.record["command"][0], job.record["root"]))
            alerts.announce(TITLE, short_text(f"{program} has been idle in {place} for {profile.notify_idle_seconds} s"))

    return check


def _has_question(folder: str) -> bool:
    try:
        return any(name.endswith(".json") for name in os.listdir(f"{folder}/{QUESTIONS}"))
    except FileNotFoundError:
        return False


def processor_time(pid: int) -> float:
    """Return the processor seconds that a process and all below it have used, with those that ended."""
    total, pending = 0, [pid]
    while pending:
        one = pending.pop()
        try:
            with open(f"/proc/{one}/stat", "rb", 0) as file:
                fields = file.read().rpartition(b")")[2].split()
            total += sum(map(int, fields[11:15]))  # utime, stime, and those of children that were waited for
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children", "rb", 0) as file:
                    pending += map(int, file.read().split())
        except OSError:
            continue  # it has ended
    return total / os.sysconf("SC_CLK_TCK")
