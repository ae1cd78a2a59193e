"""Run an agent: make a session, build the sandbox, wait, and tell what the session holds then."""

import errno
import os
import time

from agent_dev.commits.agent_git import refs
from agent_dev.errors import NotLetStart, StateUnusable
from agent_dev.git import passed_config_files as handed
from agent_dev.git import repository as repo
from agent_dev.home.mount_points import Home
from agent_dev.linux import pid_namespace as leftovers
from agent_dev.run import limits as bounds
from agent_dev.run import private_git as copies
from agent_dev.run import services as beside
from agent_dev.run import shown_paths as showing
from agent_dev.run.prepare import Prepared, Request, prepare, setting
from agent_dev.sandbox import bwrap, launch, machine, plan
from agent_dev.sandbox import preflight as look
from agent_dev.sandbox import sandbox_monitor as supervise
from agent_dev.sandbox.plan import GitDir, Root, SandboxPlan, Setting
from agent_dev.sandbox.terminal import Terminal
from agent_dev.session import removal as ended
from agent_dev.session import store
from agent_dev.value import Value

GRACE = 20  # ms: a run that ends sooner and changed nothing needs neither a base nor a record that survives a power cut

_BWRAP_FAILED = (1, 125)  # exit codes of a bubblewrap or a keeper that never came to start the agent

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_dev.overlay.lower_snapshot_take import Touched
    from agent_dev.policy.watcher import Watcher

    Notice = Callable[[str], None]


class Outcome(Value):
    """How a run ended: the exit code to pass on, and how many changes, commits and moved refs are kept (all 0: it is gone)."""

    code: int
    session: store.Session
    name: str
    changes: int
    commits: int
    merge: bool
    moves: int = 0
    ended_by: int = 0
    refs: int = 0
    is_late: bool = False  # ended at its deadline
    denied: int = 0  # commands that the policy did not let start
    why: str = ""  # the limit that ended it
    unkept: str = ""  # why there is no checkpoint of its end
    undone: str = ""  # why it is kept without a change: all was undone at its end, or only checkpoints hold something

    @property
    def is_kept(self) -> bool:
        """Whether the session holds something."""
        return bool(self.changes or self.commits or self.refs or self.undone)


class Job(Value):
    """A run ready to start: what `carry_out` carries out, for new and for resumed sessions."""

    prepared: Prepared
    session: store.Session
    plan: SandboxPlan
    parts: Setting
    record: store.Record
    home: Home
    environ: dict[str, str]
    touched: "tuple[Touched, ...]" = ()
    deadline: int = 0
    gate: int = -1
    has_checkpoints: bool = True

    @property
    def is_resumed(self) -> bool:
        """Whether the session held something before."""
        return bool(self.touched)


def run(request: Request, notice: "Notice", before: "Callable[[Prepared], None] | None" = None) -> Outcome:
    """Run an agent in a new session. `notice` shows a line to the user. Raises AgentDevError when it never started.

    `before`: what must have been done before anything starts.
    """
    launch.close_inherited()
    keeper = launch.Keeper()  # ahead of all else: it makes namespaces while we plan
    try:
        prepared = prepare(request)
        if look.is_interrupted(prepared.store):
            beside.recover(prepared, request.environ, notice)
        if ended.has_leavings(prepared.store):
            ended.sweep_aside(prepared.store)
        if before is not None:
            before(prepared)
        asked = ask_git(prepared, request.environ)
        for line in beside.notices(prepared, request):
            notice(line)
        return _begin(prepared, asked, request, keeper)
    except BaseException:
        keeper.dismiss()
        raise


