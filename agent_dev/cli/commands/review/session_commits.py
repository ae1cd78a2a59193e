"""Read a session's commits for subcommands that print or import them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from agent_dev.agent_git import current_refs
from agent_dev.cli.console import warn
from agent_dev.errors import CommandFailed, UnreadableSession
from agent_dev.merge.review import Review
from agent_dev.session.sessions import CommandContext

if TYPE_CHECKING:
    from agent_dev.commits.gitlinks import SubmoduleChange
    from agent_dev.git.formats.commit_format import Commit

T = TypeVar("T")


def retry_if_running(review: Review, read: Callable[[], T]) -> T:
    """Return the result of `read`; retry while the agent changes the files that it reads."""
    if not review.is_running:
        return read()
    from agent_dev.merge import running_session  # rare

    return running_session.retry_while_changing(review.session, read)


def read_commits(review: Review, context: CommandContext) -> "tuple[Commit, ...]":
    """Return a session's commits; if git cannot read them, report that and return none."""
    try:
        return retry_if_running(review, lambda: _list_commits(review, context))
    except (CommandFailed, UnreadableSession) as error:
        warn(f"cannot read the session's commits: {error.message}")
        return ()


def _list_commits(review: Review, context: CommandContext) -> "tuple[Commit, ...]":
    if not current_refs.have_moved(review.session, review.record, context.environ):
        return ()
    from agent_dev.agent_git import commits  # few sessions have any, and the import takes as long as 1,000 changes

    return commits.list_session_commits(review.session, review.record, context.environ, without_imported=True)


def read_submodule_changes(
    review: Review, context: CommandContext, session_commits: "tuple[Commit, ...]"
) -> "tuple[SubmoduleChange, ...]":
    """Return the submodule changes of commits; if git cannot read them, report that and return none."""
    ids = [one.id for one in session_commits]
    if not ids:
        return ()
    from agent_dev.commits import gitlinks  # few sessions have commits

    try:
        return retry_if_running(
            review, lambda: gitlinks.find_session_submodules(review.session, review.record, ids, context.environ)
        )
    except (CommandFailed, UnreadableSession) as error:
        warn(f"cannot read the submodule changes of its commits: {error.message}")
        return ()
