"""Run an agent: create a session, build the sandbox, wait, and report what the session holds."""

import errno
import os
import time

from agent_dev.agent_git import refs
from agent_dev.errors import SYSTEM_ERRORS, DeniedByPolicy, agent_not_started
from agent_dev.git import passed_config_files, repository
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.home.mount_points import HomeLease
from agent_dev.linux import pid_namespace, programs
from agent_dev.run import limits, merge_lock, private_git, services, shown_paths
from agent_dev.run.compose import SessionMounts, compose_spec
from agent_dev.run.job import Outcome, RunJob
from agent_dev.run.prepare import prepare_run
from agent_dev.run.request import PreparedRun, RunRequest
from agent_dev.sandbox import bwrap, launch, plan, sandbox_monitor
from agent_dev.sandbox.plan import SessionSpec
from agent_dev.session import removal, startup_state, store
from agent_dev.session.root import Root

SHORT_RUN = 20  # ms: a shorter run without changes needs no lower snapshot and no durable record
_BWRAP_FAILED = (1, 125)  # exit codes of bubblewrap or the setup process when the agent never started
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.sandbox.supervisor_interface import SupervisorHandle

    Notice = Callable[[str], None]
    EndedRun = tuple[sandbox_monitor.SandboxMonitor, SupervisorHandle | None, launch.Sandbox]


def run(request: RunRequest, notice: "Notice", before: "Callable[[PreparedRun], PreparedRun | None] | None" = None) -> Outcome:
    """Run an agent in a new session. `notice` shows a line to the user. Raises AgentDevError if it never started.

    `before`: called before anything starts; if it returns a PreparedRun, that one is run instead.
    """
    try:
        launch.close_inherited()
        setup = launch.SetupProcess()  # first, so that it creates namespaces while we plan
    except SYSTEM_ERRORS as error:
        raise agent_not_started(error) from None
    try:
        return _begin(*_prepare(request, notice, before), request, setup, notice)
    except BaseException:
        setup.kill()
        raise


def _prepare(
    request: RunRequest, notice: "Notice", before: "Callable[[PreparedRun], PreparedRun | None] | None"
) -> tuple[PreparedRun, repository.StartedGit | None, int]:
    """Do everything that precedes the session's creation; the number is the claim on its name. Raises AgentDevError."""
    try:
        prepared = prepare_run(request)
        if startup_state.has_interrupted_merge(prepared.store):
            services.recover_merge(prepared, request.environ, notice)
        if removal.has_leftovers(prepared.store):
            removal.sweep_in_background(prepared.store)
        if before is not None:
            prepared = before(prepared) or prepared
        query = start_git_query(prepared, request.environ)
        for line in services.start_notices(prepared, request):
            notice(line)
        return prepared, query, services.claim_name(prepared, request)
    except SYSTEM_ERRORS as error:
        raise agent_not_started(error) from None


def _begin(
    prepared: PreparedRun,
    query: repository.StartedGit | None,
    claim: int,
    request: RunRequest,
    setup: launch.SetupProcess,
    notice: "Notice",
) -> Outcome:
    session = store.create_session(prepared.store)
    home = None
    try:
        setup.supervisor = services.start_supervisor(prepared, session, request.environ)
        home = HomeLease(prepared.store.path, prepared.agent_home, prepared.settings.profile.net)
        job = _job(prepared, session, home, query, request).replace(name_claim=claim)
        services.report_hidden(job, notice)
        refs.record_initial_refs(session, job.record)
        return run_job(job, setup)
    except BaseException as error:
        if setup.supervisor is not None:
            setup.supervisor.kill()
        if home:
            home.release()
        is_unborn = services.drop_unstarted(session)
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            raise services.disk_full_error(prepared, error) from None
        if isinstance(error, SYSTEM_ERRORS) and is_unborn:
            raise agent_not_started(error) from None
        raise


def start_git_query(prepared: PreparedRun, environ: dict[str, str]) -> repository.StartedGit | None:
    """Start a git query early; its result is read when everything else is ready."""
    git = programs.find_program("git", environ, prepared.untrusted_paths)
    return (
        repository.start_git(git, prepared.location.root, ("config", "--list", "-z", "--show-scope", "--includes"), environ)
        if git
        else None
    )