def _begin(prepared: Prepared, asked: repo.Asked | None, request: Request, keeper: launch.Keeper) -> Outcome:
    session = store.create(prepared.store)
    home = None
    try:
        keeper.watcher = beside.watcher(prepared, session, request.environ)
        home = Home(prepared.store.path, prepared.agent_home)
        job = _job(prepared, session, home, asked, request)
        refs.remember(session, job.record)
        return carry_out(job, keeper)
    except BaseException as error:
        if keeper.watcher is not None:
            keeper.watcher.dismiss()
        if home:
            home.leave()
        _drop_unborn(session)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            hint = "make room, or set `state:` in config.yaml to another place"
            raise StateUnusable(path=prepared.store.path, reason=error.strerror, hint=hint) from None
        raise


def _drop_unborn(session: store.Session) -> None:
    """Leave nothing behind of a session whose agent never started."""
    try:
        record = store.read(session)
    except Exception:  # noqa: BLE001  (whatever is wrong with it: it was never born)
        record = store.BLANK
    if "launched" not in record and os.path.isdir(session.folder):
        ended.drop(session)


def ask_git(prepared: Prepared, environ: dict[str, str]) -> repo.Asked | None:
    """Start git early: its answer is read when everything else is ready."""
    git = machine.program("git", environ, prepared.untrusted)
    return repo.ask(git, prepared.place.root, ("config", "--list", "-z", "--show-scope", "--includes"), environ) if git else None


def _job(prepared: Prepared, session: store.Session, home: Home, asked: repo.Asked | None, request: Request) -> Job:
    paths = (prepared.place.root, *prepared.overlays)
    roots = tuple(store.add_root(session, number, path) for number, path in enumerate(paths))
    direct = prepared.place.root if request.options.direct else ""
    roots = () if direct else roots  # the upper stays empty
    git = copies.make(copies.Job(prepared, session, roots, request.environ))
    given = settings_of(asked, request.environ, prepared)
    if prepared.place.git:
        handed.say(git[0].source, given.own)
    parts = make_parts(prepared, session, roots, git, given, request.environ)
    if direct:
        parts = beside.with_root(parts, direct)
    built = plan.build(prepared.settings.profile, prepared.machine, parts)
    home.prepare(bwrap.mount_points(built), built)
    return Job(
        prepared=prepared,
        session=session,
        plan=built,
        parts=parts,
        record=_record(prepared, request, parts),
        home=home,
        environ=request.environ,
        deadline=request.deadline,
        gate=request.gate,
        has_checkpoints=request.has_checkpoints,
    )


def settings_of(asked: repo.Asked | None, environ: dict[str, str], prepared: Prepared) -> handed.Handed:
    """Return the user's settings for the agent's git, from the git that was asked."""
    if asked is None:
        return handed.Handed()
    facts = prepared.machine
    return handed.read(repo.answer(asked)[1], handed.User(facts.user, facts.home, prepared.place.root, environ))


def make_parts(
    prepared: Prepared,
    session: store.Session,
    roots: tuple[Root, ...],
    git: tuple[GitDir, ...],
    given: handed.Handed,
    environ: dict[str, str],
) -> Setting:
    """Return the session's part of the plan."""
    caches = tuple(store.add_cache(session, number, path) for number, path in enumerate(prepared.caches))
    parts = Setting(
        session=session.id,
        agent_home=prepared.agent_home,
        roots=roots,
        cwd=prepared.cwd,
        command=prepared.command,
        git_dirs=git,
        git_config=given.config,
        files=given.files,
        caches=caches,
    )
    parts = setting(prepared, parts, environ)
    showing.hide(prepared, parts)
    return parts


def _record(prepared: Prepared, request: Request, parts: Setting) -> store.Record:
    git = prepared.place.git
    return {
        "state": store.RUNNING,
        "name": request.options.name,
        "root": prepared.place.root,
        "roots": [root.path for root in parts.roots] or [prepared.place.root],
        "cwd": parts.cwd,
        "git": {"folder": git.folder, "common": git.common, "inside": git.inside and not parts.direct} if git else None,
        "stores": [list(store) for made in parts.git_dirs for store in made.stores],
        "large": [list(store) for made in parts.git_dirs for store in made.large],
        "copies": [
            n for n, root in enumerate(parts.roots) if any(made.source == f"{root.upper}/.git" for made in parts.git_dirs)
        ],
        "bound": [[made.source, made.target] for made in parts.git_dirs[1 if git else 0 :] if made.target],
        "profile": prepared.settings.profile.name,
        "command": list(parts.command),
        "words": list(request.words),
        "options": {name: value for name, value in request.options.as_dict().items() if value},
        "is_command": request.is_command,
        "agent_home": prepared.agent_home,
        "homes": prepared.homes,
        "rw": list(prepared.rw),
        "started": time.time_ns(),
        "launcher": os.getpid(),
    }


