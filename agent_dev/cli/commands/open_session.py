"""Lock a session for a subcommand; find the session for a subcommand about commits."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_dev.errors import NoSession
from agent_dev.merge import session_access
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession


@contextmanager
def locked_session(one: ListedSession) -> Iterator[store.Session]:
    """Lock a session; unlock it at the end."""
    session = session_access.lock_ended(one).session
    try:
        yield session
    finally:
        store.unlock_session(session)


def find_with_commits(name: str, context: CommandContext) -> ListedSession:
    """Return the session for a subcommand about commits: an open one, else the newest merged one."""
    try:
        return sessions.find_session(context, name, sessions.OPEN)
    except NoSession:
        return sessions.find_session(context, name, (store.MERGED,))
