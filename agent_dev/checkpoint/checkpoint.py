"""Checkpoints of a session: taking, listing and thinning them, and what one file was in each."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.checkpoint_store import About
from agent_dev.checkpoint.restore_plan import MINUTE, Keep
from agent_dev.errors import UsageError
from agent_dev.fs import dir_tree as files
from agent_dev.session import store
from agent_dev.session.sessions import Here, Listed

_CHANGED = "agent-dev log --changes lists what changed"


def take(one: Listed, message: str = "") -> About:
    """Take the checkpoint that the user asks for, of a session running or held. Raises CheckpointFailed."""
    return checkpoints.take(one.session, store.read(one.session), checkpoints.MANUAL, message, always=True)


def thin(where: Here, one: Listed, *, is_dry: bool) -> tuple[About, ...]:
    """Let go of the checkpoints that need not be kept; `is_dry`: only say which."""
    profile = where.profile
    keep = Keep.of(profile.keep_checkpoints, profile.keep_checkpoints_days, profile.keep_checkpoints_mib)
    return checkpoints.let_go(one.session, keep, (profile.checkpoint_minutes or 5) * MINUTE, is_dry=is_dry)


# Looking


@dataclass(frozen=True, slots=True)
class Version:
    """What one path was at a checkpoint. `state`: a file's type, `deleted`, or `as in the repository`.

    `is_nothing`: as in the repository, which has nothing there now.
    """

    checkpoint: int
    time: int
    state: str
    size: int = 0
    digest: str = ""
    is_nothing: bool = False


def listed(one: Listed, number: int = 0) -> tuple[About, ...]:
    """Return a session's checkpoints, oldest first, or that one alone. Raises UnknownCheckpoint."""
    return (checkpoints.find(one.session, number),) if number else checkpoints.listed(one.session)


def damaged(one: Listed) -> tuple[int, ...]:
    """Return the numbers of those that cannot be read."""
    return checkpoints.damaged(one.session)


def versions(one: Listed, path: str) -> tuple[Version, ...]:
    """Return what a path of the first root was at each checkpoint, oldest first. Raises UsageError: nothing knows it."""
    kept = checkpoints.whole(one.session)
    require(one, (path,), kept)
    found, is_nothing = [], not _is_there(_real(one), path)
    for about in kept:
        table = checkpoints.table(one.session, about)
        node = table.get(path)
        if node is not None and node.kind != history.WHITEOUT:
            found.append(Version(about.number, about.time, node.kind, node.size, node.content))
        else:
            is_gone = node is not None or history.is_hidden(path, table)
            state = "deleted" if is_gone else "as in the repository"
            found.append(Version(about.number, about.time, state, is_nothing=is_nothing and not is_gone))
    return tuple(found)


def require(one: Listed, paths: Iterable[str], kept: Iterable[About]) -> None:
    """Raise UsageError for a path of the first root that neither these checkpoints nor the session nor the repository has."""
    tables: list[history.Table] = []
    for path in paths:
        if path and not any(_is_there(place, path) for place in (_real(one), one.session.root(0, "").upper)):
            tables = tables or [checkpoints.table(one.session, about) for about in kept]
            if not any(history.within(table, (path,)) for table in tables):
                raise UsageError(message=f"{path}: neither checkpoint nor session nor repository has it", hint=_CHANGED)


def _real(one: Listed) -> str:
    return str(one.record["roots"][0])


def _is_there(place: str, path: str) -> bool:
    try:
        tree = files.Tree(place)
    except OSError:
        return False  # the repository is gone
    try:
        return tree.look(os.fsencode(path), attributes=False) is not None
    finally:
        tree.close()
