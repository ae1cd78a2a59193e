"""Watching a running session: job control, signals to us, the moving repository, its time and the disks."""

import os
import time

from agent_dev.linux import signals
from agent_dev.linux import syscalls as kernel
from agent_dev.sandbox import launch
from agent_dev.sandbox.terminal import Terminal
from agent_dev.value import Value

_FAST, _SLOW = 60, 400  # ms between looks at the agent, with a terminal and without
_UNHEARD = 10  # ms between tries to end an agent that is just being started
_MERCY = 5000  # ms between asking an agent to end and ending it
_LOOK_AT_REPO = 1000  # ms
_COARSE = 20_000_000  # ns by which the times of files may lag behind
_LAST_PAUSE = 64_000  # ms: a view is refreshed after a move and again at pauses that double up to this

_STOPPED = b"T"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.fs.disk_space import Room


class Watch(Value):
    """What is watched beside the sandbox: files whose change means that the repository moved, and the roots to refresh.

    `merging`: what changes when any merge of ours begins or ends; `has_merged`: whether one was into these roots since a time, in
    ns since 1970.
    """

    marks: tuple[str, ...] = ()
    merging: str = ""
    has_merged: "Callable[[int], bool]" = bool
    roots: tuple[str, ...] = ()
    deadline: int = 0  # ns of the monotonic clock, when the agent is asked to end; 0: never


