"""The services around a run: notices, the supervisor, the checkpoint timer, the control socket."""

import os

from agent_dev.config.profile import GATEWAY_NETS
from agent_dev.errors import UnreadableSession, UnusableStateDirectory
from agent_dev.home.mount_points import HomeLease
from agent_dev.home.network_lease import SharedPaths
from agent_dev.linux import process
from agent_dev.run import shown_paths
from agent_dev.run.request import HOSTS_SUFFIX, PreparedRun, RunRequest
from agent_dev.sandbox import launch
from agent_dev.sandbox.plan import SessionSpec, network_key
from agent_dev.session import removal, startup_state, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.checkpoint.timer_process import TimerSpec
    from agent_dev.clipboard.handle import ClipboardServer
    from agent_dev.git.passed_config_files import PassedConfig
    from agent_dev.run.job import RunJob, RunOutcome
    from agent_dev.run.request import Notice
    from agent_dev.sandbox.supervisor_interface import NetworkGateway
    from agent_dev.supervisor.handle import Supervisor


def start_supervisor(prepared: PreparedRun, session: store.Session, environ: dict[str, str]) -> "Supervisor | None":
    """Start the supervisor of a session early, so that it loads while we plan; None without policy and renames."""
    profile = prepared.settings.profile
    if profile.policy == "off" and not profile.directory_renames and not prepared.findings:
        return None
    from agent_dev.run import command_policy  # only if one of them is on

    return command_policy.start_supervisor(prepared, session, environ)


def start_helpers(
    setup: launch.SetupProcess, prepared: PreparedRun, session: store.Session, environ: dict[str, str], *, can_ask: bool = True
) -> None:
    """Start the supervisor, and with a network of its own the gateway, early, so that they load while we plan."""
    setup.supervisor = start_supervisor(prepared, session, environ)
    profile = prepared.settings.profile
    try:
        if profile.net in GATEWAY_NETS or (profile.net == "none" and profile.publish):
            from agent_dev.run.network import gateway as network_gateway  # only with a network of its own

            setup.gateway = network_gateway.start_gateway(prepared, session, environ, can_ask=can_ask)
        if prepared.ssh_agent:
            from agent_dev.ssh_agent.filter_options import FilterOptions  # only with `ssh`
            from agent_dev.ssh_agent.handle import SshFilter

            setup.ssh_filter = SshFilter(FilterOptions(profile.ssh, prepared.ssh_agent, prepared.machine.home, session.folder))
        if prepared.clipboard:
            setup.clipboard = _start_clipboard(prepared, session, environ)
    except BaseException:
        setup.kill()
        raise


def _start_clipboard(prepared: PreparedRun, session: store.Session, environ: dict[str, str]) -> "ClipboardServer":
    from agent_dev.clipboard.handle import ClipboardServer  # only with `share: clipboard-images`
    from agent_dev.clipboard.options import ClipboardOptions
    from agent_dev.notification import NotificationSettings

    profile, untrusted = prepared.settings.profile, (*prepared.untrusted_paths, session.folder)
    notifications = NotificationSettings(profile.notify, profile.notify_command, environ, untrusted)
    return ClipboardServer(ClipboardOptions(prepared.clipboard, session.folder, notifications))


def clipboard_notices(job: "RunJob", record: store.Record) -> tuple[str, ...]:
    """Return how many images of the clipboard the agent has read."""
    from agent_dev.overlay.labels import format_count  # after the agent
    from agent_dev.session import events

    rows = events.read_events(job.session, record).rows
    images = [row for row in rows if row["event"] == events.CLIPBOARD and row.get("image") and row["time"] >= record["launched"]]
    return (f"the agent read {format_count(len(images), 'image')} from your clipboard",) if images else ()


def net_record(prepared: PreparedRun) -> "store.NetRecord":
    """Return the session record's entry for the network: the rules count only with a gateway."""
    profile = prepared.settings.profile
    allow, deny = (profile.allow, profile.deny) if profile.net in GATEWAY_NETS else ((), ())
    return {"mode": profile.net, "allow": list(allow), "deny": list(deny)}


