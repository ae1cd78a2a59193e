"""Run an agent again in an ended session: the same upper layers and private git dir, a new work directory."""

import os
import time

from agent_dev.agent_git import refs
from agent_dev.agent_git.repositories import AgentRepository, list_repositories, select_stores
from agent_dev.config.options import RunOptions
from agent_dev.errors import (
    SYSTEM_ERRORS,
    AgentDevError,
    NoDirectory,
    Refused,
    UnreadableSession,
    agent_not_started,
    describe_system_error,
)
from agent_dev.fs import dir_tree, walk
from agent_dev.fs.entry import CorruptUpperError, FileType
from agent_dev.git import passed_config_files
from agent_dev.git.git_dir import PrivateGitDir
from agent_dev.overlay.lower_snapshot_request import PriorChanges
from agent_dev.paths import RUN
from agent_dev.run import execute, new_session, run, services, shown_paths
from agent_dev.run import job as run_job
from agent_dev.run.prepare import prepare_run, repeatable_options, require_prompt
from agent_dev.run.request import AGENT_OR_COMMAND, COMMAND, PreparedRun, RunRequest
from agent_dev.sandbox import bwrap, launch, plan
from agent_dev.session import removal, store, uppers
from agent_dev.session.repeated_options import omission_notice
from agent_dev.session.root import Root
from agent_dev.session.sessions import ListedSession

NOTES_FILE = f"{RUN}/review-notes.md"
_NOTES = "AGENT_DEV_REVIEW_NOTES"
_ANEW = "{} has no known way to continue its conversation: this is a new one"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.run.request import Notice


def resume(listed: ListedSession, request: RunRequest, notice: "Notice") -> run_job.RunOutcome:
    """Run an ended session again. Raises AgentDevError if the agent never started; the session is unchanged then."""
    if store.is_direct(listed.record):
        raise Refused(
            message=f"session {listed.name} ran in the real tree: it cannot be resumed", hint="agent-dev run --direct AGENT"
        )
    try:
        return _resume(listed, request, notice)
    except SYSTEM_ERRORS as error:
        raise agent_not_started(error) from None


def _resume(listed: ListedSession, request: RunRequest, notice: "Notice") -> run_job.RunOutcome:
    launch.close_inherited()
    prepared = prepare_again(listed, request)
    require_prompt(prepared, request, _possible_prompt(listed, request))
    query = new_session.start_git_query(prepared, request.environ)
    refuse_other_roots(prepared, listed.record)
    for line in (f"resuming session {listed.name}", *_notices(prepared, request, listed)):
        notice(line)
    session = listed.session
    record = listed.record
    touched = list_prior_changes(session, record, len(prepared.overlays) + 1)
    removal.remove_work_directories(session)
    for number in range(len(touched)):
        store.recreate_work(session, number)
    home = services.use_home(prepared)
    try:
        roots = tuple(session.root(number, path) for number, path in enumerate((prepared.location.root, *prepared.overlays)))
        passed = new_session.passed_git_config(query, request.environ, prepared)
        if record.get("packed"):
            record = _unpack(prepared, session, record, roots, request.environ)
            if prepared.location.git:
                passed_config_files.append_to_config(list_repositories(session, record)[0].private_dir, passed.git_dir_config)
        parts = new_session.make_session_spec(prepared, session, roots, git_dirs_of(listed, record), passed, request.environ)
        parts = _with_notes(parts, request.review_notes, notice)
        sandbox_plan = plan.build_plan(prepared.settings.profile, prepared.machine, parts)
        home.prepare(bwrap.home_mount_points(sandbox_plan), sandbox_plan)
        job = run_job.RunJob(
            prepared=prepared,
            session=session,
            plan=sandbox_plan,
            spec=parts,
            record=_resumed_record(record, parts.command, prepared, is_agent=not (request.arguments or request.command)),
            home=home,
            environ=request.environ,
            touched=touched,
            deadline=request.deadline,
            merge_lock=request.merge_lock,
            has_checkpoints=request.has_checkpoints,
            reviews_next=request.reviews_next,
        )
        return _start(job, request, notice)
    except BaseException as error:
        home.release()
        has_run = store.read_record(session).get("launched") != record.get("launched")
        store.write_record(session, {**record, "state": store.WAITING})
        if has_run and isinstance(error, SYSTEM_ERRORS):
            reason, hint = describe_system_error(error)
            raise AgentDevError(message=reason, hint=hint) from None
        raise


