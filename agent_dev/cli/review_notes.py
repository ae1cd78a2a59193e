"""Notes in a review: work trees of the agent, and files that other open sessions of the repository have changed, too."""

from collections.abc import Sequence

from agent_dev.agent_git import refs, work_trees
from agent_dev.agent_git.unlisted_work import describe_all
from agent_dev.cli.render.format import format_names
from agent_dev.errors import AgentDevError
from agent_dev.linux import users
from agent_dev.merge.review import Review
from agent_dev.overlay.labels import format_count
from agent_dev.quick_dataclass import replace
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession

_FEW = 5  # files that are named


def add_review_notes(review: Review, context: CommandContext) -> None:
    """Add a note for each work tree and for each of the first files that other sessions have changed, and one about the rest.

    For an imported session, also one for each kind of content that its bundle does not have.
    """
    roots, notes = review.record["roots"], git_lines(review.session, review.record, context.environ)
    if imported := review.record.get("imported"):
        notes += tuple(f"not in the bundle: {text}" for text in imported["left_out"])
    own = ListedSession(review.session, review.record, str(review.record["state"]))
    if own.state in sessions.OPEN:
        others = [one for one in _newest_sessions(context, roots) if one.session.id != own.session.id]
        notes += shared_notes(own, others, context.environ) if others else ()
    if notes:
        review.changes = replace(review.changes, notes=(*review.changes.notes, *notes))


def git_lines(session: store.Session, record: store.Record, environ: dict[str, str]) -> tuple[str, ...]:
    """Return a line for each work tree that the agent of a session made with git, and for unlisted work in git directories."""
    lines = _work_tree_lines(session, record, environ)
    if not refs.may_have_commits(session, record):
        return lines
    from agent_dev.agent_git import read_unlisted  # few agents commit

    found = read_unlisted.find_in_session(session, record, environ)
    return (*lines, *describe_all(found[:_FEW], record, session))


def _work_tree_lines(session: store.Session, record: store.Record, environ: dict[str, str]) -> tuple[str, ...]:
    """Return a line for each work tree that the agent of a session made with git; none if they cannot be read."""
    try:
        found = work_trees.find_work_trees(session, record, users.home_directory(environ), environ)
    except (AgentDevError, OSError):
        return ()
    name = str(record.get("name") or session.id)
    return tuple(
        f"the agent made a work tree: {one.path_in(record['root'])} (agent-dev worktrees {name})" for one in found[:_FEW]
    )


def _newest_sessions(context: CommandContext, roots: Sequence[str]) -> Sequence[ListedSession]:
    """Return the newest open sessions: as many as can be compared, one that cannot, and one that may be the compared one."""
    return sessions.newest_sessions(context.store, roots, sessions.OPEN, store.NEWEST + 1)


def shared_notes(own: ListedSession, others: Sequence[ListedSession], environ: dict[str, str]) -> tuple[str, ...]:
    """Return the notes of one session, which is compared with the newest others."""
    from agent_dev.session import shared_changes  # most repositories have one open session

    newest = others[1 - store.NEWEST :]
    names, top = {one.session.id: one.name for one in newest}, f"{own.record['root']}/"
    shared = shared_changes.others_by_path(shared_changes.find_shared_changes((*newest, own), environ), own.session.id)
    lines = [
        f"{path.removeprefix(top)} is also changed by {format_names([names[other] for other in those])}"
        for path, those in shared.items()
    ]
    rest = len(lines) - _FEW
    more = (f"{format_count(rest, 'more file')} also changed by other sessions (agent-dev sessions --json)",) if rest > 0 else ()
    bound = (f"compared only with the newest {len(newest)} of the other sessions",) if len(newest) < len(others) else ()
    return (*lines[:_FEW], *more, *bound)
