"""Find work that exists only in a checkpoint, because it was rolled back or deleted."""

import os
from collections.abc import Iterator

from agent_dev.checkpoint import checkpoint_store, content_pool, live_session, restore_plan
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.errors import DamagedCheckpoint
from agent_dev.git import check_ignore
from agent_dev.paths import is_under_git
from agent_dev.session import store


def describe_only_copy(session: store.Session, record: store.Record, untrusted: tuple[str, ...], environ: dict[str, str]) -> str:
    """Return a message if a session without changes has a checkpoint that holds changes and was taken for a reason; else "".

    Files that git ignores do not count, such as deleted build output.
    """
    for about in reversed(checkpoint_store.list_checkpoints(session)):
        if about.cause not in checkpoint_store.AUTOMATIC_CAUSES and _has_changes(session, record, about, untrusted, environ):
            commands = f"agent-dev deleted, agent-dev rollback {about.number}"
            return f"no changes are left, but checkpoint {about.number} contains some ({commands})"
    return ""


def _has_changes(
    session: store.Session,
    record: store.Record,
    about: checkpoint_store.Checkpoint,
    untrusted: tuple[str, ...],
    environ: dict[str, str],
) -> bool:
    for number, root in enumerate(record["roots"]):
        try:
            table = checkpoint_store.read_table(session, about, f"root-{number}")
        except DamagedCheckpoint:
            return True  # unknown
        paths = list(_changed(table, root))
        if len(paths) > len(check_ignore.find_ignored(root, paths, untrusted, environ)):
            return True
    return False


def _changed(table: restore_plan.Table, root: str) -> Iterator[bytes]:
    """Yield the files and links of an upper that differ from the real tree."""
    lower = live_session.LowerLayer(root)
    try:
        for path, node in table.items():
            path_bytes = os.fsencode(path)
            if (
                node.kind in (restore_plan.FILE, restore_plan.SYMLINK)
                and not is_under_git(path_bytes)
                and not _is_same(node, lower)
            ):
                yield path_bytes
    finally:
        lower.close()


def _is_same(node: Node, lower: live_session.LowerLayer) -> bool:
    real = lower.node(node.path)
    if real is None or (real.kind, real.size) != (node.kind, node.size):
        return False
    if node.kind == restore_plan.SYMLINK:
        return real.content == node.content
    try:
        fd = lower.open(real)
    except OSError:
        return False  # not readable by this user
    try:
        return content_pool.digest_of(fd) == node.content
    finally:
        os.close(fd)