def _possible_prompt(listed: ListedSession, request: RunRequest) -> tuple[str, ...]:
    """Return the arguments of what runs now, except the options that are repeated: they are no prompt."""
    if request.arguments or request.agent_arguments:
        return request.arguments or request.agent_arguments
    return () if request.continues else tuple(map(str, listed.record.get("words")))[1:]


def _start(job: run_job.RunJob, request: RunRequest, notice: "Notice") -> run_job.RunOutcome:
    setup = launch.SetupProcess(terminal=request.terminal)
    try:
        run.begin_recording(setup, request)
        services.start_helpers(setup, job.prepared, job.session, request.environ)
        return execute.run_job(job, setup, notice)
    except BaseException:
        run.abandon(setup, request)
        raise


def _with_notes(parts: plan.SessionSpec, notes: bytes, notice: "Notice") -> plan.SessionSpec:
    """Return a spec with the notes of the review as a file, and its path as a variable."""
    if not notes:
        return parts
    notice(f"the agent finds the notes of the review in {NOTES_FILE} (${_NOTES})")
    return parts.replace(files=(*parts.files, (NOTES_FILE, notes)), env=(*parts.env, (_NOTES, NOTES_FILE)))


def refuse_other_roots(prepared: PreparedRun, record: store.Record) -> None:
    """Raise Refused unless a run has the roots of the session."""
    paths = [prepared.location.root, *prepared.overlays]
    if paths != record["roots"]:
        roots_now, roots_then = ", ".join(paths), ", ".join(record["roots"])
        raise Refused(
            message=f"the session's roots were {roots_then}, but are {roots_now} now", hint="use the same --overlay options"
        )


def _unpack(
    prepared: PreparedRun, session: store.Session, record: store.Record, roots: tuple[Root, ...], environ: dict[str, str]
) -> store.Record:
    """Recreate the private git dirs of a session that was packed after its merge; return its record."""
    from agent_dev.merge import pack  # rare
    from agent_dev.run import private_git

    pack.begin_unpacking(session)
    copies = private_git.make_copies(private_git.CopyJob(prepared, session, roots, environ))
    unpacked: store.Record = {
        **record,
        **private_git.record_fields(
            private_git.find_git_dirs(prepared.location.git, tuple(root.path for root in roots[1:])),
            copies,
            roots,
            is_direct=False,
        ),
        "packed": False,
    }
    store.write_record(session, unpacked, is_durable=True)
    refs.record_initial_refs(session, unpacked)
    pack.finish_unpacking(session)
    return unpacked


def _resumed_record(record: store.Record, command: tuple[str, ...], prepared: PreparedRun, *, is_agent: bool) -> store.Record:
    outdated = ("attempt", "forked") if is_agent else ("attempt",)  # its score is not that of what comes now
    kept = {name: value for name, value in record.items() if name not in outdated}
    return {
        **kept,  # type: ignore[typeddict-item]
        "state": store.RUNNING,
        "resumed": time.time_ns(),
        "launcher": os.getpid(),
        "undone": "",
        "is_restore": False,  # from now on an agent changes it
        "command": list(command),
        "net": services.net_record(prepared),
    }


