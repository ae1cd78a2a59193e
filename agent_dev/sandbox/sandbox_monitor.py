"""Monitor a running sandbox: job control, signals to the launcher, repository changes, the deadline and free disk space."""

import os
import time

from agent_dev.linux import signals
from agent_dev.linux.process import first_child
from agent_dev.sandbox import launch
from agent_dev.sandbox.overlay_refresh import refresh_overlays
from agent_dev.sandbox.terminal.pty import Terminal
from agent_dev.value import Value

_FAST, _SLOW = 60, 400  # ms between checks of the agent, with a terminal and without
_SIGNAL_INTERVAL = 10  # ms between attempts to signal an agent that is still being started
_REAP_TIMEOUT = 2000  # ms until an ended agent must be reaped: an agent can tamper with init, which reaps it
_UNSEEN_TIMEOUT = 10_000  # ms, as above, if no agent was found
_TERM_TIMEOUT = 5000  # ms between SIGTERM and SIGKILL
_REPO_INTERVAL = 1000  # ms
_TIMESTAMP_LAG = 20_000_000  # ns by which file timestamps may lag
_MAX_INTERVAL = 64_000  # ms: overlays are refreshed after a change, then again at intervals that double up to this

_STOPPED = b"T"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.fs.disk_space import FreeSpace


class MonitorOptions(Value):
    """The monitor's options: files whose change means that the repository changed, and the roots to refresh.

    `merges`: a path that changes when any merge begins or ends. `has_merged`: returns whether one changed these roots since a
    time in ns since 1970.
    """

    watched_files: tuple[str, ...] = ()
    merges: str = ""
    has_merged: "Callable[[int], bool]" = bool
    roots: tuple[str, ...] = ()
    deadline: int = 0  # monotonic ns when the agent gets SIGTERM; 0: never