class Supervisor:
    """Waits until a sandbox is over, and behaves as a shell does with its job."""

    def __init__(self, sandbox: launch.Sandbox, terminal: Terminal, watch: Watch) -> None:
        self._sandbox, self._terminal, self._watch = sandbox, terminal, watch
        self._agent = 0
        self._continued = False
        self._asked_to_end = 0  # the signal that asked us
        self._mercy = _MERCY
        self._has_heard = False  # that it shall end: bubblewrap does not pass it on to an agent that comes later
        self._looked = 0  # when, in ns since 1970
        self._marks = self._look()
        self._is_moving = False  # it had moved when it was last looked at
        self._since_look = 0
        self._pause = _LAST_PAUSE * 2  # nothing to refresh
        self._until_refresh = 0
        self._before: list[tuple[int, object]] = []
        self.moves = 0  # how often the repository moved and the view was refreshed
        self.ended_by = 0  # the signal that made us end the agent
        self.is_late = False  # it was the deadline that did
        self.room: Room | None = None  # the watch over the disks
        self.why = ""  # what it said when it made us end the agent

    def begin(self) -> None:
        """Take the signals that are ours while the agent runs."""
        for number in (signals.INT, signals.QUIT):
            self._before.append((number, signals.catch(number, self._on_interrupt)))
        for number in (signals.TERM, signals.HUP):
            self._before.append((number, signals.catch(number, self._on_end)))
        self._before.append((signals.CONT, signals.catch(signals.CONT, self._on_continue)))

    def end(self) -> None:
        """Give the signals back."""
        for number, action in reversed(self._before):
            signals.restore(number, action)
        self._before.clear()

    def _on_end(self, number: int, _frame: object) -> None:
        self._asked_to_end = number

    def _on_interrupt(self, number: int, _frame: object) -> None:
        """Pass it on: the agent is a process group of its own, and Ctrl-C came to ours, or a `timeout -s INT` to us alone."""
        _signal_group(self._sandbox.group, number)

    def _on_continue(self, _number: int, _frame: object) -> None:
        self._continued = True

    def is_over_within(self, milliseconds: int) -> bool:
        """Return whether the sandbox ended within that time; job control goes on meanwhile."""
        step = _FAST if self._terminal.exists() else _SLOW
        while milliseconds > 0:
            wait = min(step, milliseconds, self._left(), self.room.pause if self.room else step)
            if launch.is_over(self._sandbox, wait):
                return True
            milliseconds -= wait
            self._step(wait)
        return False

    def wait(self) -> None:
        """Wait until every process of the sandbox is gone."""
        while not self.is_over_within(1 << 30):
            continue

    def _step(self, waited: int) -> None:
        self._end_if_full()
        self._end_if_asked(waited)
        if self._terminal.exists():
            self._follow_job()
        self._since_look += waited
        if self._since_look >= _LOOK_AT_REPO:
            self._since_look = 0
            self._refresh_if_moved()

    # ending

    def _left(self) -> int:
        """Return the ms until the deadline, at least 1; much when there is none or the agent was asked to end."""
        if self._asked_to_end:
            return 1 << 30 if self._has_heard else _UNHEARD
        if not self._watch.deadline:
            return 1 << 30
        return max(1, (self._watch.deadline - time.monotonic_ns()) // 1_000_000 + 1)

    def _end_if_full(self) -> None:
        level = self.room.look() if self.room else 0
        if not level or not self.room:
            return
        if not self._asked_to_end:
            self._asked_to_end, self.why = signals.TERM, self.room.why
        if level > 1:
            self._mercy = 0  # it goes on writing

    def _end_if_asked(self, waited: int) -> None:
        if self._watch.deadline and not self._asked_to_end and time.monotonic_ns() >= self._watch.deadline:
            self._asked_to_end, self.is_late = signals.TERM, True
        if not self._asked_to_end:
            return
        if not self._has_heard:
            self._has_heard = self._find_agent() != 0  # looked for before: one that is there now is there to hear
            self.ended_by = self._asked_to_end
            _signal_group(self._sandbox.group, self.ended_by)
            _signal_group(self._sandbox.group, signals.CONT)
        self._mercy -= waited
        if self._mercy <= 0:
            launch.kill(self._sandbox)

    # job control

    def _follow_job(self) -> None:
        if self._is_group_stopped() or self._is_agent_stopped():
            self._suspend()
        elif self._continued:
            self._resume()

    def _is_group_stopped(self) -> bool:
        try:
            info = os.waitid(os.P_PID, self._sandbox.keeper, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:
            return False
        return info is not None

    def _is_agent_stopped(self) -> bool:
        """Whether the agent stopped itself: only its state tells, since bubblewrap does not pass it on."""
        if not self._agent:
            self._agent = self._find_agent()
        return self._agent != 0 and _state(self._agent) == _STOPPED and _state(self._agent) == _STOPPED

    def _find_agent(self) -> int:
        inner = self._sandbox.init if not self._sandbox.has_keeper else first_child(self._sandbox.init)
        return first_child(inner) if inner else 0

    def _suspend(self) -> None:
        self._continued = False
        self._terminal.take_back(keep_modes=True)
        os.kill(0, signals.STOP)  # the whole job of ours, as a shell sees it; we go on here after SIGCONT
        self._resume()

    def _resume(self) -> None:
        self._continued = False
        if not self._terminal.is_lent:
            self._terminal.lend(self._agents_group())
        _signal_group(self._sandbox.group, signals.CONT)
        if self._agent:
            try:
                os.kill(self._agent, signals.CONT)
            except ProcessLookupError:
                return

    def _agents_group(self) -> int:
        try:
            return os.getpgid(self._agent) if self._agent else self._sandbox.group
        except ProcessLookupError:
            return self._sandbox.group

    # the lower that moves

    def _look(self) -> tuple[tuple[int, int], ...]:
        found = []
        self._looked = time.time_ns()
        for path in (*self._watch.marks, self._watch.merging):
            try:
                status = os.stat(path)
                found.append((status.st_ino, status.st_mtime_ns))
            except OSError:
                found.append((0, 0))
        return tuple(found)

    def _refresh_if_moved(self) -> None:
        """Refresh after a move, and some times more: a name that is in use inside at that moment stays as it was."""
        has_moved = self._has_moved()
        was_moving, self._is_moving = self._is_moving, has_moved
        if has_moved:
            self._pause, self._until_refresh = _LOOK_AT_REPO, 0
        self._until_refresh -= _LOOK_AT_REPO
        if self._pause > _LAST_PAUSE or self._until_refresh > 0:
            return
        self._until_refresh = self._pause
        self._pause *= 2
        inner = self._sandbox.init if not self._sandbox.has_keeper else first_child(self._sandbox.init)
        if inner and refresh(inner, self._watch.roots) and has_moved and not was_moving:
            self.moves += 1  # not twice for what goes on from one look to the next

    def _has_moved(self) -> bool:
        before, since = self._marks, self._looked - _COARSE
        self._marks = self._look()
        *marks, merging = self._marks
        *marks_before, merging_before = before
        return marks != marks_before or (merging != merging_before and self._watch.has_merged(since))


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def first_child(pid: int) -> int:
    """Return a child of a process, 0 when it has none."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb", 0) as file:
            children = file.read().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


def _state(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/stat", "rb", 0) as file:
            return file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b""


_NS_GET_USERNS, _NS_GET_PARENT = 0xB701, 0xB702


def refresh(pid: int, roots: tuple[str, ...]) -> bool:
    """Remount the overlays in the mount namespace of `pid`, so that names replaced below are seen anew.

    Done in a child, since a process that enters namespaces cannot come back. Returns whether it worked.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _remount(pid, roots)
            code = 0
        except OSError:
            pass  # said by the exit code
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status == 0


def _remount(pid: int, roots: tuple[str, ...]) -> None:
    import fcntl  # only in the child that needs them

    from agent_dev.sandbox import overlay_root as view

    opened = [view.open_overlay(pid, root) for root in roots]  # not by path: the agent could lead it to another mount
    if -1 in opened:
        raise FileNotFoundError(2, "an overlay is not where it was mounted")
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
    for _ in range(3):
        try:
            _remount_as(owner, mounts, opened)
        except PermissionError:
            owner = fcntl.ioctl(owner, _NS_GET_PARENT)  # the overlay was mounted by the keeper, one namespace out
            continue
        return
    raise PermissionError(1, "not the owner of the overlay")


def _remount_as(owner: int, mounts: int, roots: list[int]) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            kernel.setns(owner, kernel.NEWUSER)
            kernel.setns(mounts, kernel.NEWNS)
            for root in roots:
                os.fchdir(root)
                kernel.mount(None, ".", None, kernel.REMOUNT | kernel.NOSUID | kernel.NODEV | kernel.RELATIME)
            code = 0
        except OSError:
            pass  # said by the exit code
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        raise PermissionError(1, "remount")