def end_gateway(
    job: "RunJob", record: store.Record, gateway: "NetworkGateway", *, is_kept: bool
) -> tuple[store.Record, tuple[str, ...]]:
    """End a gateway; return the session's record with the end of its log, and what the user should know."""
    if not is_kept and job.prepared.settings.profile.net not in ("ask", "learn") and not gateway.has_died():
        gateway.stop()
        return record, ()  # its log goes with the session
    from agent_dev.run.network import gateway as network_gateway  # loaded already

    report = gateway.end()
    if report and job.prepared.findings:
        with open(job.prepared.findings + HOSTS_SUFFIX, "w", encoding="utf-8") as file:
            file.writelines(f"{rule}\n" for rule in report.learned)
    record = network_gateway.record_log(job.session, record, report) if is_kept and report else record
    return record, network_gateway.end_notices(report, is_kept=is_kept)


def recover_merge(prepared: PreparedRun, environ: dict[str, str], notice: "Notice") -> None:
    """Recover an interrupted merge of this root; one that cannot be recovered is reported and left as it is."""
    from agent_dev.errors import RecoveryRequired
    from agent_dev.merge import recover as recovery  # rare, and it needs all of the merge engine

    try:
        recovery.recover_root(prepared.store, prepared.location.root, environ, notice)
    except RecoveryRequired as error:
        notice(error.message)
        notice(error.hint)


def start_notices(prepared: PreparedRun, request: RunRequest) -> tuple[str, ...]:
    """Return the notices to show before the agent starts."""
    waiting, has_older = startup_state.waiting_session_names(prepared.store, prepared.location.root)
    lines = []
    if waiting:
        names = ", ".join(waiting[-3:]) + (" …" if len(waiting) > 3 else "")
        plural = "s" if len(waiting) > 1 or has_older else ""
        count = f"{len(waiting)} or more" if has_older else len(waiting)
        lines.append(f"{count} unmerged session{plural} here: {names} (agent-dev sessions)")
    unset = (name for name in request.options.env if "=" not in name and name not in request.environ)
    lines += [f"--env {name}: not set in your environment, so not passed through" for name in unset]
    if prepared.settings.profile.credentials:
        from agent_dev.run.network import credentials  # most users have no credentials

        lines += filter(None, (credentials.unused_notice(prepared.settings.profile),))
    if prepared.settings.profile.publish:
        lines += _published_notices(prepared)
    if prepared.settings.profile.net in GATEWAY_NETS:
        from agent_dev.run.network import gateway as network_gateway  # only with a network of its own

        lines += network_gateway.start_hints(prepared.settings.profile.allow)
    return (*lines, *shown_paths.session_notices(prepared))


def _published_notices(prepared: PreparedRun) -> "list[str]":
    """Return notices about ports that others reach, or that are not published because the network is the host's."""
    from agent_dev.config.published_ports import fixed_ports  # only with published ports

    profile = prepared.settings.profile
    wanted = [port for port in profile.publish if not port.endswith("?")]
    if profile.net == "host":
        text = f"publish {', '.join(wanted)}: no effect with net: host, where servers of the agent are on this machine's loopback"
        return [text] if wanted else []
    exposed = (port for port in fixed_ports(profile.publish) if not port.is_local)
    return [f"publish {port.text}: other machines can connect to the agent's server, not only this one" for port in exposed]


def report_hidden(job: "RunJob", notice: "Notice") -> None:
    """Report which parts of the git directory the agent does not get, and which files `mask:` does not hide."""
    from agent_dev.run import private_git  # already loaded

    line = private_git.left_out_notice(job.spec.git_dirs)
    if line:
        notice(line)
    if job.prepared.settings.profile.mask:
        from agent_dev.run import mask_report  # most runs mask nothing

        for line in mask_report.mask_notices(job.prepared, job.spec):
            notice(line)


