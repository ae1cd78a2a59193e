"""Execute a job: start the sandbox, wait for its end, and report what the session holds."""

import os
import time

from agent_dev.agent_git import refs
from agent_dev.agent_git.repositories import list_repositories
from agent_dev.config import published_ports
from agent_dev.errors import AgentDevError, CommandDoesNotStart, DeniedByPolicy
from agent_dev.linux import pid_namespace, programs
from agent_dev.run import limits, merge_lock, services
from agent_dev.run.job import RunJob, RunOutcome
from agent_dev.sandbox import launch, sandbox_monitor
from agent_dev.session import removal, store

SHORT_RUN = 20  # ms: a shorter run without changes needs no lower snapshot and no durable record
_MAX_BUILD = 400  # ms for bubblewrap to build the sandbox; then the services start anyway
_LONGEST_SHOWN = 100  # characters of a command in a hint
BWRAP_FAILED = (1, 125)  # exit codes of bubblewrap or the setup process when the agent never started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.request import Notice

    EndedRun = tuple[sandbox_monitor.SandboxMonitor, launch.SetupProcess, launch.Sandbox]


def run_job(job: RunJob, setup: launch.SetupProcess, notice: "Notice") -> RunOutcome:
    """Start the sandbox, wait for its end, and finish the session. `notice` shows a line to the user before the agent starts."""
    merge_lock.block_merges(job.merge_lock)
    limits.add_limit_groups(job, setup, notice)
    blocking = blocking_modes()
    start = time.monotonic()
    try:
        outcome = _run_sandbox(job, setup, blocking)
        for line in outcome.server_notices:
            notice(line)
        _announce_end(job, outcome, time.monotonic() - start, setup)
        return outcome
    finally:
        setup.terminal.finish()
        setup.kill_helpers()


def _run_sandbox(job: RunJob, setup: launch.SetupProcess, blocking: list[bool | None]) -> RunOutcome:
    facts, listener = job.prepared.machine, services.open_control_socket(job)
    setup.terminal.may_copy = job.prepared.settings.profile.clipboard
    setup.join_socket = f"{job.session.folder}/{store.JOIN_SOCKET}"
    setup.terminal.describe_session(job.session.folder, str(job.record["name"] or job.session.id))
    sandbox = launch.build_with_fallback(job.plan, facts.bwrap, facts.bwrap_version, job.prepared.store.empty_file, setup)
    launch.attach_gateway(sandbox, setup.gateway, setup.terminal)
    record: store.Record = {
        **job.record,
        "init": sandbox.init_pid,
        "life": pid_namespace.identify(sandbox.init_pid, sandbox.pid_namespace).as_row(),
        "launched": time.time_ns(),
    }
    store.write_record(job.session, record)
    services.release_name(job.name_claim)
    monitor = sandbox_monitor.SandboxMonitor(sandbox, setup.terminal, limits.monitor_options(job))
    monitor.install_handlers()
    snapshot_pid = _snapshot_before_start(job, record) if job.merge_lock >= 0 else None
    services_pids = (0, 0)
    disks = limits.free_space(job)
    launch.start_agent(sandbox)
    if not _ends_at_once(monitor):
        setup.terminal.confirm_start()
        snapshot_pid = _begin_snapshot(job, record) if snapshot_pid is None else snapshot_pid
        services_pids = services.start_services(job, record, listener)
        store.sync_record(job.session)
        _monitor_more(job, setup, sandbox, monitor, disks)
        monitor.wait()
    services.stop_services(job, services_pids, listener)
    exit_code = launch.exit_code(sandbox)
    exit_code = monitor.exit_code if exit_code is None else exit_code
    setup.finish_streams()
    setup.terminal.finish()
    restore_blocking(blocking)
    monitor.restore_handlers()
    if exit_code is None and not monitor.end_signal and launch.reap(sandbox) in BWRAP_FAILED:
        _raise_start_failure(job, snapshot_pid, setup)
    code = 128 + monitor.end_signal if monitor.end_signal else (137 if exit_code is None else exit_code)
    reason = limits.reached_limit(job, setup, monitor, code)
    record = services.finish_rollback(job, record, sandbox.setup_pid)
    outcome = _finish_session(job, record, snapshot_pid, code, (monitor, setup, sandbox)).replace(limit_notice=reason)
    if snapshot_pid is not None:
        _index_home(job, record["launched"])
    if outcome.is_kept:
        if exit_code is not None:
            launch.reap(sandbox)
        job.home.release()
        services.log_end(job, record, outcome)
        outcome = services.with_last_checkpoint(job, record, outcome)
    return outcome