def carry_out(job: Job, keeper: launch.Keeper) -> Outcome:
    """Start the sandbox, wait for its end, and settle the session."""
    beside.close_gate(job.gate)
    terminal = Terminal()
    bounds.prepare(job, keeper)
    blocking = [_is_blocking(fd) for fd in range(3)]
    try:
        return _carry_out(job, keeper, terminal, blocking)
    finally:
        if keeper.watcher is not None:
            keeper.watcher.dismiss()


def _carry_out(job: Job, keeper: launch.Keeper, terminal: Terminal, blocking: list[bool | None]) -> Outcome:
    facts, door = job.prepared.machine, beside.open_door(job)
    sandbox = launch.start_best(job.plan, facts.bwrap, facts.bwrap_version, job.prepared.store.empty, keeper, terminal)
    record: store.Record = {
        **job.record,
        "init": sandbox.init,
        "life": leftovers.life(sandbox.init, sandbox.pid_namespace).as_row(),
        "launched": time.time_ns(),
    }
    store.write(job.session, record)
    supervisor = supervise.Supervisor(sandbox, terminal, bounds.watch(job))
    supervisor.begin()
    base = _base_before(job, record) if job.gate >= 0 else None
    others = (0, 0)
    disks = bounds.disks(job)
    launch.release(sandbox)
    if not supervisor.is_over_within(GRACE):
        base = _begin_base(job, record) if base is None else base
        others = beside.begin(job, record, door)
        store.settle(job.session)
        supervisor.room = bounds.room(job, disks)
        supervisor.wait()
    beside.end(job, others, door)
    told = launch.exit_code(sandbox)
    keeper.finish_streams()
    terminal.take_back()
    terminal.reset(leave_screen=told is None or told > 128)
    for fd, was in enumerate(blocking):
        if was is not None and _is_blocking(fd) is not None:
            os.set_blocking(fd, was)  # the description is shared with the agent, and node leaves it changed
    supervisor.end()
    if told is None and not supervisor.ended_by and launch.reap(sandbox) in _BWRAP_FAILED:
        _fail(job, base, keeper)
    code = 128 + supervisor.ended_by if supervisor.ended_by else (137 if told is None else told)
    why = bounds.reason(job, keeper, supervisor, code)
    record = beside.put_right(job, record, sandbox.keeper)
    outcome = _settle(job, record, base, code, (supervisor, keeper.watcher)).but(why=why)
    if base is not None:
        _note_home(job, record["launched"])
    if outcome.is_kept:
        if told is not None:
            launch.reap(sandbox)
        job.home.leave()
        beside.note_end(job, record, outcome)
        return outcome.but(unkept=beside.last_checkpoint(job, record))
    return outcome


def _note_home(job: Job, launched: int) -> None:
    """Have it written down what the agent home holds now, for `agent-dev home --diff`."""
    from agent_dev.home import index as home_index  # after the agent, and not for a run that ended at once

    try:
        home_index.begin(job.prepared.store.path, job.home.path, launched)
    except OSError:
        return  # a full disk, a home that is gone: the next look says that it knows less


def _is_blocking(fd: int) -> bool | None:
    try:
        return os.get_blocking(fd)
    except OSError:
        return None  # closed


