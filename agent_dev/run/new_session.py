"""Create a session: its plan, its record, its private git directories; then execute it."""

import errno
import os
import time

from agent_dev.agent_git import refs
from agent_dev.errors import SYSTEM_ERRORS, agent_not_started
from agent_dev.git import passed_config_files, repository
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.home.mount_points import HomeLease
from agent_dev.linux import programs
from agent_dev.run import execute, private_git, services, shown_paths
from agent_dev.run.compose import SessionMounts, compose_spec
from agent_dev.run.job import RunJob, RunOutcome
from agent_dev.run.prepare import prepare_run, require_prompt
from agent_dev.run.request import COMMAND, PreparedRun, RunRequest
from agent_dev.sandbox import bwrap, launch, plan
from agent_dev.sandbox.plan import SessionSpec
from agent_dev.session import removal, startup_state, store
from agent_dev.session.root import Root

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.run.request import Notice


def start_and_wait(
    request: RunRequest,
    setup: launch.SetupProcess,
    notice: "Notice",
    before: "Callable[[PreparedRun], PreparedRun | None] | None",
) -> RunOutcome:
    """Create a session and run its agent to the end. Raises AgentDevError if it never started."""
    prepared, query, claim = _prepare(request, notice, before)
    return _begin(prepared, query, claim, request, setup, notice)


def _prepare(
    request: RunRequest, notice: "Notice", before: "Callable[[PreparedRun], PreparedRun | None] | None"
) -> tuple[PreparedRun, repository.StartedGit | None, int]:
    """Do everything that precedes the session's creation; the number is the claim on its name. Raises AgentDevError."""
    try:
        prepared = prepare_run(request)
        require_prompt(prepared, request, request.arguments[1:])
        if startup_state.has_interrupted_merge(prepared.store):
            services.recover_merge(prepared, request.environ, notice)
        if removal.has_leftovers(prepared.store):
            removal.sweep_in_background(prepared.store)
        if before is not None:
            prepared = before(prepared) or prepared
        query = start_git_query(prepared, request.environ)
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
) -> RunOutcome:
    session = store.create_session(prepared.store)
    home = None
    try:
        services.start_helpers(setup, prepared, session, request.environ)
        home = services.use_home(prepared, is_direct=bool(request.options.direct))
        job = _job(prepared, session, home, query, request).replace(name_claim=claim)
        setup.while_building = lambda: _finish_preparation(job, request, notice)
        return execute.run_job(job, setup, notice)
    except BaseException as error:
        setup.kill_helpers()
        if home:
            home.release()
        is_unborn = services.drop_unstarted(session)
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            raise services.disk_full_error(prepared, error) from None
        if isinstance(error, SYSTEM_ERRORS) and is_unborn:
            raise agent_not_started(error) from None
        raise


def _finish_preparation(job: RunJob, request: RunRequest, notice: "Notice") -> None:
    """Do the part of the preparation that the sandbox does not need to be built, but that the agent must not precede."""
    for line in services.start_notices(job.prepared, request):
        notice(line)
    services.report_hidden(job, notice)
    refs.record_initial_refs(job.session, job.record)


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
        reviews_next=request.reviews_next,
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
    if prepared.containers is not None:
        from agent_dev.sandbox.containers import support  # already loaded

        os.makedirs(support.store_path(session.folder), 0o700, exist_ok=True)
    return parts


def _record(prepared: PreparedRun, request: RunRequest, parts: SessionSpec) -> store.Record:
    return {
        "state": store.RUNNING,
        "name": request.options.name,
        "root": prepared.location.root,
        "roots": [root.path for root in parts.roots] or [prepared.location.root],
        "cwd": parts.cwd,
        **private_git.record_fields(  # type: ignore[typeddict-item]
            private_git.find_git_dirs(prepared.location.git, tuple(root.path for root in parts.roots[1:])),
            parts.git_dirs,
            parts.roots,
            is_direct=bool(parts.direct_root),
        ),
        "profile": prepared.settings.profile.name,
        "command": list(parts.command),
        "words": list(request.arguments),
        "options": {name: value for name, value in request.options.as_dict().items() if value},
        "is_command": request.kind == COMMAND,
        "agent_home": prepared.agent_home,
        "homes": prepared.homes_folder,
        "rw": list(prepared.rw),
        "rename_similarity": prepared.settings.profile.rename_similarity,
        "started": time.time_ns(),
        "launcher": os.getpid(),
        "clipboard": prepared.settings.profile.clipboard,
        "leaves": dict(prepared.settings.profile.agent).get("leaves", []),
        "net": services.net_record(prepared),
    }