def _ends_at_once(monitor: sandbox_monitor.SandboxMonitor) -> bool:
    """Return whether the run ends within SHORT_RUN after the agent has started.

    If all processors are busy, bubblewrap takes longer than that to build the sandbox: our services would delay it further.
    """
    for _ in range(_MAX_BUILD // SHORT_RUN):
        is_started = monitor.is_agent_started()
        if monitor.has_ended_within(SHORT_RUN):
            return True
        if is_started:
            return False
    return False


def _monitor_more(
    job: RunJob,
    setup: launch.SetupProcess,
    sandbox: launch.Sandbox,
    monitor: sandbox_monitor.SandboxMonitor,
    disks: "dict[str, os.statvfs_result]",
) -> None:
    """Monitor what a run that ends immediately does not need: free disk space, whether the agent is idle, its new ports."""
    monitor.disk_monitor = limits.disk_monitor(job, disks)
    if job.prepared.settings.profile.notify_idle_seconds:
        from agent_dev.run.alerts import idle_alert  # off by default

        if check := idle_alert.idle_check(job, setup, sandbox):
            monitor.checks.append(check)
    if published_ports.AUTO in job.prepared.settings.profile.publish and setup.gateway is not None:
        from agent_dev.run.alerts import port_alert  # as above

        monitor.checks.append(port_alert.port_check(job, setup))


def _announce_end(job: RunJob, outcome: RunOutcome, seconds: float, setup: launch.SetupProcess) -> None:
    shortest = job.prepared.settings.profile.notify_end_seconds
    if shortest and seconds >= shortest and not outcome.end_signal:
        from agent_dev.run.alerts import end_alert  # after a long run

        end_alert.alert_end(job, outcome, setup.terminal.open_user_terminal())


def _index_home(job: RunJob, launched: int) -> None:
    """Index the agent home, for `agent-dev home --diff`."""
    from agent_dev.home import index_process  # after the agent, and not for a run that ended immediately

    try:
        index_process.start_indexing(job.prepared.store.path, job.home.path, launched)
    except OSError:
        return  # full disk, or home removed: the next diff reports missing data


def blocking_modes() -> list[bool | None]:
    """Return whether each standard stream is blocking; None for a closed one."""
    return [_is_blocking(fd) for fd in range(3)]


def restore_blocking(modes: list[bool | None]) -> None:
    """Restore the modes of the standard streams, whose open file descriptions are shared with the agent: node changes them."""
    for fd, was in enumerate(modes):
        if was is not None and _is_blocking(fd) is not None:
            os.set_blocking(fd, was)


def _is_blocking(fd: int) -> bool | None:
    try:
        return os.get_blocking(fd)
    except OSError:
        return None  # closed


def _finish_session(job: RunJob, record: store.Record, snapshot_pid: int | None, code: int, ran: "EndedRun") -> RunOutcome:
    monitor, setup, sandbox = ran
    supervisor = setup.supervisor
    name = str(record["name"] or job.session.id)
    merge = job.prepared.settings.profile.merge and not monitor.end_signal
    outcome = RunOutcome(code, job.session, name, 0, 0, merge, monitor.refreshes, monitor.end_signal, 0, monitor.has_timed_out)
    outcome = outcome.replace(kept_notice=record.get("undone", ""))
    store.make_uppers_accessible(job.session, len(record["roots"]))
    is_kept = (
        job.is_resumed
        or bool(outcome.kept_notice)
        or _may_have_changes(job.session, record)
        or _may_have_work_trees(job, record)
        or bool(_checkpoint_notice(job, record))
    )
    if supervisor is not None:
        from agent_dev.run import command_policy  # only with a supervisor

        log_summary = supervisor.finish(is_kept=is_kept)
        outcome = outcome.replace(denied=log_summary.denied)
        if is_kept and supervisor.has_policy:
            record = command_policy.with_policy_log(f"{job.session.folder}/commands.jsonl", record, job.prepared, log_summary)
    if setup.gateway is not None:
        record, lines = services.end_gateway(job, record, setup.gateway, is_kept=is_kept)
        outcome = outcome.replace(server_notices=lines)
    if setup.clipboard is not None:
        outcome = outcome.replace(server_notices=(*outcome.server_notices, *services.clipboard_notices(job, record)))
    if not is_kept:
        if snapshot_pid is not None:
            _cancel_snapshot(snapshot_pid)
        removal.remove_session_in_background(job.prepared.store, job.session, services.cleanup_function(job, sandbox))
        job.home.hand_over_to_child()
        return outcome
    from agent_dev.progress import show_progress
    from agent_dev.run import finish  # after the agent has exited, since it loads the review

    try:
        snapshot_pid = snapshot_pid or _begin_snapshot(job, record)
        with show_progress("comparing the agent's files with the repository"):
            contents = finish.finish_session(
                job.session, record, snapshot_pid, code, job.environ, lambda: _remaining_notice(job, record)
            )
    except OSError:
        return outcome.replace(changes=1)  # full disk: the changes are kept, and opening them reports the error
    outcome = outcome.replace(
        changes=contents.changes, commits=contents.commits, refs=contents.refs, kept_notice=outcome.kept_notice or contents.notice
    )
    return outcome.replace(review_cache=contents.review_cache)


def _checkpoint_notice(job: RunJob, record: store.Record) -> str:
    """Return the notice for a session without changes that has checkpoints of some; "" for a transaction."""
    if not job.has_checkpoints or not os.path.isdir(f"{job.session.folder}/checkpoints"):
        return ""
    from agent_dev.checkpoint import only_copy  # rare

    return only_copy.describe_only_copy(job.session, record, job.prepared.untrusted_paths, job.environ)


def _may_have_work_trees(job: RunJob, record: store.Record) -> bool:
    """Return whether the agent may have made a work tree, whose files are not in an upper layer if it is in the agent home."""
    if not any(os.path.isdir(f"{one.private_dir}/worktrees") for one in list_repositories(job.session, record)):
        return False
    from agent_dev.agent_git import work_trees  # rare

    return work_trees.may_have_made(job.session, record)


def _remaining_notice(job: RunJob, record: store.Record) -> str:
    """Return the notice for a session without changes whose checkpoints or work trees hold some; "" for no others."""
    notice = _checkpoint_notice(job, record)
    if notice or not _may_have_work_trees(job, record):
        return notice
    from agent_dev.agent_git import work_trees  # rare
    from agent_dev.overlay.labels import format_count

    name = str(record["name"] or job.session.id)
    try:
        found = work_trees.find_work_trees(job.session, record, job.prepared.machine.home, job.environ)
        made = [one for one in found if work_trees.has_work(one, job.environ)]
    except AgentDevError as error:
        return f"work trees of the agent cannot be read: {error.message}"
    return f"the agent worked in {format_count(len(made), 'work tree')} of its own (agent-dev worktrees {name})" if made else ""


def _may_have_changes(session: store.Session, record: store.Record) -> bool:
    """Return whether an upper layer or the private git dir may hold changes; a quick check."""
    for number in range(len(record["roots"])):
        private = {".git"} if refs.has_private_git_dir(record, number) else set()
        if set(os.listdir(session.root(number, "").upper)) - private:
            return True
    return refs.may_have_commits(session, record)


def _cancel_snapshot(pid: int) -> None:
    from agent_dev.overlay import lower_snapshot_process

    lower_snapshot_process.cancel(pid)


def _begin_snapshot(job: RunJob, record: store.Record) -> int:
    from agent_dev.overlay import lower_snapshot_process, lower_snapshot_request  # not needed for a run that ends immediately

    git = job.prepared.location.git
    request = lower_snapshot_request.SnapshotRequest(
        roots=tuple(record["roots"]),
        git=git.folder if git else "",
        program=programs.find_program("git", job.environ, job.prepared.untrusted_paths) or "",
        environ=job.environ,
        touched=job.touched,
        since=record["launched"],
    )
    return lower_snapshot_process.start(job.session.lower_snapshot, request, job.session.lock)


def _snapshot_before_start(job: RunJob, record: store.Record) -> int:
    """Take the lower snapshot before the agent can read anything, then allow merges."""
    pid = _begin_snapshot(job, record)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # reaped when the session is finished
    merge_lock.allow_merges(job.merge_lock)
    return pid


def _raise_start_failure(job: RunJob, snapshot_pid: int | None, setup: launch.SetupProcess) -> None:
    """Raise the error of a sandbox in which the agent never ran."""
    from agent_dev.sandbox import failed_start

    if snapshot_pid is not None:
        _cancel_snapshot(snapshot_pid)
    store.write_record(job.session, job.record)  # no longer recorded as launched
    if setup.supervisor is not None:
        setup.supervisor.raise_if_dead()
        if setup.supervisor.has_denied():
            raise DeniedByPolicy(command=job.plan.command[0], hint=_policy_hint(job.plan.command))
    facts = job.prepared.machine
    error = failed_start.explain_failed_start(job.plan, facts.bwrap, facts.bwrap_version, job.prepared.store.empty_file)
    profile, program = job.prepared.settings.profile, job.plan.command[0]
    if isinstance(error, CommandDoesNotStart) and profile.has_package and profile.command[:1] == (program,):
        error.hint = f"its interpreter is missing; to install it again: agent-dev install --upgrade {profile.name}"
    raise error


def _policy_hint(command: tuple[str, ...]) -> str:
    import shlex  # only to report a denied command

    text = shlex.join(command)
    return f"agent-dev policy check -- {text if len(text) <= _LONGEST_SHOWN else 'COMMAND'} shows the rule"
