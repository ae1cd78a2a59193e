"""A session held for as long as a word needs it, and which one is meant where its commits are."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_dev.errors import NoSession
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Here, Listed


@contextmanager
def held(one: Listed) -> Iterator[store.Session]:
    """Hold a session; let go at the end."""
    session = sessions.hold(one).session
    try:
        yield session
    finally:
        store.let_go(session)


def with_commits(name: str, where: Here) -> Listed:
    """Return the session whose commits are meant: where none waits, the newest whose files came home already."""
    try:
        return sessions.find(where, name, sessions.OPEN)
    except NoSession:
        return sessions.find(where, name, (store.MERGED,))
