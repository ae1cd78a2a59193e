"""Context managers that lock and open a session for a subcommand."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from agent_dev.cli.commands.open_session import locked_session
from agent_dev.cli.console import notify
from agent_dev.merge.review import Review, open_review
from agent_dev.progress import show_progress
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, ListedSession

_COMPARING = "comparing the session with the repository"


@contextmanager
def open_locked(one: ListedSession, context: CommandContext) -> Iterator[Review]:
    """Lock a session and open its review, without assessing risks; unlock it at the end."""
    with locked_session(one) as session:
        with show_progress(_COMPARING):
            review = open_review(session, context.environ, with_risks=False)
        with closing(review):
            yield review


def warn_running(one: ListedSession) -> None:
    """Warn that the session is running and the output is a snapshot."""
    notify(f"session {one.name} is still running; this is a snapshot")


def open_unjudged(one: ListedSession, context: CommandContext) -> AbstractContextManager[Review]:
    """Open a session for printing, without assessing risks: locked, or a snapshot of a running one."""
    return (open_for_reading if one.state == store.RUNNING else open_locked)(one, context)


@contextmanager
def open_for_reading(one: ListedSession, context: CommandContext, paths: tuple[str, ...] = ()) -> Iterator[Review]:
    """Lock a session only while it is opened, so that a pager does not block others.

    The review does not see a later merge. For a running session, it reads a snapshot, without a lock. `paths`: as `open_review`.
    """
    if one.state == store.RUNNING:
        from agent_dev.merge import running_session  # rare

        warn_running(one)
        with running_session.open_during(one.session, context.environ) as review:
            yield review
        return
    with locked_session(one) as session, show_progress(_COMPARING):
        review = open_review(session, context.environ, with_risks=False, paths=paths)
    with closing(review):
        yield review
