"""Context managers that lock and open a session for a subcommand."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from agent_dev.cli.commands.open_session import locked_if_free, locked_session
from agent_dev.merge.review import Review, open_review
from agent_dev.progress import show_progress
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, ListedSession

_COMPARING = "comparing the session with the repository"


@contextmanager
def open_locked(one: ListedSession, context: CommandContext) -> Iterator[Review]:
    """Lock a session and open its review, without assessing risks; unlock it at the end."""
    with locked_session(one) as session, _opened(one, session, context) as review:
        yield review


@contextmanager
def open_unjudged(one: ListedSession, context: CommandContext) -> Iterator[Review]:
    """Open a session for printing, without assessing risks: locked, or a snapshot of one that is running or open elsewhere."""
    with locked_if_free(one) as session, _opened(one, session, context) as review:
        yield review


@contextmanager
def open_for_reading(one: ListedSession, context: CommandContext, paths: tuple[str, ...] = ()) -> Iterator[Review]:
    """As `open_unjudged`, but lock a session only while it is opened, so that a pager does not block others.

    The review does not see a later merge. `paths`: as `open_review`.
    """
    with ExitStack() as opened:
        with locked_if_free(one) as session:
            review = opened.enter_context(_opened(one, session, context, paths))
        yield review


@contextmanager
def _opened(
    one: ListedSession, locked: store.Session | None, context: CommandContext, paths: tuple[str, ...] = ()
) -> Iterator[Review]:
    if locked is None:
        from agent_dev.merge import running_session  # rare

        with running_session.open_during(one.session, context.environ) as review:
            yield review
        return
    with show_progress(_COMPARING):
        review = open_review(locked, context.environ, with_risks=False, paths=paths)
    with closing(review):
        yield review
