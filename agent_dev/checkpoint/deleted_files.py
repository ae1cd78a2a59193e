"""List files that were deleted in a session, and restore one."""

import os

from agent_dev.checkpoint import checkpoint_store, live_session, restore_plan, rollback
from agent_dev.checkpoint.restore_plan import Node, Table
from agent_dev.errors import UsageError
from agent_dev.paths import is_under_git
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session import store
from agent_dev.session.sessions import ListedSession


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A deleted path: its type, and the checkpoint that still has it; 0: the repository has it."""

    path: str
    kind: str
    size: int
    checkpoint: int


def list_deleted(one: ListedSession) -> tuple[DeletedFile, ...]:
    """Return the files deleted in the first root of a running or locked session, sorted; directories by their files."""
    record = store.read_record(one.session)
    lower = live_session.LowerLayer(record["roots"][0])
    try:
        return tuple(replace(found, path=path) for path, (found, _) in sorted(_find_deleted(one, record, lower).items()))
    finally:
        lower.close()


def _find_deleted(
    one: ListedSession, record: store.Record, lower: live_session.LowerLayer
) -> dict[str, tuple[DeletedFile, Node]]:
    upper = checkpoint_store.current_nodes(one.session, record)[checkpoint_store.FIRST_ROOT]
    found: dict[str, tuple[DeletedFile, Node]] = {}
    for about in reversed(checkpoint_store.list_readable(one.session)):
        for path, node in checkpoint_store.read_table(one.session, about).items():
            if (
                path not in found
                and node.kind not in (restore_plan.WHITEOUT, restore_plan.DIRECTORY)
                and _is_deleted(path, upper, lower)
            ):
                found[path] = (DeletedFile(path, node.kind, node.size, about.number), node)
    for top in restore_plan.hidden_roots(upper, {}):
        for path in (top, *lower.paths_below(top)):
            lower_node = None if path in found or not _is_deleted(path, upper, lower, is_hidden=True) else lower.node(path)
            if lower_node is not None and lower_node.kind != restore_plan.DIRECTORY:
                found[path] = (DeletedFile(path, lower_node.kind, lower_node.size, 0), lower_node)
    return found


def _is_deleted(path: str, upper: Table, lower: live_session.LowerLayer, *, is_hidden: bool = False) -> bool:
    """Return whether a path is not visible now. `is_hidden`: a directory above it is known to hide the real tree."""
    if is_under_git(os.fsencode(path)):
        return False
    node = upper.get(path)
    if node is not None:
        return node.kind == restore_plan.WHITEOUT
    return is_hidden or restore_plan.is_hidden(path, upper) or lower.node(path) is None


def restore_deleted(one: ListedSession, path: str) -> rollback.RollbackResult:
    """Restore the files deleted at and below a path, from their last copy. Raises UsageError, CannotRollBack."""
    record = store.read_record(one.session)
    lower = live_session.LowerLayer(record["roots"][0])
    try:
        deleted_nodes = _find_deleted(one, record, lower)
    finally:
        lower.close()
    wanted = {found: last for found, last in deleted_nodes.items() if not path or restore_plan.is_within(found, (path,))}
    if not wanted:
        raise UsageError(message=f"no deleted files at {path}", hint="agent-dev deleted lists deleted files")
    checkpoints = {found: about.checkpoint for found, (about, _) in wanted.items()}
    return rollback.restore_deleted_files(one, {found: node for found, (_, node) in wanted.items()}, checkpoints)
