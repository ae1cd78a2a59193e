"""Finish a session after its sandbox has ended: remove it if nothing changed, otherwise keep it for the review."""

import os
import time
from collections.abc import Callable

from agent_dev.agent_git import commits, current_refs, read_unlisted, refs, unlisted_work
from agent_dev.agent_git.repositories import list_repositories
from agent_dev.errors import AgentDevError
from agent_dev.merge.review import ReviewFindings, open_review
from agent_dev.overlay import lower_snapshot_process
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session import removal, store


@dataclass(frozen=True, slots=True)
class KeptContents:
    """The contents of a finished session; all 0: it was removed."""

    changes: int
    commits: int
    refs: int  # branches and tags that were created, moved or deleted
    notice: str = ""  # the notice for a session that only has checkpoints
    review_cache: ReviewFindings | None = None  # its changes, for the next opening


def finish_session(
    session: store.Session,
    record: store.Record,
    snapshot_pid: int,
    code: int,
    environ: dict[str, str],
    remains: Callable[[], str],
) -> KeptContents:
    """Finish an ended session. `snapshot_pid`: the process that takes the lower snapshot.

    A session whose changes were all undone at its end is kept, and so is one with a notice from `remains`: its checkpoints still
    hold its changes.
    """
    lower_snapshot_process.wait_for(snapshot_pid)
    removal.remove_work_directories(session)
    store.write_record(session, {**record, "state": store.WAITING, "exit": code, "ended": time.time_ns()}, is_durable=True)
    store.sync_record(session)
    contents = _count(session, record, environ)
    if not (contents.changes or contents.commits or contents.refs or record.get("undone")):
        contents = replace(contents, notice=remains() or _unlisted_notice(session, record, environ))
        if not contents.notice and has_merge(session):  # an undo restores its changes to the session
            store.write_record(session, {**store.read_record(session), "state": store.MERGED}, is_durable=True)
        elif not contents.notice:
            removal.remove_session_now(session)
    return contents


def _unlisted_notice(session: store.Session, record: store.Record, environ: dict[str, str]) -> str:
    """Return the notice for a session whose only work is in submodules or reflogs; "" for none."""
    found = read_unlisted.find_in_session(session, record, environ)
    return "\n".join(unlisted_work.describe_all(found, record, session))


def has_merge(session: store.Session) -> bool:
    """Return whether a merge of the session exists, which an undo needs the session for."""
    merges = f"{os.path.dirname(os.path.dirname(session.folder))}/merges"
    try:
        return any(name.rpartition(".")[0] == session.id for name in os.listdir(merges))
    except FileNotFoundError:
        return False


def _count(session: store.Session, record: store.Record, environ: dict[str, str]) -> KeptContents:
    """Count what a session holds; one that cannot be read counts as one change, so that it is kept."""
    moved_refs = _count_moved_refs(session, record, environ)
    try:
        review = open_review(session, environ, with_risks=False)
        changes, seen = len(review.folded.changes) + len(review.changes.problems), review.findings()
        review.close()
    except AgentDevError:
        return KeptContents(1, 0, moved_refs)
    try:
        commit_count = (
            len(commits.list_session_commits(session, record, environ)) if refs.have_refs_changed(session, record) else 0
        )
    except AgentDevError:
        return KeptContents(changes, 0, moved_refs or 1, review_cache=seen)  # unreadable HEAD: kept
    return KeptContents(changes, commit_count, moved_refs, review_cache=seen)


def _count_moved_refs(session: store.Session, record: store.Record, environ: dict[str, str]) -> int:
    try:
        return sum(len(current_refs.list_changed_refs(one, environ)) for one in list_repositories(session, record))
    except AgentDevError:
        return 1  # unreadable refs: the session is kept and reports it when opened
