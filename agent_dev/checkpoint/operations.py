"""The user's operations on checkpoints: take, list, prune, and show the versions of a file."""

import os
from collections.abc import Iterable

from agent_dev.checkpoint import checkpoint_store, restore_plan
from agent_dev.checkpoint.checkpoint_store import Checkpoint
from agent_dev.errors import UsageError
from agent_dev.fs import dir_tree
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, ListedSession
from agent_dev.snapshot_retention import MINUTE, RetentionLimits

_CHANGES_HINT = "agent-dev log --changes lists the changes"


def take_manual(one: ListedSession, message: str = "") -> Checkpoint:
    """Take a checkpoint of a running or locked session for the user. Raises CheckpointFailed."""
    return checkpoint_store.take_checkpoint(
        one.session, store.read_record(one.session), checkpoint_store.MANUAL, message, always=True
    )


def prune(context: CommandContext, one: ListedSession, *, is_dry: bool) -> tuple[Checkpoint, ...]:
    """Prune checkpoints by the retention rules; `is_dry`: only return them."""
    profile = context.profile
    keep = RetentionLimits.from_settings(profile.keep_checkpoints, profile.keep_checkpoints_days, profile.keep_checkpoints_mib)
    return checkpoint_store.prune(one.session, keep, (profile.checkpoint_minutes or 5) * MINUTE, is_dry=is_dry)


# Reading


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The version of a path in a checkpoint. `state`: a file type, `deleted`, or `as in the repository`.

    `is_missing`: as in the repository, where the path does not exist now.
    """

    checkpoint: int
    time: int
    state: str
    size: int = 0
    digest: str = ""
    is_missing: bool = False


def list_checkpoints(one: ListedSession, number: int = 0) -> tuple[Checkpoint, ...]:
    """Return a session's checkpoints, oldest first, or only the one with `number`. Raises UnknownCheckpoint."""
    return (checkpoint_store.find_checkpoint(one.session, number),) if number else checkpoint_store.list_checkpoints(one.session)


def damaged_numbers(one: ListedSession) -> tuple[int, ...]:
    """Return the numbers of the damaged checkpoints."""
    return checkpoint_store.damaged_numbers(one.session)


def file_versions(one: ListedSession, path: str) -> tuple[FileVersion, ...]:
    """Return the version of a path of the first root in each checkpoint, oldest first. Raises UsageError for an unknown path."""
    found_checkpoints = checkpoint_store.list_readable(one.session)
    require_known_paths(one, (path,), found_checkpoints)
    found, is_missing = [], not _exists(_root(one), path)
    for about in found_checkpoints:
        table = checkpoint_store.read_table(one.session, about)
        node = table.get(path)
        if node is not None and node.kind != restore_plan.WHITEOUT:
            found.append(FileVersion(about.number, about.time, node.kind, node.size, node.content))
        else:
            is_deleted = node is not None or restore_plan.is_hidden(path, table)
            state = "deleted" if is_deleted else "as in the repository"
            found.append(FileVersion(about.number, about.time, state, is_missing=is_missing and not is_deleted))
    return tuple(found)


def require_known_paths(one: ListedSession, paths: Iterable[str], found_checkpoints: Iterable[Checkpoint]) -> None:
    """Raise UsageError for a path of the first root that exists in no checkpoint, nor in the session or the repository."""
    tables: list[restore_plan.Table] = []
    for path in paths:
        if path and not any(_exists(root, path) for root in (_root(one), one.session.root(0, "").upper)):
            tables = tables or [checkpoint_store.read_table(one.session, about) for about in found_checkpoints]
            if not any(restore_plan.select_below(table, (path,)) for table in tables):
                raise UsageError(
                    message=f"{path}: found neither in a checkpoint nor in the session or the repository", hint=_CHANGES_HINT
                )


def _root(one: ListedSession) -> str:
    return str(one.record["roots"][0])


def _exists(root: str, path: str) -> bool:
    try:
        tree = dir_tree.Tree(root)
    except OSError:
        return False  # the repository is gone
    try:
        return tree.entry_at(os.fsencode(path), attributes=False) is not None
    finally:
        tree.close()
