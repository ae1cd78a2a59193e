"""What was deleted in a session, of the repository or of the agent's own, and bringing a path back."""

import os
from dataclasses import dataclass, replace

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import live_session as live
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint import rollback
from agent_dev.checkpoint.restore_plan import Node, Table
from agent_dev.errors import CannotRollBack
from agent_dev.overlay.interpret import is_under_git
from agent_dev.session import store
from agent_dev.session.sessions import Listed


@dataclass(frozen=True, slots=True)
class Deleted:
    """A path that is not there any more: what it was, and the checkpoint that still holds it; 0: the repository does."""

    path: str
    kind: str
    size: int
    checkpoint: int


def deleted(one: Listed) -> tuple[Deleted, ...]:
    """Return what was deleted in the first root of a session, running or held, sorted; directories only by what was in them."""
    record = store.read(one.session)
    lower = live.Lower(record["roots"][0])
    try:
        return tuple(replace(found, path=path) for path, (found, _) in sorted(_gone(one, record, lower).items()))
    finally:
        lower.close()


def _gone(one: Listed, record: store.Record, lower: live.Lower) -> dict[str, tuple[Deleted, Node]]:
    upper = checkpoints.now(one.session, record)[checkpoints.FIRST]
    found: dict[str, tuple[Deleted, Node]] = {}
    for about in reversed(checkpoints.whole(one.session)):
        for path, node in checkpoints.table(one.session, about).items():
            if path not in found and node.kind not in (history.WHITEOUT, history.DIRECTORY) and _is_gone(path, upper, lower):
                found[path] = (Deleted(path, node.kind, node.size, about.number), node)
    for top in history.hidden(upper, {}):
        for path in (top, *lower.below(top)):
            below = None if path in found or not _is_gone(path, upper, lower, is_hidden=True) else lower.node(path)
            if below is not None and below.kind != history.DIRECTORY:
                found[path] = (Deleted(path, below.kind, below.size, 0), below)
    return found


def _is_gone(path: str, upper: Table, lower: live.Lower, *, is_hidden: bool = False) -> bool:
    """Whether a path is not shown now; one that `is_hidden` or not is known of is not asked of the real tree."""
    if is_under_git(os.fsencode(path)):
        return False
    node = upper.get(path)
    if node is not None:
        return node.kind == history.WHITEOUT
    return is_hidden or history.is_hidden(path, upper) or lower.node(path) is None


def bring(one: Listed, path: str) -> rollback.RolledBack:
    """Bring back what was deleted at a path and below it, from where it was last. Raises CannotRollBack."""
    record = store.read(one.session)
    lower = live.Lower(record["roots"][0])
    try:
        gone = _gone(one, record, lower)
    finally:
        lower.close()
    wanted = {found: node for found, (_, node) in gone.items() if not path or history.is_within(found, (path,))}
    if not wanted:
        raise CannotRollBack(message=f"nothing at {path} was deleted", hint="agent-dev trash lists what was")
    return rollback.put_back(one, wanted)
