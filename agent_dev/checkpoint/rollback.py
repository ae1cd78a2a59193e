"""Roll a session back to a checkpoint: an ended one in its uppers, a running one through its own mount."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from agent_dev.checkpoint import checkpoint_store, live_session, node_table, restore, restore_plan
from agent_dev.checkpoint.node_table import Pieces
from agent_dev.checkpoint.restore_plan import Node, Table
from agent_dev.errors import CannotRollBack, DamagedCheckpoint
from agent_dev.fs import checksummed_json, state_files
from agent_dev.linux import syscalls
from agent_dev.overlay import lower_snapshot
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import events, store
from agent_dev.session.sessions import ListedSession

_PENDING = "rollback.pending"
LIVE_MARK = "rollback.shown"  # not empty while a running session is being rolled back
_TEMP = b"rollback.new"
_SHOWN_TEMP = b".agent-dev-rollback"  # in the root of a running sandbox, so that a rename reaches every path below it
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PATIENCE = 20.0  # seconds to wait for the lower snapshot of a session that has just started


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """The result of a rollback: the checkpoint, the one taken before it, the changed paths, the failures."""

    target: int
    previous: int
    paths: tuple[str, ...]
    problems: tuple[str, ...]


def roll_back_ended(one: ListedSession, number: int, paths: tuple[str, ...] = ()) -> RollbackResult:
    """Roll a locked session that has ended back to a checkpoint, or only some paths of its first root.

    A checkpoint is taken first. If the rollback is killed, the next command that locks the session resumes it. Raises
    UnknownCheckpoint, DamagedCheckpoint, CheckpointFailed, CannotRollBack.
    """
    session, record = one.session, store.read_record(one.session)
    checkpoint_store.find_checkpoint(session, number)
    before, now = checkpoint_store.take_with_pieces(session, record, (checkpoint_store.ROLLBACK, f"to {number}"), always=True)
    trees = _trees(session, record, number, now, paths)
    _verify(session, number, [tree.steps for tree in trees])
    _mark_pending(session, number, paths)
    changed_paths, problems = _restore_trees(session, record, number, trees)
    return _log_result(session, RollbackResult(number, before.number, changed_paths, problems))


def _log_result(session: store.Session, result: RollbackResult) -> RollbackResult:
    events.log_event(
        session,
        events.ROLLBACK,
        to=result.target,
        before=result.previous,
        paths=sum(not restore_plan.is_git_path(path) for path in result.paths),
        problems=events.limit_problems(result.problems),
    )
    return result


def resume_rollback(session: store.Session) -> None:
    """Finish an interrupted rollback of a locked session that has ended; revert it if its mark is damaged.

    Raises CannotRollBack.
    """
    with open(f"{session.folder}/{_PENDING}", "rb") as file:
        data = file.read()
    try:
        mark = checksummed_json.loads(data)
        number, paths = mark["number"], tuple(mark["paths"])
    except ValueError:
        number, paths = _number_before(session), ()
    record = store.read_record(session)
    try:
        now = checkpoint_store.current_pieces(session, record)
    except OSError as error:
        raise _failure(number, error) from error
    _restore_trees(session, record, number, _trees(session, record, number, now, paths))


def _number_before(session: store.Session) -> int:
    """Return the checkpoint that an interrupted rollback took first. Raises CannotRollBack."""
    last = checkpoint_store.list_checkpoints(session)[-1:]
    if not last or last[0].cause != checkpoint_store.ROLLBACK:
        hint = f"agent-dev discard {session.id} removes the session; undiscard restores it"
        raise CannotRollBack(message="an interrupted rollback cannot be finished: its record is damaged", hint=hint)
    return last[0].number


def _mark_pending(session: store.Session, number: int, paths: tuple[str, ...]) -> None:
    data = checksummed_json.dumps({"number": number, "paths": paths})
    state_files.replace_file(f"{session.folder}/{_PENDING}", data, is_durable=True)
    _sync(session.folder)


def _clear_pending(session: store.Session) -> None:
    _sync(session.folder, everything=True)
    os.unlink(f"{session.folder}/{_PENDING}")


def _sync(folder: str, *, everything: bool = False) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (syscalls.syncfs if everything else os.fsync)(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class _Tree:
    """The steps in one tree of a session: the prefix of its paths in reports, its path, the steps."""

    prefix: str
    path: str
    steps: restore_plan.RestorePlan


def _trees(
    session: store.Session, record: store.Record, number: int, now: Mapping[str, Pieces], paths: tuple[str, ...]
) -> tuple[_Tree, ...]:
    """Return the steps from the current trees of an ended session to a checkpoint."""
    wanted = checkpoint_store.read_all_pieces(session, checkpoint_store.find_checkpoint(session, number))
    found = []
    for name, path in checkpoint_store.tree_paths(session, record).items():
        if name == checkpoint_store.FIRST_ROOT or not paths:
            current, target = node_table.nodes_to_compare(now[name], wanted.get(name, {}))
            if paths:
                current, target = restore_plan.select_with_parents(current, target, paths)
            found.append(
                _Tree("" if name == checkpoint_store.FIRST_ROOT else f"{name}:", path, restore_plan.plan_restore(current, target))
            )
    return tuple(found)


def _verify(session: store.Session, number: int | str, steps: list[restore_plan.RestorePlan]) -> None:
    """Verify all contents that are needed before anything is changed. Raises DamagedCheckpoint."""
    for node in {node.content: node for one in steps for node in one.created if node.kind == restore_plan.FILE}.values():
        if node.content and not node.content.startswith("/"):
            try:
                os.close(checkpoint_store.open_content(session, node.content))
            except OSError as error:
                raise DamagedCheckpoint(number=number, reason=f"{node.path}: {error.strerror}") from None


def _restore_trees(
    session: store.Session, record: store.Record, number: int, trees: tuple[_Tree, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Restore the trees of a session and remove the pending mark. It is idempotent."""
    changed_paths: list[str] = []
    problems: list[str] = []
    try:
        for root in range(len(record["roots"])):
            paths = {path for tree in trees if tree.path == session.root(root, "").upper for path in tree.steps.paths}
            _forget_edits(session, number, root, frozenset(paths))
        for tree in trees:
            problems += [tree.prefix + problem for problem in _restore(session, tree)]
            changed_paths += [tree.prefix + path for path in tree.steps.paths]
        store.make_uppers_accessible(session, len(record["roots"]))
        _clear_pending(session)
    except OSError as error:
        raise _failure(number, error) from error
    return tuple(changed_paths), tuple(problems)


