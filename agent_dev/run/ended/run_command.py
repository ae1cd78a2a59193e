"""Run a command on the files of an ended session and do not keep its changes: the session and the agent home stay as they are.

The sandbox is that of the session, with one more layer in each overlay: the session's upper is read-only, above it is an upper of
a temporary session without a record. That one is listed nowhere, and removed at the end or by the next command.
"""

import os

from agent_dev.errors import SYSTEM_ERRORS, Refused, agent_not_started
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.home import mount_points
from agent_dev.home.mount_points import HomeLease
from agent_dev.run import execute, limits, new_session, resume, services
from agent_dev.run.job import RunJob
from agent_dev.run.request import PreparedRun, RunRequest
from agent_dev.sandbox import bwrap, failed_start, launch, plan, sandbox_monitor
from agent_dev.sandbox.joining.step import STEP
from agent_dev.sandbox.plan import Bind, Mount, Overlay, SandboxPlan, SessionSpec
from agent_dev.session import removal, store
from agent_dev.session.root import Root
from agent_dev.session.sessions import ListedSession

_KILLED = 137  # the exit code if bubblewrap was killed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.request import Notice


def run_on_ended(listed: ListedSession, request: RunRequest, cwd: str, notice: "Notice") -> int:
    """Run a command, `request.command`, on an ended session that is locked; return its exit code.

    Raises AgentDevError if the command never started.
    """
    _refuse(listed)
    try:
        launch.close_inherited()
        prepared = resume.prepare_again(listed, request.replace(command=(*STEP, *request.command))).replace(cwd=cwd)
        resume.refuse_other_roots(prepared, listed.record)
        return _run_in_temporary_session(prepared, listed, request, notice)
    except SYSTEM_ERRORS as error:
        raise agent_not_started(error) from None


def _refuse(listed: ListedSession) -> None:
    if store.is_direct(listed.record):
        raise Refused(message=f"session {listed.name} ran in the real tree: its files are there")
    if listed.record.get("packed"):
        message = f"session {listed.name} is merged: it has no files of its own"
        raise Refused(message=message, hint=f"agent-dev resume {listed.name} -- COMMAND")


def _run_in_temporary_session(prepared: PreparedRun, listed: ListedSession, request: RunRequest, notice: "Notice") -> int:
    temporary = store.create_session(prepared.store)
    home = None
    try:
        home = services.use_home(prepared)
        job = _job(prepared, listed, temporary, home, request)
        setup = launch.SetupProcess()
        try:
            services.start_helpers(setup, prepared, temporary, request.environ, can_ask=False)
            return _execute(job, setup, notice)
        finally:
            setup.terminal.finish()
            setup.kill_helpers()
    finally:
        if home is not None:
            home.release()
        removal.remove_session_now(temporary)


def _job(prepared: PreparedRun, listed: ListedSession, temporary: store.Session, home: HomeLease, request: RunRequest) -> RunJob:
    query = new_session.start_git_query(prepared, request.environ)
    paths = (prepared.location.root, *prepared.overlays)
    roots = tuple(_add_root(listed.session, temporary, number, path) for number, path in enumerate(paths))
    git_dirs = resume.git_dirs_of(listed, listed.record)
    passed = new_session.passed_git_config(query, request.environ, prepared)
    parts = new_session.make_session_spec(prepared, temporary, roots, git_dirs, passed, request.environ)
    view = _layer(temporary, "home", prepared.agent_home)
    os.mkdir(view.target, 0o700)
    sandbox_plan = plan.build_plan(prepared.settings.profile, prepared.machine, _without_effects(parts, view.target))
    sandbox_plan = _with_layers(sandbox_plan, view, git_dirs, temporary)
    mount_points.prepare_layer(view.upper, bwrap.home_mount_points(sandbox_plan), sandbox_plan)
    return RunJob(
        prepared=prepared,
        session=temporary,
        plan=sandbox_plan,
        spec=parts,
        record=listed.record,
        home=home,
        environ=request.environ,
        has_checkpoints=False,
    )


def _add_root(ended: store.Session, temporary: store.Session, number: int, path: str) -> Root:
    upper = ended.root(number, path).upper
    return store.add_root(temporary, number, upper).replace(path=path, ended_upper=upper)


def _without_effects(parts: SessionSpec, home: str) -> SessionSpec:
    """Return a spec with this home, without a writable directory of the host and without a control socket."""
    return parts.replace(agent_home=home, rw=(), ro=(*parts.ro, *parts.rw), control_socket=None)


def _layer(temporary: store.Session, name: str, lower: str) -> Overlay:
    """Create the directories of an overlay of `lower`, and return it, mounted in the session's folder."""
    folder = f"{temporary.folder}/{name}"
    os.mkdir(folder, 0o700)
    for part in ("upper", "work"):
        os.mkdir(f"{folder}/{part}", 0o700)
    return Overlay(f"{folder}/view", lower, f"{folder}/upper", f"{folder}/work")


def _with_layers(
    sandbox_plan: SandboxPlan, view: Overlay, git_dirs: tuple[PrivateGitDir, ...], temporary: store.Session
) -> SandboxPlan:
    """Return a plan that mounts overlays of the home and of private git directories outside the roots."""
    layers = {
        one.host_path: _layer(temporary, f"git-{number}", one.host_path) for number, one in enumerate(git_dirs) if one.inside_path
    }

    def layered(mount: Mount) -> Mount:
        if isinstance(mount, Bind) and mount.writable and mount.source in layers:
            return layers[mount.source].replace(target=mount.target)
        return mount

    return sandbox_plan.replace(mounts=tuple(map(layered, sandbox_plan.mounts)), early_overlays=(view,))


def _execute(job: RunJob, setup: launch.SetupProcess, notice: "Notice") -> int:
    """Run the sandbox of a job to its end, and return the command's exit code."""
    facts, blocking = job.prepared.machine, execute.blocking_modes()
    limits.add_limit_groups(job, setup, notice)
    sandbox = launch.build_with_fallback(job.plan, facts.bwrap, facts.bwrap_version, job.prepared.store.empty_file, setup)
    launch.attach_gateway(sandbox, setup.gateway, setup.terminal)
    monitor = sandbox_monitor.SandboxMonitor(sandbox, setup.terminal, limits.monitor_options(job))
    monitor.install_handlers()
    monitor.disk_monitor = limits.disk_monitor(job, limits.free_space(job))
    launch.start_agent(sandbox)
    monitor.wait()
    code = launch.exit_code(sandbox)
    code = monitor.exit_code if code is None else code
    setup.finish_streams()
    setup.terminal.finish()
    execute.restore_blocking(blocking)
    monitor.restore_handlers()
    status = launch.reap(sandbox)  # all is unmounted now
    if code is None and not monitor.end_signal and status in execute.BWRAP_FAILED:
        raise failed_start.explain_failed_start(job.plan, facts.bwrap, facts.bwrap_version, job.prepared.store.empty_file)
    code = 128 + monitor.end_signal if monitor.end_signal else (_KILLED if code is None else code)
    if line := limits.reached_limit(job, setup, monitor, code):
        notice(line)
    return code
