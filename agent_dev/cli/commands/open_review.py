"""A session held and opened for as long as a word needs it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from agent_dev.cli.commands.open_session import held
from agent_dev.merge.review import Review, open_review
from agent_dev.session.sessions import Here, Listed


@contextmanager
def opened(one: Listed, where: Here) -> Iterator[Review]:
    """Hold a session and open it; let go at the end."""
    with held(one) as session, closing(open_review(session, where.environ)) as review:
        yield review


@contextmanager
def looked_at(one: Listed, where: Here) -> Iterator[Review]:
    """Hold a session only until it is opened: a pager that shows it keeps nobody out. What is merged meanwhile is gone then."""
    with held(one) as session:
        review = open_review(session, where.environ)
    with closing(review):
        yield review
