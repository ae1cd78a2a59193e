"""Run an agent again on what an ended session holds: the same uppers and private git dir, a fresh work directory."""

import os
import time

from agent_dev.commits.agent_git import refs
from agent_dev.errors import Refused, UnreadableSession
from agent_dev.fs import walk as scan
from agent_dev.home.mount_points import Home
from agent_dev.overlay.interpret import CorruptUpperError
from agent_dev.overlay.lower_snapshot_take import Touched
from agent_dev.run import run
from agent_dev.run import services as beside
from agent_dev.run import shown_paths as showing
from agent_dev.run.prepare import Options, Prepared, Request, prepare
from agent_dev.sandbox import bwrap, launch, plan
from agent_dev.sandbox.plan import GitDir
from agent_dev.session import removal as ended
from agent_dev.session import store
from agent_dev.session.sessions import Listed


def resume(one: Listed, request: Request, notice: "run.Notice") -> run.Outcome:
    """Run a held, ended session again. Raises AgentDevError when the agent never started; the session stays as it was."""
    if one.record["options"].get("direct"):
        raise Refused(message=f"session {one.name} worked in the real tree itself", hint="agent-dev run --direct AGENT")
    launch.close_inherited()
    prepared = _prepare(one, request)
    asked = run.ask_git(prepared, request.environ)
    paths = [prepared.place.root, *prepared.overlays]
    if paths != one.record["roots"]:
        said, meant = ", ".join(paths), ", ".join(one.record["roots"])
        raise Refused(message=f"the session's roots were {meant}, and would be {said} now", hint="name the same --overlay")
    notice(f"resuming session {one.name}")
    for line in showing.warnings(prepared):
        notice(line)
    session = one.session
    record = one.record
    touched = tuple(_touched(session, record, number) for number in range(len(prepared.overlays) + 1))
    ended.drop_scaffold(session)
    for number in range(len(touched)):
        store.renew_work(session, number)
    home = Home(prepared.store.path, prepared.agent_home)
    try:
        roots = tuple(session.root(number, path) for number, path in enumerate((prepared.place.root, *prepared.overlays)))
        given = run.settings_of(asked, request.environ, prepared)
        parts = run.make_parts(prepared, session, roots, _git(one, record), given, request.environ)
        built = plan.build(prepared.settings.profile, prepared.machine, parts)
        home.prepare(bwrap.mount_points(built), built)
        job = run.Job(
            prepared=prepared,
            session=session,
            plan=built,
            parts=parts,
            record=_begun_again(record, parts.command),
            home=home,
            environ=request.environ,
            touched=touched,
            deadline=request.deadline,
            gate=request.gate,
            has_checkpoints=request.has_checkpoints,
        )
        keeper = launch.Keeper()
        keeper.watcher = beside.watcher(prepared, session, request.environ)
        return run.carry_out(job, keeper)
    except BaseException:
        home.leave()
        store.write(session, {**record, "state": store.WAITING})
        raise


def _begun_again(record: store.Record, command: tuple[str, ...]) -> store.Record:
    return {
        **record,
        "state": store.RUNNING,
        "resumed": time.time_ns(),
        "launcher": os.getpid(),
        "undone": "",
        "command": list(command),
    }


def _prepare(one: Listed, request: Request) -> Prepared:
    """Prepare as the session was begun, but for the words and the options given now."""
    options, words = one.record.get("options"), one.record.get("words")
    before = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    now = {name: value for name, value in request.options.as_dict().items() if value != getattr(Options, name)}
    merged = Options(**{**before, **now, "directory": str(one.record["cwd"])})
    if request.words:
        return prepare(Request(request.words, merged, request.environ, request.is_command))
    return prepare(Request(tuple(map(str, words)), merged, request.environ, bool(one.record.get("is_command"))))


def _git(one: Listed, record: store.Record) -> tuple[GitDir, ...]:
    git = record.get("git")
    bound = tuple(GitDir(source, target, ()) for source, target in record.get("bound", []))
    if not isinstance(git, dict):
        return bound
    lists = (record["stores"], record.get("large", []))
    shown, large = (tuple((str(outside), str(inside)) for outside, inside in pairs) for pairs in lists)
    source = f"{one.session.root(0, '').upper}/.git" if git["inside"] else f"{one.session.folder}/git/0"
    return (GitDir(source, "" if git["inside"] else str(git["common"]), shown, large), *bound)


def _touched(session: store.Session, record: store.Record, number: int) -> Touched:
    """Note what the agent had changed: there the base of the session's first start stays true. Raises UnreadableSession."""
    skip = (b".git",) if refs.has_copy(record, number) else ()
    found = list(scan.walk(session.root(number, "").upper, skip=skip))
    try:
        hiding = tuple(one.path for one in found if one.is_whiteout() or one.is_opaque())
    except CorruptUpperError as error:
        raise UnreadableSession(session=session.id, reason=str(error), hint="discard it, or look at it by hand") from None
    return Touched(frozenset(one.path for one in found), hiding)
