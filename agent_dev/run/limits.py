"""Apply the limits of a run by control groups and timers, and name the limit that ended it."""

import os
import time

from agent_dev.git import repository
from agent_dev.linux import programs
from agent_dev.sandbox import launch, sandbox_monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.fs.disk_space import FreeSpace
    from agent_dev.run.job import RunJob
    from agent_dev.run.request import Notice
    from agent_dev.session.store import Store

    Disks = dict[str, os.statvfs_result]

_WHOLE_SANDBOX = ("memory", "processes")
_EXIT_SIGXFSZ = 128 + 25  # the exit code of a program that reached the file-size limit


def add_limit_groups(job: "RunJob", setup: launch.SetupProcess, notice: "Notice") -> None:
    """Give the setup process the control groups that the limits require; `notice` shows which limits lack one."""
    limits = dict(job.prepared.settings.profile.limits)
    if not any(name in limits for name in _WHOLE_SANDBOX):
        return
    from agent_dev.sandbox.cgroup_limits import LimitGroups  # only with such limits

    busctl = programs.find_program("busctl", job.environ, job.prepared.untrusted_paths) or ""

    def report(missing: tuple[str, ...]) -> None:
        for text in missing_group_notices(missing, limits, is_root=os.geteuid() == 0):
            notice(text)

    setup.limit_groups = LimitGroups(job.session.id, limits, busctl, job.environ, report)


def missing_group_notices(missing: tuple[str, ...], limits: dict[str, int], *, is_root: bool) -> tuple[str, ...]:
    """Return a line per limit that holds otherwise than for the whole sandbox, because it has no control group."""
    from agent_dev.config.limits import format_limit  # only for the message

    found = []
    if "memory" in missing:
        found.append(f"memory={format_limit('memory', limits['memory'])} applies per process: no control group can be created")
    if "processes" in missing and is_root:  # the kernel exempts root from RLIMIT_NPROC
        found.append(f"processes={limits['processes']} does not apply to root: no control group can be created")
    return tuple(found)


def monitor_options(job: "RunJob") -> sandbox_monitor.MonitorOptions:
    """Return the options of the run's monitor."""
    roots = tuple(root.path for root in job.spec.roots)
    store = job.prepared.store
    return sandbox_monitor.MonitorOptions(
        _watched_files(job), store.pending, lambda since: _has_merged(store, roots, since), roots, _deadline(job)
    )


def _watched_files(job: "RunJob") -> tuple[str, ...]:
    """Return the files whose change means that the repository changed."""
    git = job.prepared.location.git
    if git is None:
        return ()
    head = "reftable/tables.list" if repository.has_reftable(git.folder) else "HEAD"
    return (f"{git.folder}/{head}", f"{git.folder}/index")


def _has_merged(store: "Store", roots: tuple[str, ...], since: int) -> bool:
    """Return whether a merge, undo or redo changed one of these roots since a time in ns since 1970."""
    from agent_dev.merge_engine import journal_file
    from agent_dev.merge_engine.journal_codec import CorruptJournalError  # only after a merge in any repository

    try:
        names = os.listdir(store.merges)
    except OSError:
        return False  # the state directory was removed: the agent continues
    for name in names:
        folder = f"{store.merges}/{name}"
        try:
            first_record = (
                journal_file.read_header(folder) if os.stat(f"{folder}/{journal_file.FILE_NAME}").st_mtime_ns >= since else None
            )
        except (OSError, CorruptJournalError):
            continue  # not begun yet: its end is seen later
        if first_record is not None and any(path in roots for path, _, _ in first_record.roots):
            return True
    return False


def _deadline(job: "RunJob") -> int:
    """Return when the run must end, by its own deadline or the limit `time`; 0 for never."""
    seconds = dict(job.prepared.settings.profile.limits).get("time", 0)
    deadlines = [job.deadline, time.monotonic_ns() + seconds * 1_000_000_000 if seconds else 0]
    return min(filter(None, deadlines), default=0)


def free_space(job: "RunJob") -> "Disks":
    """Return the free space before the agent starts: a fast agent fills some before the first check."""
    return {path: os.statvfs(path) for path in (job.prepared.store.path, job.prepared.agent_home, *job.prepared.rw)}


def disk_monitor(job: "RunJob", at_start: "Disks") -> "FreeSpace":
    """Return the monitor of the disks that the agent fills."""
    from agent_dev.fs.disk_space import FreeSpace  # not needed for a run that ends immediately

    reserve = dict(job.prepared.settings.profile.limits).get("free-disk", -1)
    return FreeSpace(at_start, reserve, f"{job.session.folder}/checkpoints/objects")


def reached_limit(job: "RunJob", setup: launch.SetupProcess, monitor: sandbox_monitor.SandboxMonitor, code: int) -> str:
    """Return the limit that ended or restricted a run as a message; "" if there was none."""
    limits = dict(job.prepared.settings.profile.limits)
    reached = setup.limit_groups.reached_limit() if setup.limit_groups else ""
    if setup.limit_groups:
        setup.limit_groups.close()
    if monitor.end_reason:
        return f"stopped: {monitor.end_reason}"
    if monitor.has_timed_out and "time" in limits and not 0 < job.deadline <= time.monotonic_ns():
        return _message(limits, "time", "stopped")
    if code == _EXIT_SIGXFSZ and "file-size" in limits:
        return _message(limits, "file-size", "stopped")
    if reached == "memory":
        return _message(limits, reached, "processes were killed")
    return _message(limits, reached, "processes were refused") if reached else ""


def _message(limits: dict[str, int], name: str, effect: str) -> str:
    from agent_dev.config.limits import format_limit  # only for the message

    return f"{effect}: reached the limit {name}={format_limit(name, limits[name])}"