def _forget_edits(session: store.Session, number: int, root: int, paths: frozenset[str]) -> None:
    """Restore the base versions that some paths of a root had at the time of a checkpoint."""
    since = checkpoint_store.find_checkpoint(session, number).time // 10**6
    lower_snapshot.forget_edits(session.lower_snapshot, root, paths, since)


def _failure(number: int, error: OSError) -> CannotRollBack:
    hint = "the next command that opens the session resumes it"
    return CannotRollBack(message=f"the rollback to checkpoint {number} failed: {error.strerror}", hint=hint)


def _restore(session: store.Session, tree: _Tree) -> list[str]:
    folder = os.open(session.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    root = os.open(tree.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _with_temp(root, folder, (_TEMP, lambda node: checkpoint_store.open_content(session, node.content)), tree.steps)
    finally:
        os.close(root)
        os.close(folder)


def _with_temp(
    root: int, folder: int, temp_and_contents: tuple[bytes, restore.ContentOpener], steps: restore_plan.RestorePlan
) -> list[str]:
    """Carry out a restore with a temporary folder in `folder`; return the failures."""
    name, contents = temp_and_contents
    temp = restore.create_temp_folder(folder, name)
    try:
        context = restore.RestoreContext(root, temp, contents)
        restore.restore_nodes(steps, context)
        return context.problems
    finally:
        restore.remove_temp_folder(folder, name, temp)


# A running session


StateFilter = Callable[[str, Table, Table], tuple[Table, Table]]  # selects the parts of a named tree's states to compare
TreeFilter = Callable[[Table, Table], tuple[Table, Table]]  # the same for one tree


def roll_back_live(
    one: ListedSession, number: int, paths: tuple[str, ...] = (), excluded: tuple[str, ...] = ()
) -> RollbackResult:
    """Roll back a running session to a checkpoint, file by file, through its own mount.

    `paths`: only these, in its first root; `excluded`: all except these absolute paths. Concurrent writes of the agent win or
    lose file by file; writes to open files go to the old content. A killed rollback can be repeated. Raises as
    `roll_back_ended`.
    """
    with _lock_rollback(one.session):
        record = store.read_record(one.session)
        lower_snapshot.wait_until_taken(one.session.lower_snapshot, record.get("launched", 0), _PATIENCE)
        return _roll_back_live(one.session, record, number, _select_except(record, excluded) if excluded else _select_only(paths))


def _select_only(paths: tuple[str, ...]) -> StateFilter:
    def select_part(name: str, now: Table, target: Table) -> tuple[Table, Table]:
        return (
            restore_plan.select_with_parents(now, target, paths) if name == checkpoint_store.FIRST_ROOT or not paths else ({}, {})
        )

    return select_part


def _select_except(record: store.Record, excluded: tuple[str, ...]) -> StateFilter:
    outside = [path for path in excluded if not restore_plan.is_within(path, tuple(record["roots"]))]
    if outside:
        raise CannotRollBack(message=f"{outside[0]} is outside the repository", hint="name a path in the repository")

    def select_part(name: str, now: Table, target: Table) -> tuple[Table, Table]:
        root = record["roots"][int(name.removeprefix("root-"))] if name.startswith("root-") else ""
        own = tuple(path[len(root) + 1 :] for path in excluded if root and restore_plan.is_within(path, (root,)))
        return now, restore_plan.keep_paths(now, target, own)

    return select_part


@dataclass(frozen=True, slots=True)
class _States:
    """The current and the wanted nodes of a tree; `area`: the paths that may differ, all if hard links are among them."""

    now: Table
    target: Table
    area: frozenset[str]
    number: int

    @staticmethod
    def of(now: Pieces, target: Pieces, number: int) -> "_States":
        """Compare the current state with that of a checkpoint."""
        one, other = node_table.nodes_to_compare(now, target)
        return _States(node_table.all_nodes(now), node_table.all_nodes(target), frozenset((*one, *other)), number)


def _roll_back_live(session: store.Session, record: store.Record, number: int, select_part: StateFilter) -> RollbackResult:
    wanted = checkpoint_store.read_all_pieces(session, checkpoint_store.find_checkpoint(session, number))
    before, now = checkpoint_store.take_with_pieces(session, record, (checkpoint_store.ROLLBACK, f"to {number}"), always=True)
    changed_paths: list[str] = []
    problems: list[str] = []
    try:
        for name, path in checkpoint_store.tree_paths(session, record).items():
            prefix = "" if name == checkpoint_store.FIRST_ROOT else f"{name}:"
            restore_tree = _restore_git if name.startswith("git-") else _restore_root
            root = record["roots"][int(name.removeprefix("root-"))] if restore_tree is _restore_root else path
            steps, failures = restore_tree(
                session, record, root, _States.of(now[name], wanted.get(name, {}), number), partial(select_part, name)
            )
            changed_paths += [prefix + path for path in steps.paths]
            problems += [prefix + problem for problem in failures]
    except OSError as error:
        hint = f"agent-dev rollback {number} resumes it; the previous state is checkpoint {before.number}"
        raise CannotRollBack(message=f"the rollback to checkpoint {number} failed: {error.strerror}", hint=hint) from error
    return _log_result(session, RollbackResult(number, before.number, tuple(changed_paths), tuple(problems)))


@contextmanager
def _lock_rollback(session: store.Session) -> Iterator[None]:
    """Lock rollbacks of a running session, and record that a root may contain the temporary folder."""
    fd = os.open(f"{session.folder}/{LIVE_MARK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.pwrite(fd, b"+", 0)
        yield
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def remove_leftovers(session: store.Session) -> None:
    """Remove what a killed rollback of a running session left in its uppers; by now the session has ended and is locked."""
    path = f"{session.folder}/{LIVE_MARK}"
    roots = range(len(store.read_record(session)["roots"])) if os.stat(path).st_size else ()
    for number in roots:
        upper = os.open(session.root(number, "").upper, _OPEN)
        try:
            restore.remove_entry(upper, _SHOWN_TEMP)
        finally:
            os.close(upper)
    os.unlink(path)


def _restore_root(
    session: store.Session, record: store.Record, path: str, states: _States, select_part: TreeFilter
) -> tuple[restore_plan.RestorePlan, list[str]]:
    root = live_session.open_root(record, path)
    lower = live_session.LowerLayer(path)
    try:
        area = set(states.area)
        for hidden in restore_plan.hidden_roots(states.now, states.target):
            area.update((hidden, *lower.paths_below(hidden)))
        temp = (os.fsdecode(_SHOWN_TEMP),)  # the temporary folder replaces it and is removed again
        area = {path for path in area if not restore_plan.is_within(path, temp)}
        now, target = (restore_plan.visible_nodes(table, lower.node, area) for table in (states.now, states.target))
        steps = restore_plan.plan_restore(*select_part(now, target))
        _verify(session, states.number, [steps])
        restored = frozenset(path for path in steps.paths if path in states.target)
        _forget_edits(session, states.number, record["roots"].index(path), restored)
        content = _reader(session, lower)
        return steps, _with_temp(root, root, (_SHOWN_TEMP, content), steps)
    finally:
        lower.close()
        os.close(root)


def _restore_git(
    session: store.Session, _record: store.Record, path: str, states: _States, select_part: TreeFilter
) -> tuple[restore_plan.RestorePlan, list[str]]:
    """Roll back a git directory outside the roots: a plain directory that the sandbox shows as it is."""
    steps = restore_plan.plan_restore(*select_part(states.now, states.target))
    _verify(session, states.number, [steps])
    return steps, _restore(session, _Tree("", path, steps))


def _reader(session: store.Session, lower: live_session.LowerLayer) -> Callable[[Node], int]:
    def content(node: Node) -> int:
        return lower.open(node) if node.content.startswith("/") else checkpoint_store.open_content(session, node.content)

    return content


# Deleted files


def restore_deleted_files(one: ListedSession, deleted: Table, checkpoints: Mapping[str, int]) -> RollbackResult:
    """Restore deleted files of the first root in a running or locked session; a checkpoint is taken first.

    `checkpoints`: the numbers of those that have the files, by path; 0 for the repository's own files.
    """
    if one.state != store.RUNNING:
        return _put_back(one.session, deleted, checkpoints, is_running=False)
    with _lock_rollback(one.session):
        return _put_back(one.session, deleted, checkpoints, is_running=True)


def _put_back(session: store.Session, deleted: Table, checkpoints: Mapping[str, int], *, is_running: bool) -> RollbackResult:
    record = store.read_record(session)
    before, pieces = checkpoint_store.take_with_pieces(
        session, record, (checkpoint_store.ROLLBACK, "restore deleted files"), always=True
    )
    upper = node_table.all_nodes(pieces[checkpoint_store.FIRST_ROOT])
    path = record["roots"][0]
    root = (
        live_session.open_root(record, path)
        if is_running
        else os.open(checkpoint_store.tree_paths(session, record)[checkpoint_store.FIRST_ROOT], _OPEN)
    )
    folder = root if is_running else os.open(session.folder, _OPEN)
    lower = live_session.LowerLayer(path)
    try:
        area = {*upper, *deleted, *(above for one in deleted for above in restore_plan.parent_paths(one))}
        current = restore_plan.visible_nodes(upper, lower.node, area) if is_running else upper
        steps = restore_plan.plan_restore(
            current, restore_plan.add_restored(current, deleted, lower.node, is_upper=not is_running)
        )
        _verify(session, "of the file", [steps])
        name = _SHOWN_TEMP if is_running else _TEMP
        if not is_running:
            _mark_pending(session, before.number, ())  # if killed, the next command reverts it
        for number in {*checkpoints.values()} - {0}:
            _forget_edits(session, number, 0, frozenset(path for path in deleted if checkpoints[path] == number))
        problems = _with_temp(root, folder, (name, _reader(session, lower)), steps)
        if not is_running:
            _clear_pending(session)
    except OSError as error:
        raise CannotRollBack(message=f"cannot restore the files: {error.strerror}", hint="try again") from error
    finally:
        lower.close()
        os.close(root)
        if folder != root:
            os.close(folder)
    return _log_result(session, RollbackResult(0, before.number, tuple(sorted(deleted)), tuple(problems)))
