"""Compare two checkpoints of a session, or a checkpoint with the session's current state."""

import os
from collections.abc import Callable, Iterator

from agent_dev.checkpoint import checkpoint_store, live_session, restore_plan
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.errors import DamagedCheckpoint
from agent_dev.fs import dir_tree
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay import patch_write
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.paths import is_under_git
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store
from agent_dev.session.sessions import ListedSession


@dataclass(frozen=True, slots=True)
class PathDifference:
    """A path that differs, with the contents of both sides; None for content that cannot be shown."""

    change: Change
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class _TreeSide:
    """The nodes of one side, and a function that opens one of its files."""

    tables: dict[str, dict[str, Node]]
    open: Callable[[int, Node], int]


def compare_checkpoints(one: ListedSession, first: int, second: int, paths: tuple[str, ...] = ()) -> Iterator[PathDifference]:
    """Yield the differences of two checkpoints; `second` 0: the current state. `paths` limits it to parts of the first root.

    Files of the lower layer are taken from the current real tree. Raises UnknownCheckpoint, DamagedCheckpoint.
    """
    session, record = one.session, store.read_record(one.session)
    before = _checkpoint_side(session, first)
    after = _checkpoint_side(session, second) if second else _current_side(session, record)
    for number, path in enumerate(record["roots"]):
        if number and paths:
            continue
        lower = live_session.LowerLayer(path)
        try:
            yield from _compare_root(number, lower, (before, after), paths)
        finally:
            lower.close()


def _checkpoint_side(session: store.Session, number: int) -> _TreeSide:
    tables = checkpoint_store.read_tables(session, checkpoint_store.find_checkpoint(session, number))

    def open_file(_compare_root: int, node: Node) -> int:
        try:
            return checkpoint_store.open_content(session, node.content)
        except OSError as error:
            raise DamagedCheckpoint(number=number, reason=f"{node.path}: {error.strerror}") from None

    return _TreeSide(tables, open_file)


def _current_side(session: store.Session, record: store.Record) -> _TreeSide:
    def open_file(number: int, node: Node) -> int:
        upper = dir_tree.Tree(session.root(number, "").upper)
        try:
            return upper.open(os.fsencode(node.path), os.O_RDONLY)
        finally:
            upper.close()

    return _TreeSide(checkpoint_store.current_nodes(session, record), open_file)


def _compare_root(
    number: int, lower: live_session.LowerLayer, sides: tuple[_TreeSide, _TreeSide], paths: tuple[str, ...]
) -> Iterator[PathDifference]:
    tables = [side.tables.get(f"root-{number}", {}) for side in sides]
    area = {*tables[0], *tables[1]}
    for hidden in restore_plan.hidden_roots(tables[0], tables[1]):
        area.update((hidden, *lower.paths_below(hidden)))
    wanted = {path for path in area if path and not is_under_git(os.fsencode(path))}
    if paths and "" not in paths:
        wanted = {path for path in wanted if restore_plan.is_within(path, paths)}
    before, after = (restore_plan.visible_nodes(table, lower.node, wanted) for table in tables)
    for path in sorted(wanted):
        kind = _kind(before.get(path), after.get(path))
        if kind is not None:
            change = Change(Key(number, os.fsencode(path)), kind, _entry(before.get(path)), _entry(after.get(path)))
            contents = [_read(view.get(path), lower, side, number) for view, side in zip((before, after), sides, strict=True)]
            if kind is not ChangeKind.EDITED or contents[0] != contents[1] or contents[0] is None:
                yield PathDifference(change, *contents)


def _kind(before: Node | None, after: Node | None) -> ChangeKind | None:
    if before is None or after is None:
        return None if before is after else ChangeKind.ADDED if before is None else ChangeKind.DELETED
    if before.kind != after.kind:
        return ChangeKind.RETYPED
    if before.content != after.content:
        return ChangeKind.EDITED
    is_same = (before.mode, before.attributes) == (after.mode, after.attributes) or before.kind == restore_plan.SYMLINK
    return None if is_same else ChangeKind.METADATA


def _entry(node: Node | None) -> Entry | None:
    if node is None:
        return None
    target = os.fsencode(node.content) if node.kind == restore_plan.SYMLINK else b""
    attributes = tuple((name, bytes.fromhex(value)) for name, _, value in _pairs(node))
    return Entry(FileType(node.kind), node.mode, node.size, mtime=node.mtime, target=target, attributes=attributes)


def _pairs(node: Node) -> list[tuple[str, str, str]]:
    return [one.rpartition("=") for one in node.attributes.split(",") if one]


def _read(node: Node | None, lower: live_session.LowerLayer, side: _TreeSide, number: int) -> bytes | None:
    if node is None or node.size > patch_write.MAX_SIDE_SIZE:
        return None
    if node.kind == restore_plan.SYMLINK:
        return os.fsencode(node.content)
    if node.kind != restore_plan.FILE or not node.content:
        return None
    try:
        fd = lower.open(node) if node.content.startswith("/") else side.open(number, node)
    except OSError:
        return None  # just removed, or damaged
    try:
        return dir_tree.read_all(fd)
    finally:
        os.close(fd)