def _job(
    prepared: PreparedRun, session: store.Session, home: HomeLease, query: repository.StartedGit | None, request: RunRequest
) -> RunJob:
    paths = (prepared.location.root, *prepared.overlays)
    roots = tuple(store.add_root(session, number, path) for number, path in enumerate(paths))
    direct = prepared.location.root if request.options.direct else ""
    roots = () if direct else roots  # the upper layer stays empty
    git = private_git.make_copies(private_git.CopyJob(prepared, session, roots, request.environ))
    passed = passed_git_config(query, request.environ, prepared)
    if prepared.location.git:
        passed_config_files.append_to_config(git[0].host_path, passed.git_dir_config)
    parts = make_session_spec(prepared, session, roots, git, passed, request.environ)
    if direct:
        parts = services.direct_spec(parts, prepared, passed)
    sandbox_plan = plan.build_plan(prepared.settings.profile, prepared.machine, parts)
    home.prepare(bwrap.home_mount_points(sandbox_plan), sandbox_plan)
    return RunJob(
        prepared=prepared,
        session=session,
        plan=sandbox_plan,
        spec=parts,
        record=_record(prepared, request, parts),
        home=home,
        environ=request.environ,
        deadline=request.deadline,
        merge_lock=request.merge_lock,
        has_checkpoints=request.has_checkpoints,
    )


def passed_git_config(
    query: repository.StartedGit | None, environ: dict[str, str], prepared: PreparedRun
) -> passed_config_files.PassedConfig:
    """Return the user's settings for the agent's git, from the git query."""
    if query is None:
        return passed_config_files.PassedConfig()
    facts = prepared.machine
    return passed_config_files.read_passed_config(
        repository.finish_git(query)[1], passed_config_files.ConfigUser(facts.user, facts.home, prepared.location.root, environ)
    )


def make_session_spec(
    prepared: PreparedRun,
    session: store.Session,
    roots: tuple[Root, ...],
    git: tuple[PrivateGitDir, ...],
    passed: passed_config_files.PassedConfig,
    environ: dict[str, str],
) -> SessionSpec:
    """Return the session's part of the plan."""
    caches = tuple(store.add_cache(session, number, path) for number, path in enumerate(prepared.caches))
    parts = compose_spec(prepared, SessionMounts(session.id, roots, caches, git), passed, environ)
    shown_paths.create_masks(prepared, parts)
    return parts


def _record(prepared: PreparedRun, request: RunRequest, parts: SessionSpec) -> store.Record:
    return {
        "state": store.RUNNING,
        "name": request.options.name,
        "root": prepared.location.root,
        "roots": [root.path for root in parts.roots] or [prepared.location.root],
        "cwd": parts.cwd,
        **private_git.record_fields(prepared.location.git, parts.git_dirs, parts.roots, is_direct=bool(parts.direct_root)),  # type: ignore[typeddict-item]
        "profile": prepared.settings.profile.name,
        "command": list(parts.command),
        "words": list(request.arguments),
        "options": {name: value for name, value in request.options.as_dict().items() if value},
        "is_command": request.is_command,
        "agent_home": prepared.agent_home,
        "homes": prepared.homes_folder,
        "rw": list(prepared.rw),
        "started": time.time_ns(),
        "launcher": os.getpid(),
    }


def run_job(job: RunJob, setup: launch.SetupProcess) -> Outcome:
    """Start the sandbox, wait for its end, and finish the session."""
    merge_lock.block_merges(job.merge_lock)
    limits.add_limit_groups(job, setup)
    blocking = [_is_blocking(fd) for fd in range(3)]
    try:
        return _run_sandbox(job, setup, blocking)
    finally:
        setup.terminal.finish()
        if setup.supervisor is not None:
            setup.supervisor.kill()


def _run_sandbox(job: RunJob, setup: launch.SetupProcess, blocking: list[bool | None]) -> Outcome:
    facts, listener = job.prepared.machine, services.open_control_socket(job)
    sandbox = launch.build_with_fallback(job.plan, facts.bwrap, facts.bwrap_version, job.prepared.store.empty_file, setup)
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
    if not monitor.has_ended_within(SHORT_RUN):
        snapshot_pid = _begin_snapshot(job, record) if snapshot_pid is None else snapshot_pid
        services_pids = services.start_services(job, record, listener)
        store.sync_record(job.session)
        monitor.disk_monitor = limits.disk_monitor(job, disks)
        monitor.wait()
    services.stop_services(job, services_pids, listener)
    exit_code = launch.exit_code(sandbox)
    exit_code = monitor.exit_code if exit_code is None else exit_code
    setup.finish_streams()
    setup.terminal.finish()
    for fd, was in enumerate(blocking):
        if was is not None and _is_blocking(fd) is not None:
            os.set_blocking(fd, was)  # the open file description is shared with the agent, and node leaves it changed
    monitor.restore_handlers()
    if exit_code is None and not monitor.end_signal and launch.reap(sandbox) in _BWRAP_FAILED:
        _raise_start_failure(job, snapshot_pid, setup)
    code = 128 + monitor.end_signal if monitor.end_signal else (137 if exit_code is None else exit_code)
    reason = limits.reached_limit(job, setup, monitor, code)
    record = services.finish_rollback(job, record, sandbox.setup_pid)
    outcome = _finish_session(job, record, snapshot_pid, code, (monitor, setup.supervisor, sandbox)).replace(limit_notice=reason)
    if snapshot_pid is not None:
        _index_home(job, record["launched"])
    if outcome.is_kept:
        if exit_code is not None:
            launch.reap(sandbox)
        job.home.release()
        services.log_end(job, record, outcome)
        return outcome.replace(checkpoint_error=services.take_last_checkpoint(job, record))
    return outcome


