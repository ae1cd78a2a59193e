"""Prune the checkpoints of merged sessions; those of sessions that wait stay until the user prunes them."""

from agent_dev.checkpoint import checkpoint_store, operations
from agent_dev.errors import SessionBusy
from agent_dev.retention.clean_result import CleanedKind
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, ListedSession, list_sessions


def prune_merged(where: CommandContext, *, is_dry: bool, without: frozenset[str] = frozenset()) -> CleanedKind:
    """Prune checkpoints by the settings `keep_checkpoints*`; leave out sessions by id. With `is_dry`, only count them."""
    removed: list[int] = []
    kept: list[int] = []
    for one in list_sessions(where.store):
        try:
            sizes = {about.number: about.copied for about in checkpoint_store.list_checkpoints(one.session)}
        except OSError:
            continue  # another user's, or just removed
        if one.state == store.MERGED and sizes and one.session.id not in without:
            gone = _prune(where, one, is_dry=is_dry)
            removed += (sizes.pop(number) for number in gone if number in sizes)
        kept += sizes.values()
    return CleanedKind.of("checkpoints", removed, kept)


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