class SandboxMonitor:
    """Waits until a sandbox has ended; stops and continues the agent."""

    def __init__(self, sandbox: launch.Sandbox, terminal: Terminal, watch: MonitorOptions) -> None:
        self._sandbox, self._terminal, self._watch = sandbox, terminal, watch
        self._agent = 0
        self._agent_fd = -1
        self._since_agent_ended = 0
        self._is_continued = False
        self._is_stop_requested = False
        self._end_signal = 0  # the signal to end with; 0: none yet
        self._time_to_kill = _TERM_TIMEOUT
        self._is_signalled = False  # bubblewrap does not forward a signal to an agent that starts later
        self._checked_at = 0  # ns since 1970
        self._marks = self._stat_watched()
        self._is_changing = False  # it had changed at the last check
        self._since_check = 0
        self._interval = _MAX_INTERVAL * 2  # nothing to refresh
        self._until_refresh = 0
        self._saved_actions: list[tuple[int, object]] = []
        self.refreshes = 0  # how often the overlays were refreshed after a change
        self.end_signal = 0  # the signal with which the agent was ended
        self.has_timed_out = False  # ended at the deadline
        self.exit_code: int | None = None  # exit code of an ended agent, if bubblewrap did not report it
        self.disk_monitor: FreeSpace | None = None  # monitors free disk space
        self.end_reason = ""  # its reason for ending the agent
        self.checks: list[Callable[[], None]] = []  # called often: an idle agent, new ports

    def install_handlers(self) -> None:
        """Install the signal handlers for the time that the agent runs."""
        for number in (signals.INT, signals.QUIT):
            self._saved_actions.append((number, signals.catch(number, self._on_interrupt)))
        for number in (signals.TERM, signals.HUP):
            self._saved_actions.append((number, signals.catch(number, self._on_end)))
        if self._terminal.is_detachable or signals.is_ignored(self._saved_actions[-1][1]):  # the latter: nohup
            signals.ignore(signals.HUP)
        self._saved_actions.append((signals.CONT, signals.catch(signals.CONT, self._on_continue)))
        if self._terminal.exists():
            self._saved_actions.append((signals.TSTP, signals.catch(signals.TSTP, self._on_stop)))

    def restore_handlers(self) -> None:
        """Restore the signal handlers."""
        for number, action in reversed(self._saved_actions):
            signals.restore(number, action)
        self._saved_actions.clear()

    def _on_end(self, number: int, _frame: object) -> None:
        self._end_signal = number

    def _on_interrupt(self, number: int, _frame: object) -> None:
        """Forward the signal to the agent's own process group: Ctrl-C, or `timeout -s INT`, reached only ours."""
        _signal_group(self._sandbox.process_group, number)

    def _on_stop(self, _number: int, _frame: object) -> None:
        self._is_stop_requested = True

    def _on_continue(self, _number: int, _frame: object) -> None:
        self._is_continued = True

    def has_ended_within(self, milliseconds: int) -> bool:
        """Return whether the sandbox ended within that time; handles job control while waiting."""
        step = _FAST if self._terminal.exists() else _SLOW
        while milliseconds > 0:
            wait = min(step, milliseconds, self._time_left(), self.disk_monitor.pause if self.disk_monitor else step)
            if launch.has_sandbox_ended(self._sandbox, wait):
                return True
            milliseconds -= wait
            self._step(wait)
        return False

    def is_agent_started(self) -> bool:
        """Return whether bubblewrap has built the sandbox and forked the agent."""
        return self._find_agent() != 0

    def wait(self) -> None:
        """Wait until every process of the sandbox is gone."""
        while not self.has_ended_within(1 << 30):
            continue

    def _step(self, elapsed: int) -> None:
        self._end_if_full()
        self._end_if_requested(elapsed)
        self._end_with_agent(elapsed)
        if self._terminal.exists():
            self._follow_job()
        for check in self.checks:
            check()
        self._since_check += elapsed
        if self._since_check >= _REPO_INTERVAL:
            self._since_check = 0
            self._refresh_if_changed()

    # end the agent

    def _time_left(self) -> int:
        """Return the ms until the deadline, at least 1; a large number without one or once the agent was signalled."""
        if self._end_signal:
            return 1 << 30 if self._is_signalled else _SIGNAL_INTERVAL
        if not self._watch.deadline:
            return 1 << 30
        return max(1, (self._watch.deadline - time.monotonic_ns()) // 1_000_000 + 1)

    def _end_if_full(self) -> None:
        level = self.disk_monitor.check() if self.disk_monitor else 0
        if not level or not self.disk_monitor:
            return
        if not self._end_signal:
            self._end_signal, self.end_reason = signals.TERM, self.disk_monitor.reason
        if level > 1:
            self._time_to_kill = 0  # it keeps writing

    def _end_if_requested(self, elapsed: int) -> None:
        if self._watch.deadline and not self._end_signal and time.monotonic_ns() >= self._watch.deadline:
            self._end_signal, self.has_timed_out = signals.TERM, True
        if not self._end_signal:
            return
        if not self._is_signalled:
            self._is_signalled = self._find_agent() != 0  # checked first: an agent that is running now gets the signal
            self.end_signal = self._end_signal
            _signal_group(self._sandbox.process_group, self.end_signal)
            _signal_group(self._sandbox.process_group, signals.CONT)
        self._time_to_kill -= elapsed
        if self._time_to_kill <= 0:
            launch.kill_sandbox(self._sandbox)

    def _end_with_agent(self, elapsed: int) -> None:
        """Kill the sandbox some time after the agent: an agent could trace or overwrite init, which then would not exit."""
        if self._agent_fd < 0:
            self._agent = self._agent or self._find_agent()
            self._agent_fd = _pidfd(self._agent)
        if self._agent_fd >= 0 and not launch.has_process_ended(self._agent_fd):
            return
        self._since_agent_ended += elapsed
        if self._since_agent_ended >= (_REAP_TIMEOUT if self._agent_fd >= 0 else _UNSEEN_TIMEOUT):  # it may not have started
            self.exit_code = _exit_code(self._agent)
            launch.kill_sandbox(self._sandbox)

    # job control

    def _follow_job(self) -> None:
        if self._terminal.has_relay_exited():
            self._end_signal = self._end_signal or signals.HUP
        if self._is_stop_requested:
            self._is_stop_requested = False
            _signal_group(self._sandbox.process_group, signals.TSTP)
            self._suspend()
        elif self._is_agent_stopped():
            if self._terminal.move_to_foreground():
                self._continue_agent()
            else:
                self._suspend()
        elif self._is_continued and self._terminal.is_detachable:  # by a client that attaches: the agent is not stopped
            self._is_continued = False
            self._terminal.resume()
        elif self._is_continued:
            self._resume()

    def _is_agent_stopped(self) -> bool:
        """Return whether the agent stopped itself; only its process state shows that, bubblewrap does not report it."""
        if not self._agent:
            self._agent = self._find_agent()
        return self._agent != 0 and _state(self._agent) == _STOPPED and _state(self._agent) == _STOPPED

    def _find_agent(self) -> int:
        inner = self._sandbox.init_pid if not self._sandbox.has_own_namespaces else first_child(self._sandbox.init_pid)
        return first_child(inner) if inner else 0

    def _suspend(self) -> None:
        if self._terminal.is_detachable:
            if self._is_continued:
                self._resume()
            else:
                self._terminal.suspend()
            return
        self._is_continued = False
        self._terminal.suspend()
        os.kill(0, signals.STOP)  # our whole job, as the shell sees it; SIGCONT continues here
        self._resume()

    def _resume(self) -> None:
        self._is_continued = False
        self._terminal.resume()
        self._continue_agent()

    def _continue_agent(self) -> None:
        """Continue the sandbox's group and the agent by one signal each: a program may start its threads again at each."""
        _signal_group(self._sandbox.process_group, signals.CONT)
        try:
            if self._agent and os.getpgid(self._agent) != self._sandbox.process_group:
                os.kill(self._agent, signals.CONT)
        except ProcessLookupError:
            return

    # changes of the lower layer

    def _stat_watched(self) -> tuple[tuple[int, int], ...]:
        stamps = []
        self._checked_at = time.time_ns()
        for path in (*self._watch.watched_files, self._watch.merges):
            try:
                status = os.stat(path)
                stamps.append((status.st_ino, status.st_mtime_ns))
            except OSError:
                stamps.append((0, 0))
        return tuple(stamps)

    def _refresh_if_changed(self) -> None:
        """Refresh after a change and a few times later, since a name that is in use inside at that moment is not refreshed."""
        has_changed = self._has_changed()
        was_changing, self._is_changing = self._is_changing, has_changed
        if has_changed:
            self._interval, self._until_refresh = _REPO_INTERVAL, 0
        self._until_refresh -= _REPO_INTERVAL
        if self._interval > _MAX_INTERVAL or self._until_refresh > 0:
            return
        self._until_refresh = self._interval
        self._interval *= 2
        inner = self._sandbox.init_pid if not self._sandbox.has_own_namespaces else first_child(self._sandbox.init_pid)
        if inner and refresh_overlays(inner, self._watch.roots) and has_changed and not was_changing:
            self.refreshes += 1  # count a change that spans two checks once

    def _has_changed(self) -> bool:
        previous, since = self._marks, self._checked_at - _TIMESTAMP_LAG
        self._marks = self._stat_watched()
        *marks, merging = self._marks
        *previous_marks, previous_merging = previous
        return marks != previous_marks or (merging != previous_merging and self._watch.has_merged(since))


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid) if pid else -1
    except OSError:
        return -1


def _exit_code(pid: int) -> int | None:
    """Return the exit code of a zombie (128 + n for a signal); None for a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", 0) as file:
            status = int(file.read().split()[-1])
    except (OSError, IndexError, ValueError):
        return None
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8


def _state(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/stat", "rb", 0) as file:
            return file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b""
