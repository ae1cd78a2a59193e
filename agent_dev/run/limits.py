"""What bounds a run: the groups and watches that hold its limits, and the one line that says which of them ended it."""

import os
import time

from agent_dev.git import repository as repo
from agent_dev.sandbox import launch, machine
from agent_dev.sandbox import sandbox_monitor as supervise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.fs.disk_space import Room
    from agent_dev.run.run import Job
    from agent_dev.session.store import Store

    Disks = dict[str, os.statvfs_result]

_OF_THE_WHOLE = ("memory", "processes")
_XFSZ = 128 + 25  # the exit code of a program that met the limit of a file's size


def prepare(job: "Job", keeper: launch.Keeper) -> None:
    """Give the keeper the control group that the limits ask for."""
    limits = dict(job.prepared.settings.profile.limits)
    if not any(name in limits for name in _OF_THE_WHOLE):
        return
    from agent_dev.sandbox.cgroup_limits import Group  # only where it is asked for

    busctl = machine.program("busctl", job.environ, job.prepared.untrusted) or ""
    keeper.group = Group(job.session.id, limits, busctl, job.environ)


def watch(job: "Job") -> supervise.Watch:
    """Return what is watched while a run goes on."""
    roots = tuple(root.path for root in job.parts.roots)
    store = job.prepared.store
    return supervise.Watch(_marks(job), store.pending, lambda since: _has_merged(store, roots, since), roots, _deadline(job))


def _marks(job: "Job") -> tuple[str, ...]:
    """Return the files whose change means that the repository moved."""
    git = job.prepared.place.git
    if git is None:
        return ()
    head = "reftable/tables.list" if repo.has_reftable(git.folder) else "HEAD"
    return (f"{git.folder}/{head}", f"{git.folder}/index")


def _has_merged(store: "Store", roots: tuple[str, ...], since: int) -> bool:
    """Return whether a merge, an undo or a redo in one of these roots went on since then, in ns since 1970."""
    from agent_dev.merge_engine import journal_file as journals
    from agent_dev.merge_engine.journal_codec import CorruptJournalError  # only when something was merged somewhere

    try:
        names = os.listdir(store.merges)
    except OSError:
        return False  # the state directory was taken away: the agent goes on
    for name in names:
        folder = f"{store.merges}/{name}"
        try:
            begin = journals.first(folder) if os.stat(f"{folder}/{journals.JOURNAL}").st_mtime_ns >= since else None
        except (OSError, CorruptJournalError):
            continue  # it has not begun: its end is seen too
        if begin is not None and any(path in roots for path, _, _ in begin.roots):
            return True
    return False


def _deadline(job: "Job") -> int:
    """Return when the run must be over, by its own deadline or the limit `time`; 0 for never."""
    seconds = dict(job.prepared.settings.profile.limits).get("time", 0)
    ends = [job.deadline, time.monotonic_ns() + seconds * 1_000_000_000 if seconds else 0]
    return min(filter(None, ends), default=0)


def disks(job: "Job") -> "Disks":
    """Return what the disks that the agent fills hold before it begins: a fast one fills some before we look again."""
    return {path: os.statvfs(path) for path in (job.prepared.store.path, job.prepared.agent_home, *job.prepared.rw)}


def room(job: "Job", start: "Disks") -> "Room":
    """Return the watch over the disks that the agent fills."""
    from agent_dev.fs.disk_space import Room  # needless for a run that ends at once

    reserve = dict(job.prepared.settings.profile.limits).get("free-disk", -1)
    return Room(start, reserve, f"{job.session.folder}/checkpoints/objects")


def reason(job: "Job", keeper: launch.Keeper, supervisor: supervise.Supervisor, code: int) -> str:
    """Return what ended a run, or held it back, when it was a limit; "" when it was none."""
    limits = dict(job.prepared.settings.profile.limits)
    told = keeper.group.told() if keeper.group else ""
    if keeper.group:
        keeper.group.close()
    if supervisor.why:
        return f"ended: {supervisor.why}"
    if supervisor.is_late and "time" in limits and not 0 < job.deadline <= time.monotonic_ns():
        return _said(limits, "time", "ended")
    if code == _XFSZ and "file-size" in limits:
        return _said(limits, "file-size", "ended")
    if told == "memory":
        return _said(limits, told, "processes were killed")
    return _said(limits, told, "processes were refused") if told else ""


def _said(limits: dict[str, int], name: str, what: str) -> str:
    from agent_dev.config.limits import shown  # only to say so

    return f"{what}: the limit {name}={shown(name, limits[name])} was reached"