def _index_home(job: RunJob, launched: int) -> None:
    """Index the agent home, for `agent-dev home --diff`."""
    from agent_dev.home import index  # after the agent, and not for a run that ended immediately

    try:
        index.start_indexing(job.prepared.store.path, job.home.path, launched)
    except OSError:
        return  # full disk, or home removed: the next diff reports missing data


def _is_blocking(fd: int) -> bool | None:
    try:
        return os.get_blocking(fd)
    except OSError:
        return None  # closed


def _finish_session(job: RunJob, record: store.Record, snapshot_pid: int | None, code: int, ran: "EndedRun") -> Outcome:
    monitor, supervisor, sandbox = ran
    name = str(record["name"] or job.session.id)
    merge = job.prepared.settings.profile.merge and not monitor.end_signal
    outcome = Outcome(code, job.session, name, 0, 0, merge, monitor.refreshes, monitor.end_signal, 0, monitor.has_timed_out)
    outcome = outcome.replace(kept_notice=record.get("undone", ""))
    store.make_uppers_accessible(job.session, len(record["roots"]))
    is_kept = (
        job.is_resumed
        or bool(outcome.kept_notice)
        or _may_have_changes(job.session, record)
        or bool(_checkpoint_notice(job, record))
    )
    if supervisor is not None:
        from agent_dev.run import command_policy  # only with a supervisor

        tally = supervisor.finish(is_kept=is_kept)
        outcome = outcome.replace(denied=tally.denied)
        if is_kept and supervisor.has_policy:
            record = command_policy.with_policy_log(f"{job.session.folder}/commands.jsonl", record, job.prepared, tally)
    if not is_kept:
        if snapshot_pid is not None:
            _cancel_snapshot(snapshot_pid)
        removal.remove_session_in_background(job.prepared.store, job.session, services.cleanup_function(job, sandbox))
        job.home.hand_over_to_child()
        return outcome
    from agent_dev.run import finish  # after the agent has exited, since it loads the review

    try:
        snapshot_pid = snapshot_pid or _begin_snapshot(job, record)
        contents = finish.finish_session(
            job.session, record, snapshot_pid, code, job.environ, lambda: _checkpoint_notice(job, record)
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


def _may_have_changes(session: store.Session, record: store.Record) -> bool:
    """Return whether an upper layer or the private git dir may hold changes; a quick check."""
    for number in range(len(record["roots"])):
        private = {".git"} if refs.has_private_git_dir(record, number) else set()
        if set(os.listdir(session.root(number, "").upper)) - private:
            return True
    return refs.have_refs_changed(session, record)


def _cancel_snapshot(pid: int) -> None:
    from agent_dev.overlay import lower_snapshot_take

    lower_snapshot_take.cancel(pid)


def _begin_snapshot(job: RunJob, record: store.Record) -> int:
    from agent_dev.overlay import lower_snapshot_request, lower_snapshot_take  # not needed for a run that ends immediately

    git = job.prepared.location.git
    request = lower_snapshot_request.SnapshotRequest(
        roots=tuple(record["roots"]),
        git=git.folder if git else "",
        program=programs.find_program("git", job.environ, job.prepared.untrusted_paths) or "",
        environ=job.environ,
        touched=job.touched,
        since=record["launched"],
    )
    return lower_snapshot_take.start(job.session.lower_snapshot, request, job.session.lock)


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
            raise DeniedByPolicy(command=job.plan.command[0], hint="agent-dev policy check -- COMMAND shows the rule")
    facts = job.prepared.machine
    raise failed_start.explain_failed_start(job.plan, facts.bwrap, facts.bwrap_version, job.prepared.store.empty_file)
