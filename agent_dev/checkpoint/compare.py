"""What changed between two checkpoints of a session, or between one and what the session holds now."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import live_session as live
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.errors import DamagedCheckpoint
from agent_dev.fs import dir_tree as files
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind
from agent_dev.overlay.interpret import is_under_git
from agent_dev.session import store
from agent_dev.session.sessions import Listed

LARGEST = 8 << 20  # bytes of a file whose lines are compared


@dataclass(frozen=True, slots=True)
class Compared:
    """One path that differs, with the bytes of both sides; None where there are none to show."""

    change: Change
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class _Side:
    """What one state shows of a root, and what opens a file of it."""

    tables: dict[str, dict[str, Node]]
    open: Callable[[int, Node], int]


def compare(one: Listed, first: int, second: int, paths: tuple[str, ...] = ()) -> Iterator[Compared]:
    """Yield what differs between two checkpoints; `second` 0: now. `paths` are those of the first root, and all below them.

    What a state leaves to the real tree is taken from there as it is now. Raises UnknownCheckpoint, DamagedCheckpoint.
    """
    session, record = one.session, store.read(one.session)
    before = _kept(session, first)
    after = _kept(session, second) if second else _now(session, record)
    for number, path in enumerate(record["roots"]):
        if number and paths:
            continue
        lower = live.Lower(path)
        try:
            yield from _root(number, lower, (before, after), paths)
        finally:
            lower.close()


def _kept(session: store.Session, number: int) -> _Side:
    tables = checkpoints.tables(session, checkpoints.find(session, number))

    def opened(_root: int, node: Node) -> int:
        try:
            return checkpoints.content(session, node.content)
        except OSError as error:
            raise DamagedCheckpoint(number=number, reason=f"{node.path}: {error.strerror}") from None

    return _Side(tables, opened)


def _now(session: store.Session, record: store.Record) -> _Side:
    def opened(number: int, node: Node) -> int:
        upper = files.Tree(session.root(number, "").upper)
        try:
            return upper.open(os.fsencode(node.path), os.O_RDONLY)
        finally:
            upper.close()

    return _Side(checkpoints.now(session, record), opened)


def _root(number: int, lower: live.Lower, sides: tuple[_Side, _Side], paths: tuple[str, ...]) -> Iterator[Compared]:
    tables = [side.tables.get(f"root-{number}", {}) for side in sides]
    area = {*tables[0], *tables[1]}
    for hidden in history.hidden(tables[0], tables[1]):
        area.update((hidden, *lower.below(hidden)))
    wanted = {path for path in area if path and not is_under_git(os.fsencode(path))}
    if paths and "" not in paths:
        wanted = {path for path in wanted if history.is_within(path, paths)}
    before, after = (history.seen(table, lower.node, wanted) for table in tables)
    for path in sorted(wanted):
        kind = _kind(before.get(path), after.get(path))
        if kind is not None:
            change = Change(Key(number, os.fsencode(path)), kind, _entry(before.get(path)), _entry(after.get(path)))
            contents = [_read(view.get(path), lower, side, number) for view, side in zip((before, after), sides, strict=True)]
            if kind is not Kind.EDITED or contents[0] != contents[1] or contents[0] is None:
                yield Compared(change, *contents)


def _kind(before: Node | None, after: Node | None) -> Kind | None:
    if before is None or after is None:
        return None if before is after else Kind.ADDED if before is None else Kind.DELETED
    if before.kind != after.kind:
        return Kind.RETYPED
    if before.content != after.content:
        return Kind.EDITED
    is_same = (before.mode, before.attributes) == (after.mode, after.attributes) or before.kind == history.SYMLINK
    return None if is_same else Kind.METADATA


def _entry(node: Node | None) -> Entry | None:
    if node is None:
        return None
    target = os.fsencode(node.content) if node.kind == history.SYMLINK else b""
    attributes = tuple((name, bytes.fromhex(value)) for name, _, value in _pairs(node))
    return Entry(FileType(node.kind), node.mode, node.size, mtime=node.mtime, target=target, attributes=attributes)


def _pairs(node: Node) -> list[tuple[str, str, str]]:
    return [one.rpartition("=") for one in node.attributes.split(",") if one]


def _read(node: Node | None, lower: live.Lower, side: _Side, number: int) -> bytes | None:
    if node is None or node.size > LARGEST:
        return None
    if node.kind == history.SYMLINK:
        return os.fsencode(node.content)
    if node.kind != history.FILE or not node.content:
        return None
    try:
        fd = lower.open(node) if node.content.startswith("/") else side.open(number, node)
    except OSError:
        return None  # gone in this instant, or damaged
    try:
        return files.read_all(fd)
    finally:
        os.close(fd)
