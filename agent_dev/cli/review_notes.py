"""Notes in a review: work trees of the agent, and files that other open sessions of the repository have changed, too."""

from collections.abc import Sequence
from dataclasses import replace

from agent_dev.agent_git import work_trees
from agent_dev.cli.render.format import format_names
from agent_dev.errors import AgentDevError
from agent_dev.linux import users
from agent_dev.merge.review import Review
from agent_dev.overlay.labels import format_count
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession

_FEW = 5  # files that are named


def add_review_notes(review: Review, context: CommandContext) -> None:
    """Add a note for each work tree and for each of the first files that other sessions have changed, and one about the rest.

    For an imported session, also one for each kind of content that its bundle does not have.
    """
    roots, notes = review.record["roots"], work_tree_lines(review.session, review.record, context.environ)
    if imported := review.record.get("imported"):
        notes += tuple(f"not in the bundle: {text}" for text in imported["left_out"])
    listed = [one for one in sessions.list_sessions(context.store) if not one.problem]
    found = [one for one in listed if any(store.has_root(one.record, root) for root in roots)]
    if sum(one.state in sessions.OPEN for one in found) > 1:
        notes += shared_notes(found, review.session.id, context.environ)
    if notes:
        review.changes = replace(review.changes, notes=(*review.changes.notes, *notes))


def work_tree_lines(session: store.Session, record: store.Record, environ: dict[str, str]) -> tuple[str, ...]:
    """Return a line for each work tree that the agent of a session made with git; none if they cannot be read."""
    try:
        found = work_trees.find_work_trees(session, record, users.home_directory(environ), environ)
    except (AgentDevError, OSError):
        return ()
    name = str(record.get("name") or session.id)
    return tuple(
        f"the agent made a work tree: {one.path_in(record['root'])} (agent-dev worktrees {name})" for one in found[:_FEW]
    )


def shared_notes(found: Sequence[ListedSession], session: str, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the notes of one session, which is compared with the newest others."""
    from agent_dev.session import shared_changes  # most repositories have one open session

    names = {one.session.id: one.name for one in found}
    root = next((str(one.record["root"]) for one in found if one.session.id == session), "")
    others = [one for one in found if one.session.id != session and one.state in sessions.OPEN]
    newest = others[1 - shared_changes.MAX_SESSIONS :]
    compared = (*newest, *(one for one in found if one.session.id == session))
    shared = shared_changes.others_by_path(shared_changes.find_shared_changes(compared, environ), session)
    lines = [
        f"{path.removeprefix(f'{root}/')} is also changed by {format_names([names[other] for other in those])}"
        for path, those in shared.items()
    ]
    rest = len(lines) - _FEW
    more = (f"{format_count(rest, 'more file')} also changed by other sessions (agent-dev sessions --json)",) if rest > 0 else ()
    bound = (f"compared only with the newest {len(newest)} of {len(others)} other sessions",) if len(newest) < len(others) else ()
    return (*lines[:_FEW], *more, *bound)