def _notices(prepared: PreparedRun, request: RunRequest, listed: ListedSession) -> tuple[str, ...]:
    profile = prepared.settings.profile
    is_agent = profile.has_package and profile.command[:1] == prepared.command[:1]
    if not (is_agent and request.continues and not request.arguments and not request.command):
        return shown_paths.session_notices(prepared)
    anew = "" if "resume" in dict(profile.agent) else _ANEW.format(profile.name)
    arguments = tuple(map(str, listed.record.get("words")))[1:]
    options = () if request.agent_arguments else arguments
    omitted = omission_notice(listed.name, options, repeatable_options(profile, arguments))
    return (*filter(None, (anew, omitted)), *shown_paths.session_notices(prepared))


def prepare_again(listed: ListedSession, request: RunRequest) -> PreparedRun:
    """Prepare as the session started, with the arguments and options given now."""
    options, arguments = listed.record.get("options"), listed.record.get("words")
    recorded = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items() if name != "prompt"}
    given = {name: value for name, value in request.options.as_dict().items() if value != getattr(RunOptions, name)}
    merged = RunOptions(**{**recorded, **given, "directory": str(listed.record["cwd"])})
    if request.arguments:
        return _prepare(listed, RunRequest(request.arguments, merged, request.environ, request.kind))
    kind = COMMAND if listed.record.get("is_command") else AGENT_OR_COMMAND  # `tx` accepts both without `--`
    again = RunRequest(tuple(map(str, arguments)), merged, request.environ, kind)
    again = again.replace(continues=request.continues, review_notes=request.review_notes, command=request.command)
    again = again.replace(agent_arguments=request.agent_arguments, forks=listed.record.get("forked", False))
    again = again.replace(terminal=request.terminal)
    return _prepare(listed, again)


def _prepare(listed: ListedSession, again: RunRequest) -> PreparedRun:
    """Prepare a run in the directory of the session. Raises Refused if it was moved or deleted."""
    try:
        return prepare_run(again)
    except NoDirectory:
        root, cwd = str(listed.record["root"]), str(listed.record["cwd"])
        missing, hint = (cwd, "create it again") if os.path.isdir(root) else (root, "move it back")
        raise Refused(message=f"session {listed.name} ran in {missing}, which does not exist", hint=hint) from None


def git_dirs_of(listed: ListedSession, record: store.Record) -> tuple[PrivateGitDir, ...]:
    """Return the private git directories of a session."""
    nested = tuple(PrivateGitDir(source, target, ()) for source, target in record.get("bound", []))
    return (*(_git_dir_of(one, record) for one in list_repositories(listed.session, record)), *nested)


def _git_dir_of(source: AgentRepository, record: store.Record) -> PrivateGitDir:
    stores, large = (
        tuple((outside, inside) for outside, inside in select_stores(pairs, source))
        for pairs in (record["stores"], record.get("large", []))
    )
    return PrivateGitDir(source.private_dir, "" if source.inside else source.common, stores, large)


def list_prior_changes(session: store.Session, record: store.Record, count: int) -> tuple[PriorChanges, ...]:
    """List the paths that the agent changed, for which the first lower snapshot stays valid. Raises UnreadableSession."""
    store.make_uppers_accessible(session, count)
    trees = uppers.open_trees(session, count)
    try:
        return tuple(_prior_changes(session, record, number, tree) for number, tree in enumerate(trees))
    finally:
        uppers.close_trees(session, trees)


def _prior_changes(session: store.Session, record: store.Record, number: int, upper: dir_tree.Tree) -> PriorChanges:
    skip = (b".git",) if refs.has_private_git_dir(record, number) else ()
    problems: list[str] = []
    try:
        entries = list(walk.walk(upper.path, skip=skip, problems=problems, opened=upper.unlocked))
        hiding = frozenset(
            one.path for one in entries if one.is_whiteout() or one.is_opaque() or one.entry.type is not FileType.DIRECTORY
        )
    except CorruptUpperError as error:
        problems.append(str(error))
    if problems:  # with a path missing here, a merge would overwrite the user's edits of it
        name = store.session_name(session)
        hint = f"inspect {session.folder}, or agent-dev discard {name}"
        raise UnreadableSession(session=name, reason=problems[0], hint=hint)
    return PriorChanges(frozenset(entry.path for entry in entries), hiding)
