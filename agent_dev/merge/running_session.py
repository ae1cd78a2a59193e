"""Review a running session without a lock: a snapshot read while the agent creates, changes and deletes files."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from agent_dev.errors import CommandFailed, MissingRoot, UnknownSession, UnreadableSession
from agent_dev.merge.review import Review, open_review
from agent_dev.overlay import lower_snapshot
from agent_dev.session import store

_TRIES = 10
_PAUSE = 0.05  # seconds between two tries
_PATIENCE = 3.0  # seconds to wait for the lower snapshot of a new session

T = TypeVar("T")


@contextmanager
def open_during(session: store.Session, environ: dict[str, str]) -> Iterator[Review]:
    """Open a running session for the duration of a with block, unassessed. Raises as `open_running`."""
    review = open_running(session, environ)
    try:
        yield review
    finally:
        review.close()


def open_running(session: store.Session, environ: dict[str, str]) -> Review:
    """Open a running session, unassessed. Raises UnreadableSession, or UnknownSession if it no longer exists."""
    _wait_for_base(session)
    return retry_while_changing(session, lambda: open_review(session, environ, with_risks=False, is_running=True))


def retry_while_changing(session: store.Session, read: Callable[[], T]) -> T:
    """Return the result of `read`; retry if the agent changes files during the read. Raises UnreadableSession."""
    reason = ""
    for _ in range(_TRIES):
        try:
            return read()
        except MissingRoot:
            raise
        except (OSError, UnreadableSession, CommandFailed) as error:
            reason = (error.strerror or "") if isinstance(error, OSError) else error.message
            if not os.path.isdir(session.folder):
                hint = "agent-dev sessions lists the sessions"
                raise UnknownSession(name=session.id, hint=hint) from None
        time.sleep(_PAUSE)
    name = store.session_name(session)
    raise UnreadableSession(session=name, reason=f"the agent keeps changing it ({reason})", hint="try again")


def _wait_for_base(session: store.Session) -> None:
    """Wait for the lower snapshot, which is taken just after the agent starts: without it every change is a conflict."""
    try:
        launched = store.read_record(session).get("launched", 0)
    except UnreadableSession:
        return  # opening it reports that
    lower_snapshot.wait_until_taken(session.lower_snapshot, launched, _PATIENCE)
