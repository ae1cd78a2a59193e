"""Lock a session for a subcommand; find the session for a subcommand about commits."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_dev.cli.console import notify
from agent_dev.errors import NoSession, SessionBusy
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


@contextmanager
def locked_if_free(one: ListedSession) -> Iterator[store.Session | None]:
    """Lock a session, or yield None, with a notice, if it is running or open elsewhere: then only a snapshot can be read."""
    try:
        session = session_access.lock_ended(one).session if one.state != store.RUNNING else None
    except SessionBusy as busy:
        notify(f"{busy.message}; this is a snapshot")
        yield None
        return
    if session is None:
        notify(f"session {one.name} is still running; this is a snapshot")
        yield None
        return
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
