"""What happens to a session when its sandbox is gone: dropped when nothing changed, else made to wait for the user."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_dev.commits.agent_git import commits, refs
from agent_dev.errors import AgentDevError
from agent_dev.merge.review import open_review
from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.session import removal as ended
from agent_dev.session import store


@dataclass(frozen=True, slots=True)
class Held:
    """How much a settled session holds; all 0: it was dropped."""

    changes: int
    commits: int
    refs: int  # branches and tags that were made, moved or removed
    remains: str = ""  # what to say when it holds nothing but checkpoints of what it held


def settle(
    session: store.Session, record: store.Record, base: int, code: int, environ: dict[str, str], remains: Callable[[], str]
) -> Held:
    """Settle an ended session. `base` is the pid of what takes its base.

    One of which all was undone at its end is kept, and so is one of which `remains` has something to say: its checkpoints hold
    what was there.
    """
    base_take.wait_for(base)
    ended.drop_scaffold(session)
    store.write(session, {**record, "state": store.WAITING, "exit": code, "ended": time.time_ns()}, is_durable=True)
    store.settle(session)
    held = _count(session, record, environ)
    if not (held.changes or held.commits or held.refs or record.get("undone")):
        held = replace(held, remains=remains())
        if not held.remains:
            ended.drop(session)
    return held


def _count(session: store.Session, record: store.Record, environ: dict[str, str]) -> Held:
    """Count what came of a session; one that cannot be read counts as one change, so that it is kept and shown."""
    moved = _moved(session, record, environ)
    try:
        review = open_review(session, environ)
        changes = len(review.changes.changes) + len(review.changes.problems)
        review.close()
    except AgentDevError:
        return Held(1, 0, moved)
    try:
        made = len(commits.made(session, record, environ)) if refs.has_moved(session, record) else 0
    except AgentDevError:
        return Held(changes, 0, moved or 1)  # whatever HEAD leads to: kept, until git can say what it is
    return Held(changes, made, moved)


def _moved(session: store.Session, record: store.Record, environ: dict[str, str]) -> int:
    try:
        return len(refs.moved(session, record, environ))
    except AgentDevError:
        return 1  # what they are cannot be read here: the session is kept, and says so when it is asked
