"""A session held and opened for as long as a word needs it."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_dev.commands import sessions
from agent_dev.commands.review import Review, open_review
from agent_dev.commands.sessions import Here, Listed
from agent_dev.host import store


@contextmanager
def opened(one: Listed, where: Here) -> Iterator[Review]:
    """Hold a session and open it; let go at the end."""
    held = sessions.hold(one)
    try:
        review = open_review(held.session, where.environ)
        try:
            yield review
        finally:
            review.close()
    finally:
        store.let_go(held.session)