def direct_spec(parts: SessionSpec, prepared: PreparedRun, passed: "PassedConfig") -> SessionSpec:
    """Return the session's part for a run that writes its root directly.

    Snapshots in the root are masked; files that lead the user's git to settings are read-only.
    """
    from agent_dev.fs import snapshot_names
    from agent_dev.git import nested_repositories

    root = prepared.location.root
    hidden = tuple(f"{root}/{name}" for name in snapshot_names.snapshots_in(root))
    if hidden:
        os.makedirs(parts.empty_directory, 0o755, exist_ok=True)
    gitdir_files = tuple(f"{root}/{one.path}" for one in prepared.nested_repositories if one.kind == nested_repositories.FILE)
    return parts.replace(
        direct_root=root,
        masked_directories=(*parts.masked_directories, *hidden),
        ro=(*parts.ro, *gitdir_files, *passed.included_files),
        control_socket=None,
    )


def use_home(prepared: PreparedRun, *, is_direct: bool = False) -> HomeLease:
    """Use the agent home of a run. Raises Refused while a session with another network sees what this one writes."""
    direct = (prepared.location.root,) if is_direct else ()
    shared = SharedPaths(written=(*prepared.rw, *direct), read=(*prepared.ro, *prepared.tools))
    lease = HomeLease(prepared.store.path, prepared.agent_home, network_key(prepared.settings.profile), shared)
    if prepared.seeds:
        from agent_dev.home import seeds  # few agents need it

        seeds.write_seeds(prepared.agent_home, prepared.seeds)
    return lease


def open_control_socket(job: "RunJob") -> int:
    """Create the session's control socket; return its descriptor, -1 if it has none."""
    if job.spec.control_socket is None:
        return -1
    from agent_dev.control import socket_file  # only if enabled

    return socket_file.create_socket(job.session)


def start_services(job: "RunJob", record: store.Record, listener: int) -> tuple[int, int]:
    """Start the checkpoint timer and the control server; return their pids, 0 for none."""
    timer = server = 0
    if _has_checkpoints(job):
        from agent_dev.checkpoint import timer_process  # not needed for a run that ends immediately

        timer = timer_process.start_timer(job.session, record, _retention(job))
    if listener >= 0:
        server = _start_control_server(job, record, listener)
    return timer, server


def _start_control_server(job: "RunJob", record: store.Record, listener: int) -> int:
    from agent_dev.checkpoint import timer_process  # not needed for a run that ends immediately

    def serve() -> None:
        from agent_dev.control import session_service  # in this process alone

        session_service.serve(job.session.replace(lock=-1), record, 3, _retention(job))

    pid = timer_process.start_background(serve, listener, 0)
    os.close(listener)  # clients must not wait once the server is gone
    return pid


def stop_services(job: "RunJob", pids: tuple[int, int], listener: int) -> None:
    """Stop the checkpoint timer and the control server, and remove the control socket."""
    timer, server = pids
    if timer:
        process.terminate(timer)
    if listener < 0:
        return
    from agent_dev.control import socket_file  # only if enabled

    if server:
        process.terminate(server)
    else:
        os.close(listener)
    socket_file.remove_socket(job.session)


def cleanup_function(job: "RunJob", sandbox: launch.Sandbox) -> "Callable[[], None]":
    """Return a function that leaves the agent home and removes the control groups of an ended sandbox."""

    def clean_up() -> None:
        job.home.release()
        launch.remove_cgroups(sandbox)

    return clean_up


