"""Prune the checkpoints of merged sessions; those of sessions that wait stay until the user prunes them."""

from collections.abc import Mapping

from agent_dev.checkpoint import checkpoint_store, operations
from agent_dev.errors import SessionBusy
from agent_dev.retention.clean_result import CleanedKind
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, ListedSession, list_sessions


def list_sizes(where: CommandContext) -> dict[str, tuple[int, ...]]:
    """Return the sizes of all checkpoints by session."""
    return {one.id: tuple(_sizes(one).values()) for one in store.all_sessions(where.store)}


def prune_merged(where: CommandContext, *, is_dry: bool, reduced: Mapping[str, tuple[int, ...]] | None = None) -> CleanedKind:
    """Prune checkpoints by the settings `keep_checkpoints*`. With `is_dry`, only count them.

    `reduced`: the sizes of the checkpoints of sessions that lose all of them by another step; they count as removed.
    """
    reduced = reduced or {}
    removed = [size for sizes in reduced.values() for size in sizes]
    kept: list[int] = []
    for one in list_sessions(where.store):
        if one.session.id in reduced:
            continue
        sizes = _sizes(one.session)
        if one.state == store.MERGED and sizes:
            gone = _prune(where, one, is_dry=is_dry)
            removed += (sizes.pop(number) for number in gone if number in sizes)
        kept += sizes.values()
    return CleanedKind.of("checkpoints", removed, kept)


def _sizes(session: store.Session) -> dict[int, int]:
    """Return the sizes of a session's checkpoints by number; none if it is another user's, or was just removed."""
    try:
        return {about.number: about.copied for about in checkpoint_store.list_checkpoints(session)}
    except OSError:
        return {}


def _prune(where: CommandContext, one: ListedSession, *, is_dry: bool) -> tuple[int, ...]:
    """Return the numbers of the pruned checkpoints; none if the session is in use."""
    try:
        session = one.session if is_dry else store.lock_session(one.session)
    except (SessionBusy, OSError):
        return ()
    try:
        return tuple(about.number for about in operations.prune(where, one, is_dry=is_dry))
    except OSError:
        return ()  # the disk is full, or the session was just removed
    finally:
        store.unlock_session(session)