def _settle(
    job: Job, record: store.Record, base: int | None, code: int, watched_by: "tuple[supervise.Supervisor, Watcher | None]"
) -> Outcome:
    supervisor, watcher = watched_by
    name = str(record["name"] or job.session.id)
    merge = job.prepared.settings.profile.merge and not supervisor.ended_by
    outcome = Outcome(code, job.session, name, 0, 0, merge, supervisor.moves, supervisor.ended_by, 0, supervisor.is_late)
    outcome = outcome.but(undone=record.get("undone", ""))
    store.reopen(job.session, len(record["roots"]))
    is_kept = job.is_resumed or bool(outcome.undone) or _may_hold(job.session, record) or bool(_remains(job, record))
    if watcher is not None:
        from agent_dev.run import policy_watch as watching  # as above

        tally = watcher.finish(is_kept=is_kept)
        outcome = outcome.but(denied=tally.denied)
        record = watching.noted(f"{job.session.folder}/commands.jsonl", record, job.prepared, tally) if is_kept else record
    if not is_kept:
        if base is not None:
            _cancel(base)
        ended.drop_aside(job.prepared.store, job.session, job.home.leave)
        job.home.hand_over()
        return outcome
    from agent_dev.run import settle  # after the agent: it reads changes, which is no part of a start

    try:
        base = base or _begin_base(job, record)
        held = settle.settle(job.session, record, base, code, job.environ, lambda: _remains(job, record))
    except OSError:
        return outcome.but(changes=1)  # a full disk: what the agent left is there, and opening it will say what is wrong
    return outcome.but(changes=held.changes, commits=held.commits, refs=held.refs, undone=outcome.undone or held.remains)


def _remains(job: Job, record: store.Record) -> str:
    """Return what to say of a session that holds no change, but checkpoints of what it held; of a transaction nothing."""
    if not job.has_checkpoints or not os.path.isdir(f"{job.session.folder}/checkpoints"):
        return ""
    from agent_dev.checkpoint import only_copy as remains  # rare

    return remains.told(job.session, record, job.prepared.untrusted, job.environ)


def _may_hold(session: store.Session, record: store.Record) -> bool:
    """Whether an upper or the private git dir holds anything that could come home: a quick look."""
    for number in range(len(record["roots"])):
        private = {".git"} if refs.has_copy(record, number) else set()
        if set(os.listdir(session.root(number, "").upper)) - private:
            return True
    return refs.has_moved(session, record)


def _cancel(base: int) -> None:
    from agent_dev.overlay import lower_snapshot_take as base_take

    base_take.cancel(base)


def _begin_base(job: Job, record: store.Record) -> int:
    from agent_dev.overlay import lower_snapshot_take as base_take  # beside the agent: needless for a run that ends at once

    git = job.prepared.place.git
    wish = base_take.Wish(
        roots=tuple(record["roots"]),
        git=git.folder if git else "",
        program=machine.program("git", job.environ, job.prepared.untrusted) or "",
        environ=job.environ,
        touched=job.touched,
        since=record["launched"],
    )
    return base_take.begin(job.session.base, wish, job.session.lock)


def _base_before(job: Job, record: store.Record) -> int:
    """Take the base before the agent can read anything, and open the gate."""
    base = _begin_base(job, record)
    os.waitid(os.P_PID, base, os.WEXITED | os.WNOWAIT)  # reaped when the session is settled
    beside.open_gate(job.gate)
    return base


def _fail(job: Job, base: int | None, keeper: launch.Keeper) -> None:
    """Raise what bubblewrap's failure means; the agent never ran."""
    from agent_dev.sandbox import failure_hints as explain

    if base is not None:
        _cancel(base)
    store.write(job.session, job.record)  # it was never launched
    if keeper.watcher is not None:
        keeper.watcher.check()
        if keeper.watcher.has_denied():
            raise NotLetStart(command=job.plan.command[0], hint="agent-dev policy check -- COMMAND says by which rule")
    facts = job.prepared.machine
    raise explain.failure(job.plan, facts.bwrap, facts.bwrap_version, job.prepared.store.empty)
