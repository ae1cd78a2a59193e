"""Going back to a checkpoint: an ended session on its uppers, a running one through its own mount."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import live_session as live
from agent_dev.checkpoint import node_table, restore
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.node_table import Pieces
from agent_dev.checkpoint.restore_plan import Node, Table
from agent_dev.errors import CannotRollBack, DamagedCheckpoint
from agent_dev.linux import syscalls as kernel
from agent_dev.session import events, store
from agent_dev.session.sessions import Listed

_PENDING = "rollback.pending"
SHOWN = "rollback.shown"  # not empty: a running session is being brought back
_TEMP = b"rollback.new"
_SHOWN_TEMP = b".agent-dev-rollback"  # in a running sandbox: in its root, since only there a rename reaches all of it
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What a rollback did: to which checkpoint, the one taken before it, the paths it touched, what it could not do."""

    to: int
    before: int
    paths: tuple[str, ...]
    problems: tuple[str, ...]


def roll_back(one: Listed, number: int, paths: tuple[str, ...] = ()) -> RolledBack:
    """Bring a held session that has ended to a checkpoint, or only some paths of its first root.

    A checkpoint is taken first. Killed anywhere, the next one to hold the session goes on with it. Raises UnknownCheckpoint,
    DamagedCheckpoint, CheckpointFailed, CannotRollBack.
    """
    session, record = one.session, store.read(one.session)
    checkpoints.find(session, number)
    before, now = checkpoints.take_all(session, record, (checkpoints.ROLLBACK, f"to {number}"), always=True)
    trees = _trees(session, record, number, now, paths)
    _verify(session, number, [tree.steps for tree in trees])
    _write_pending(session, number, paths)
    done, problems = _bring(session, record, number, trees)
    return _noted(session, RolledBack(number, before.number, done, problems))


def _noted(session: store.Session, done: RolledBack) -> RolledBack:
    events.note(
        session, events.ROLLBACK, to=done.to, before=done.before, paths=len(done.paths), problems=events.few(done.problems)
    )
    return done


def go_on(session: store.Session) -> None:
    """Finish a rollback that was cut short, of a session that is held and has ended. Raises CannotRollBack."""
    with open(f"{session.folder}/{_PENDING}", encoding="utf-8", errors="surrogateescape", newline="") as file:
        number, *paths = file.read().split("\0")
    record = store.read(session)
    try:
        now = checkpoints.all_now(session, record)
    except OSError as error:
        raise _stopped(int(number), error) from error
    _bring(session, record, int(number), _trees(session, record, int(number), now, tuple(paths)))


def _write_pending(session: store.Session, number: int, paths: tuple[str, ...]) -> None:
    temp, place = f"{session.folder}/{_PENDING}.new", f"{session.folder}/{_PENDING}"
    with open(temp, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write("\0".join((str(number), *paths)))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temp, place)
    _sync(session.folder)


def _end_pending(session: store.Session) -> None:
    _sync(session.folder, everything=True)
    os.unlink(f"{session.folder}/{_PENDING}")


