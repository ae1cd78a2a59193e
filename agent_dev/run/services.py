"""What stands around a run: what the user is told before, what watches its commands, what takes checkpoints, a gate."""

import os

from agent_dev.git import repository as repo
from agent_dev.run import shown_paths as showing
from agent_dev.run.prepare import Prepared, Request
from agent_dev.sandbox import preflight as look
from agent_dev.sandbox.plan import Setting
from agent_dev.session import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.checkpoint.timer_process import Wish
    from agent_dev.policy.watcher import Watcher
    from agent_dev.run.run import Job, Outcome

    Notice = Callable[[str], None]


def watcher(prepared: Prepared, session: store.Session, environ: dict[str, str]) -> "Watcher | None":
    """Start what watches the commands of a session, early: it gets ready while we plan. None where the policy is off."""
    if prepared.settings.profile.policy == "off":
        return None
    from agent_dev.run import policy_watch as watching  # not where the policy is off

    return watching.begin(prepared, session, environ)


def close_gate(gate: int) -> None:
    """Keep whoever merges beside us from doing so between the start and the base, which would take it for a move."""
    if gate >= 0:
        import fcntl  # only for what runs beside merges of ours

        fcntl.flock(gate, fcntl.LOCK_SH)


def open_gate(gate: int) -> None:
    """Let merges go on."""
    import fcntl  # as above

    fcntl.flock(gate, fcntl.LOCK_UN)


def recover(prepared: Prepared, environ: dict[str, str], notice: "Notice") -> None:
    """Bring an interrupted merge of this root to rest; one that is not understood is told, and stays as it is."""
    from agent_dev.errors import RecoveryRequired
    from agent_dev.merge import recover as recovery  # rare, and it needs all of the merge engine

    try:
        recovery.recover_here(prepared.store, prepared.place.root, environ, notice)
    except RecoveryRequired as error:
        notice(error.message)
        notice(error.hint)


def notices(prepared: Prepared, request: Request) -> tuple[str, ...]:
    """Return what the user should know before the agent starts."""
    waiting = look.waiting(prepared.store, prepared.place.root)
    lines = []
    if waiting:
        names = ", ".join(waiting[-3:]) + (" …" if len(waiting) > 3 else "")
        plural = "s" if len(waiting) > 1 else ""
        lines.append(f"{len(waiting)} earlier session{plural} here not merged: {names} (agent-dev sessions)")
    given = (path for path in prepared.overlays if repo.git_of(path))
    lines += [f"--overlay {path}: commits that are made there stay in the session, its files come home" for path in given]
    unset = (name for name in request.options.env if "=" not in name and name not in request.environ)
    lines += [f"--env {name}: it is not set here, so there is none inside" for name in unset]
    return (*lines, *showing.warnings(prepared))


def with_root(parts: Setting, root: str) -> Setting:
    """Return the parts of a session that writes its root directly; snapshots that lie in it are covered."""
    from agent_dev.direct import snapshot_providers as snapshots  # direct mode alone

    hidden = tuple(f"{root}/{name}" for name in snapshots.within(root))
    if hidden:
        os.makedirs(parts.blank, 0o755, exist_ok=True)
    return parts.but(direct=root, blanks=(*parts.blanks, *hidden), door=None)


def open_door(job: "Job") -> int:
    """Make the socket at which the agent makes transactions of its session; return its descriptor, -1 where there is none."""
    if job.parts.door is None:
        return -1
    from agent_dev.inside.control import socket_file as door  # only for those

    return door.listen(job.session)


def begin(job: "Job", record: store.Record, door: int) -> tuple[int, int]:
    """Start what takes checkpoints while the agent runs, and what answers at its door; return their pids, 0 for none."""
    timed = answers = 0
    if _has_checkpoints(job):
        from agent_dev.checkpoint import timer_process as clock  # needless for a run that ends at once

        timed = clock.begin(job.session, record, _wish(job))
    if door >= 0:
        answers = _answer(job, record, door)
    return timed, answers


def _answer(job: "Job", record: store.Record, door: int) -> int:
    from agent_dev.checkpoint import timer_process as clock  # as above

    def serve() -> None:
        from agent_dev.inside.control import serve as nested  # in this process alone

        nested.serve(job.session.but(lock=-1), record, 3, _wish(job))

    pid = clock.beside(serve, door, 0)
    os.close(door)  # when that process is gone nobody waits for an answer
    return pid


def end(job: "Job", pids: tuple[int, int], door: int) -> None:
    """End both, and take the door away."""
    timed, answers = pids
    if timed:
        from agent_dev.checkpoint import freezer  # as above
        from agent_dev.checkpoint import timer_process as clock  # as above

        clock.end(timed)
        freezer.close(job.session)
    if door < 0:
        return
    from agent_dev.checkpoint import timer_process as clock  # as above
    from agent_dev.inside.control import socket_file as doors

    if answers:
        clock.end_well(answers)
    else:
        os.close(door)
    doors.remove(job.session)


def put_right(job: "Job", record: store.Record, keeper: int) -> store.Record:
    """Finish what a killed rollback left, and undo what the agent had begun and not ended, once no mount is left.

    Return the record, which says so when something was undone.
    """
    if not any(os.path.lexists(f"{job.session.folder}/{name}") for name in ("rollback.shown", "transaction")):
        return record
    from agent_dev.session import sessions  # rare

    try:
        os.waitid(os.P_PID, keeper, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        pass  # waited for already
    return {**record, "undone": sessions.finish_rollback(job.session)}


def last_checkpoint(job: "Job", record: store.Record) -> str:
    """Take the checkpoint at the end; return why there is none, empty when there is or none was wanted."""
    if not _has_checkpoints(job):
        return ""
    from agent_dev.checkpoint import checkpoint_store as checkpoints  # after the agent
    from agent_dev.checkpoint import timer_process as clock  # after the agent
    from agent_dev.errors import CheckpointFailed

    try:
        checkpoints.take(job.session, record, checkpoints.END)
        clock.thin(job.session, _wish(job))
    except CheckpointFailed as error:
        return error.message
    return ""


def note_end(job: "Job", record: store.Record, outcome: "Outcome") -> None:
    """Write into the session's log how the run ended; that it began, too, when it was over before that was written."""
    from agent_dev.session import events  # after the agent

    launched, told = record["launched"], store.read(job.session)
    if not any(row.get("event") == events.START and row["time"] == launched for row in events.read(job.session, told).rows):
        events.note(job.session, events.START, at=launched, argv=record["command"], profile=record["profile"])
    more = {"changes": outcome.changes, "commits": outcome.commits, "policy": told.get("policy")}
    took = (told.get("ended", launched) - launched) // 1_000_000
    events.note(job.session, events.END, at=told.get("ended", 0), exit=outcome.code, milliseconds=took, **more)


def _has_checkpoints(job: "Job") -> bool:
    """Whether checkpoints are taken by themselves; an agent in the real tree has a snapshot instead."""
    is_wanted = job.has_checkpoints and job.prepared.settings.profile.checkpoint_minutes > 0
    return is_wanted and not job.parts.direct


def _wish(job: "Job") -> "Wish":
    from agent_dev.checkpoint.timer_process import Wish  # as above

    profile = job.prepared.settings.profile
    return Wish(profile.checkpoint_minutes, profile.keep_checkpoints, profile.keep_checkpoints_days, profile.keep_checkpoints_mib)