def finish_rollback(job: "RunJob", record: store.Record, setup_pid: int) -> store.Record:
    """Finish an interrupted rollback and roll back a transaction that was left open, once all mounts are gone.

    Return the record, to which a rollback is added.
    """
    if not any(os.path.lexists(f"{job.session.folder}/{name}") for name in ("rollback.shown", "transaction")):
        return record
    from agent_dev.merge import session_access

    try:
        os.waitid(os.P_PID, setup_pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        pass  # already reaped
    return {**record, "undone": session_access.finish_interrupted_work(job.session)}


def with_last_checkpoint(job: "RunJob", record: store.Record, outcome: "RunOutcome") -> "RunOutcome":
    """Take the checkpoint at the end of a run, while the review opens if it opens next; return the outcome with it."""
    if not _has_checkpoints(job):
        return outcome
    from agent_dev.checkpoint import last_checkpoint  # after the agent

    seen = outcome.review_cache  # None if directories had to be made readable
    if job.reviews_next and seen is not None and last_checkpoint.may_run_during_review(seen.changes.changes):
        is_awaited = not (outcome.opens_review and os.isatty(0) and os.isatty(2))  # no screen opens: it is all that is left to do
        taken = last_checkpoint.LastCheckpoint(lambda: _take_last_checkpoint(job, record), is_awaited=is_awaited)
        return outcome.replace(last_checkpoint=taken)
    return outcome.replace(checkpoint_error=_take_last_checkpoint(job, record))


def _take_last_checkpoint(job: "RunJob", record: store.Record) -> str:
    """Take the checkpoint; return why it failed, "" if it did not."""
    from agent_dev.checkpoint import checkpoint_store, timer_process  # after the agent
    from agent_dev.errors import CheckpointFailed

    try:
        checkpoint_store.take_checkpoint(job.session, record, checkpoint_store.END)
        timer_process.prune(job.session, _retention(job))
    except CheckpointFailed as error:
        return error.message
    return ""


def log_end(job: "RunJob", record: store.Record, outcome: "RunOutcome") -> None:
    """Log how the run ended in the session; also its start, if it ended before that was logged."""
    from agent_dev.session import events  # after the agent

    launched, saved = record["launched"], store.read_record(job.session)
    if not any(
        row.get("event") == events.START and row["time"] == launched for row in events.read_events(job.session, saved).rows
    ):
        events.log_event(job.session, events.START, at=launched, argv=record["command"], profile=record["profile"])
    counts = {"changes": outcome.changes, "commits": outcome.commits, "policy": saved.get("policy")}
    limit = {"limit": outcome.limit_notice} if outcome.limit_notice else {}
    duration = (saved.get("ended", launched) - launched) // 1_000_000
    events.log_event(
        job.session, events.END, at=saved.get("ended", 0), exit=outcome.exit_code, milliseconds=duration, **counts, **limit
    )


def _has_checkpoints(job: "RunJob") -> bool:
    """Return whether automatic checkpoints are taken; an agent in the real tree has a snapshot instead."""
    is_wanted = job.has_checkpoints and job.prepared.settings.profile.checkpoint_minutes > 0
    return is_wanted and not job.spec.direct_root


def _retention(job: "RunJob") -> "TimerSpec":
    from agent_dev.checkpoint.timer_process import TimerSpec  # only if checkpoints are taken

    profile = job.prepared.settings.profile
    return TimerSpec(
        profile.checkpoint_minutes, profile.keep_checkpoints, profile.keep_checkpoints_days, profile.keep_checkpoints_mib
    )


def drop_unstarted(session: store.Session) -> bool:
    """Remove a session if its agent was never started, and return whether it was removed. An unreadable session is kept."""
    try:
        is_unstarted = store.has_no_record(session) or "launched" not in store.read_record(session)
    except UnreadableSession:
        return False  # out of memory or descriptors: the session may hold changes of the agent
    try:
        if is_unstarted and os.path.isdir(session.folder):
            removal.remove_session_now(session)
    except OSError:
        return is_unstarted  # the next command removes it
    return is_unstarted


def claim_name(prepared: PreparedRun, request: RunRequest) -> int:
    """Claim the name of a session to be created, until `release_name`; -1 without a name. Raises UsageError."""
    if not request.options.name:
        return -1
    from agent_dev.session import session_names  # most sessions have none

    return session_names.claim_name(prepared.store.path, prepared.location.root, request.options, request.environ)


def release_name(claim: int) -> None:
    """Release a claim: from now on the session's record has the name."""
    if claim >= 0:
        os.close(claim)


def disk_full_error(prepared: PreparedRun, error: OSError) -> UnusableStateDirectory:
    """Return the error of a run that failed because a disk is full."""
    from agent_dev.fs import disk_space  # rare

    path = disk_space.failed_path(error, prepared.store.path, prepared.agent_home, prepared.location.root)
    hint = f"free space in the file system at {path}, or set `state:` in config.yaml to another directory"
    return UnusableStateDirectory(path=prepared.store.path, reason=f"{error.strerror} (file system at {path})", hint=hint)