def _sync(folder: str, *, everything: bool = False) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (kernel.syncfs if everything else os.fsync)(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class _Tree:
    """What must be done in one tree of a session: what its paths are called, where it lies."""

    prefix: str
    place: str
    steps: history.Restore


def _trees(
    session: store.Session, record: store.Record, number: int, now: Mapping[str, Pieces], paths: tuple[str, ...]
) -> tuple[_Tree, ...]:
    """Return what makes a checkpoint of what the trees of a session that has ended hold now."""
    wanted = checkpoints.all_pieces(session, checkpoints.find(session, number))
    found = []
    for name, place in checkpoints.places(session, record).items():
        if name == checkpoints.FIRST or not paths:
            current, target = node_table.to_restore(now[name], wanted.get(name, {}))
            if paths:
                current, target = history.with_parents(current, target, paths)
            found.append(_Tree("" if name == checkpoints.FIRST else f"{name}:", place, history.restoring(current, target)))
    return tuple(found)


def _verify(session: store.Session, number: int | str, steps: list[history.Restore]) -> None:
    """Read every content that will be needed, before anything is touched. Raises DamagedCheckpoint."""
    for node in {node.content: node for one in steps for node in one.made if node.kind == history.FILE}.values():
        if node.content and not node.content.startswith("/"):
            try:
                os.close(checkpoints.content(session, node.content))
            except OSError as error:
                raise DamagedCheckpoint(number=number, reason=f"{node.path}: {error.strerror}") from None


def _bring(
    session: store.Session, record: store.Record, number: int, trees: tuple[_Tree, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make the trees of a session what they were, and take the mark away; done again it changes nothing."""
    done: list[str] = []
    problems: list[str] = []
    try:
        for tree in trees:
            problems += [tree.prefix + problem for problem in _restore(session, tree)]
            done += [tree.prefix + path for path in tree.steps.paths]
        store.reopen(session, len(record["roots"]))
        _end_pending(session)
    except OSError as error:
        raise _stopped(number, error) from error
    return tuple(done), tuple(problems)


def _stopped(number: int, error: OSError) -> CannotRollBack:
    hint = "the next command that opens the session goes on"
    return CannotRollBack(message=f"the rollback to {number} stopped: {error.strerror}", hint=hint)


def _restore(session: store.Session, tree: _Tree) -> list[str]:
    folder = os.open(session.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    root = os.open(tree.place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _with_temp(root, folder, (_TEMP, lambda node: checkpoints.content(session, node.content)), tree.steps)
    finally:
        os.close(root)
        os.close(folder)


def _with_temp(root: int, folder: int, means: tuple[bytes, restore.Contents], steps: history.Restore) -> list[str]:
    """Carry out what a restore needs with a folder of ours, of that name, in `folder`; return what could not be done."""
    name, contents = means
    temp = restore.open_temp(folder, name)
    try:
        ground = restore.Ground(root, temp, contents)
        restore.carry_out(steps, ground)
        return ground.problems
    finally:
        restore.close_temp(folder, name, temp)


# While the agent runs


Part = Callable[[str, Table, Table], tuple[Table, Table]]  # of a tree by its name: what of now and then is compared
Compared = Callable[[Table, Table], tuple[Table, Table]]  # the same of one tree


def roll_back_live(one: Listed, number: int, paths: tuple[str, ...] = (), but: tuple[str, ...] = ()) -> RolledBack:
    """Bring what a running session sees to a checkpoint, file by file, through its own mount.

    `paths`: only these, of its first root; `but`: all except these, which are absolute. What the agent writes meanwhile stays or
    goes, file by file; what it holds open it goes on writing to unseen. Killed anywhere it can be done again. Raises as
    `roll_back`.
    """
    with _alone(one.session):
        record = store.read(one.session)
        return _roll_back_live(one.session, record, number, _all_but(record, but) if but else _only(paths))


def _only(paths: tuple[str, ...]) -> Part:
    def part(name: str, now: Table, then: Table) -> tuple[Table, Table]:
        return history.with_parents(now, then, paths) if name == checkpoints.FIRST or not paths else ({}, {})

    return part


def _all_but(record: store.Record, kept: tuple[str, ...]) -> Part:
    strange = [path for path in kept if not history.is_within(path, tuple(record["roots"]))]
    if strange:
        raise CannotRollBack(message=f"{strange[0]} is not in the repository", hint="--take PATH, below it")

    def part(name: str, now: Table, then: Table) -> tuple[Table, Table]:
        root = record["roots"][int(name.removeprefix("root-"))] if name.startswith("root-") else ""
        own = tuple(path[len(root) + 1 :] for path in kept if root and history.is_within(path, (root,)))
        return now, history.keeping(now, then, own)

    return part


@dataclass(frozen=True, slots=True)
class _States:
    """What a tree holds and is to hold; `area`: the paths that may differ, all when files with other names are among them."""

    now: Table
    then: Table
    area: frozenset[str]
    number: int

    @staticmethod
    def of(now: Pieces, then: Pieces, number: int) -> "_States":
        """Compare what there is with what a checkpoint of that number has."""
        one, other = node_table.to_restore(now, then)
        return _States(node_table.nodes(now), node_table.nodes(then), frozenset((*one, *other)), number)


def _roll_back_live(session: store.Session, record: store.Record, number: int, part: Part) -> RolledBack:
    wanted = checkpoints.all_pieces(session, checkpoints.find(session, number))
    before, now = checkpoints.take_all(session, record, (checkpoints.ROLLBACK, f"to {number}"), always=True)
    done: list[str] = []
    problems: list[str] = []
    try:
        for name, place in checkpoints.places(session, record).items():
            prefix = "" if name == checkpoints.FIRST else f"{name}:"
            bring = _bring_git if name.startswith("git-") else _bring_root
            root = record["roots"][int(name.removeprefix("root-"))] if bring is _bring_root else place
            steps, told = bring(session, record, root, _States.of(now[name], wanted.get(name, {}), number), partial(part, name))
            done += [prefix + path for path in steps.paths]
            problems += [prefix + problem for problem in told]
    except OSError as error:
        hint = f"agent-dev rollback {number} goes on; what was there before is checkpoint {before.number}"
        raise CannotRollBack(message=f"the rollback to {number} stopped: {error.strerror}", hint=hint) from error
    return _noted(session, RolledBack(number, before.number, tuple(done), tuple(problems)))


@contextmanager
def _alone(session: store.Session) -> Iterator[None]:
    """Be the only one that brings a running session back, and note it as long as a folder of ours may stand in a root."""
    fd = os.open(f"{session.folder}/{SHOWN}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.pwrite(fd, b"+", 0)
        yield
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def tidy(session: store.Session) -> None:
    """Take away what a rollback that was killed while the session ran left in its uppers; it has ended, and is held."""
    place = f"{session.folder}/{SHOWN}"
    roots = range(len(store.read(session)["roots"])) if os.stat(place).st_size else ()
    for number in roots:
        upper = os.open(session.root(number, "").upper, _OPEN)
        try:
            restore.clear(upper, _SHOWN_TEMP)
        finally:
            os.close(upper)
    os.unlink(place)


def _bring_root(
    session: store.Session, record: store.Record, path: str, states: _States, part: Compared
) -> tuple[history.Restore, list[str]]:
    root = live.open_root(record, path)
    lower = live.Lower(path)
    try:
        area = set(states.area)
        for hidden in history.hidden(states.now, states.then):
            area.update((hidden, *lower.below(hidden)))
        ours = (os.fsdecode(_SHOWN_TEMP),)  # whatever stands there makes room for our own, which goes again
        area = {path for path in area if not history.is_within(path, ours)}
        now, then = (history.seen(table, lower.node, area) for table in (states.now, states.then))
        steps = history.restoring(*part(now, then))
        _verify(session, states.number, [steps])
        content = _reader(session, lower)
        return steps, _with_temp(root, root, (_SHOWN_TEMP, content), steps)
    finally:
        lower.close()
        os.close(root)


def _bring_git(
    session: store.Session, _record: store.Record, place: str, states: _States, part: Compared
) -> tuple[history.Restore, list[str]]:
    """Bring a git dir back that lies outside of the roots: it is a plain directory, shown inside as it is."""
    steps = history.restoring(*part(states.now, states.then))
    _verify(session, states.number, [steps])
    return steps, _restore(session, _Tree("", place, steps))


def _reader(session: store.Session, lower: live.Lower) -> Callable[[Node], int]:
    def content(node: Node) -> int:
        return lower.open(node) if node.content.startswith("/") else checkpoints.content(session, node.content)

    return content


# Some files alone


def put_back(one: Listed, brought: Table) -> RolledBack:
    """Put files of the first root back that were deleted, of a running session or a held one; a checkpoint is taken first."""
    if one.state != store.RUNNING:
        return _put_back(one.session, brought, is_running=False)
    with _alone(one.session):
        return _put_back(one.session, brought, is_running=True)


def _put_back(session: store.Session, brought: Table, *, is_running: bool) -> RolledBack:
    record = store.read(session)
    before, held = checkpoints.take_all(session, record, (checkpoints.ROLLBACK, "something is brought back"), always=True)
    upper = node_table.nodes(held[checkpoints.FIRST])
    path = record["roots"][0]
    root = live.open_root(record, path) if is_running else os.open(checkpoints.places(session, record)[checkpoints.FIRST], _OPEN)
    folder = root if is_running else os.open(session.folder, _OPEN)
    lower = live.Lower(path)
    try:
        area = {*upper, *brought, *(above for one in brought for above in history.parents(one))}
        current = history.seen(upper, lower.node, area) if is_running else upper
        steps = history.restoring(current, history.with_back(current, brought, lower.node, is_upper=not is_running))
        _verify(session, "that has it", [steps])
        name = _SHOWN_TEMP if is_running else _TEMP
        problems = _with_temp(root, folder, (name, _reader(session, lower)), steps)
    except OSError as error:
        raise CannotRollBack(message=f"bringing it back stopped: {error.strerror}", hint="do it again") from error
    finally:
        lower.close()
        os.close(root)
        if folder != root:
            os.close(folder)
    return _noted(session, RolledBack(0, before.number, tuple(sorted(brought)), tuple(problems)))
