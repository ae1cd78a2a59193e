"""A session held and opened for as long as a word needs it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from agent_dev.commands import sessions
from agent_dev.commands.review import Review, open_review
from agent_dev.commands.sessions import Here, Listed
from agent_dev.host import store


@contextmanager
def opened(one: Listed, where: Here) -> Iterator[Review]:
    """Hold a session and open it; let go at the end."""
    with held(one) as session, closing(open_review(session, where.environ)) as review:
        yield review


@contextmanager
def held(one: Listed) -> Iterator[store.Session]:
    """Hold a session; let go at the end."""
    session = sessions.hold(one).session
    try:
        yield session
    finally:
        store.let_go(session)
