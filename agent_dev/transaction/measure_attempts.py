"""Measure what the attempts of `tx --best` changed, by opening their sessions."""

from contextlib import closing

from agent_dev.errors import AgentDevError
from agent_dev.fs.entry import FileType
from agent_dev.merge.review import open_review
from agent_dev.overlay.changes import ChangeSet
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext
from agent_dev.transaction import child_process
from agent_dev.transaction.best import AttemptChanges, ScoredAttempt
from agent_dev.transaction.result import TransactionResult


def measure_attempts(
    results: tuple[TransactionResult, ...], hosts: tuple[str, ...], context: CommandContext
) -> tuple[ScoredAttempt, ...]:
    """Return the attempts of these results, with the size and the risks of their changes."""
    return tuple(
        ScoredAttempt(number, result, _measure(result.session, context) if result.session else None, host)
        for number, (result, host) in enumerate(zip(results, hosts, strict=True), 1)
    )


def _measure(name: str, context: CommandContext) -> AttemptChanges | None:
    """Return the size of a session's changes; None if they cannot be read, which the review reports."""
    try:
        session = child_process.lock_session(store.Session(name, f"{context.store.sessions}/{name}"))
    except (AgentDevError, OSError):
        return None
    try:
        with closing(open_review(session, context.environ, with_risks=False)) as review:
            return _count(review.assess_with_counts())
    except (AgentDevError, OSError):
        return None
    finally:
        store.unlock_session(session)


def _count(changes: ChangeSet) -> AttemptChanges:
    own = [change for change in changes.changes if not change.is_ignored]
    return AttemptChanges(
        files=sum(change.type is not FileType.DIRECTORY for change in own),
        insertions=sum(change.insertions or 0 for change in own),
        deletions=sum(change.deletions or 0 for change in own),
        risky=sum(bool(change.known_risks) for change in own),
    )
