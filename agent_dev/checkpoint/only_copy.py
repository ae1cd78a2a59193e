"""What the checkpoints of a session hold of which nothing else is left: work that was rolled back or removed."""

import os
from collections.abc import Iterator

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import content_pool as pool
from agent_dev.checkpoint import live_session as live
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.errors import DamagedCheckpoint
from agent_dev.git import check_ignore as ignored
from agent_dev.overlay.interpret import is_under_git
from agent_dev.session import store


def told(session: store.Session, record: store.Record, untrusted: tuple[str, ...], environ: dict[str, str]) -> str:
    """Return what to say of a session that holds no change, while a checkpoint that was taken for a reason does; else "".

    What git ignores does not count: a build that is thrown away is none the less gone.
    """
    for about in reversed(checkpoints.listed(session)):
        if about.cause not in checkpoints.BY_ITSELF and _holds(session, record, about, untrusted, environ):
            back = f"agent-dev trash, agent-dev rollback {about.number}"
            return f"nothing is left of what changed; checkpoint {about.number} has what there was ({back})"
    return ""


def _holds(
    session: store.Session, record: store.Record, about: checkpoints.About, untrusted: tuple[str, ...], environ: dict[str, str]
) -> bool:
    for number, root in enumerate(record["roots"]):
        try:
            table = checkpoints.table(session, about, f"root-{number}")
        except DamagedCheckpoint:
            return True  # nobody knows
        paths = list(_changed(table, root))
        if len(paths) > len(ignored.among(root, paths, untrusted, environ)):
            return True
    return False


def _changed(table: history.Table, root: str) -> Iterator[bytes]:
    """Yield the files and links of an upper that the real tree does not have."""
    lower = live.Lower(root)
    try:
        for path, node in table.items():
            raw = os.fsencode(path)
            if node.kind in (history.FILE, history.SYMLINK) and not is_under_git(raw) and not _is_same(node, lower):
                yield raw
    finally:
        lower.close()


def _is_same(node: Node, lower: live.Lower) -> bool:
    real = lower.node(node.path)
    if real is None or (real.kind, real.size) != (node.kind, node.size):
        return False
    if node.kind == history.SYMLINK:
        return real.content == node.content
    try:
        fd = lower.open(real)
    except OSError:
        return False  # not for us to read
    try:
        return pool.digest_of(fd) == node.content
    finally:
        os.close(fd)
