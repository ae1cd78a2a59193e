"""Read a session's commits for subcommands that print or import them."""

from collections.abc import Callable
from typing import TypeVar

from agent_dev.agent_git import commits
from agent_dev.cli.console import warn
from agent_dev.commits import gitlinks
from agent_dev.commits.gitlinks import SubmoduleChange
from agent_dev.errors import CommandFailed, UnreadableSession
from agent_dev.git.formats.commit_format import Commit
from agent_dev.merge.review import Review
from agent_dev.session.sessions import CommandContext

T = TypeVar("T")


def retry_if_running(review: Review, read: Callable[[], T]) -> T:
    """Return the result of `read`; retry while the agent changes the files that it reads."""
    if not review.is_running:
        return read()
    from agent_dev.merge import running_session  # rare

    return running_session.retry_while_changing(review.session, read)


def read_commits(review: Review, context: CommandContext) -> tuple[Commit, ...]:
    """Return a session's commits; if git cannot read them, report that and return none."""
    try:
        return retry_if_running(
            review, lambda: commits.list_session_commits(review.session, review.record, context.environ, without_imported=True)
        )
    except (CommandFailed, UnreadableSession) as error:
        warn(f"cannot read the session's commits: {error.message}")
        return ()


def read_submodule_changes(
    review: Review, context: CommandContext, session_commits: tuple[Commit, ...]
) -> tuple[SubmoduleChange, ...]:
    """Return the submodule changes of commits; if git cannot read them, report that and return none."""
    ids = [one.id for one in session_commits]
    try:
        return retry_if_running(
            review, lambda: gitlinks.find_session_submodules(review.session, review.record, ids, context.environ)
        )
    except (CommandFailed, UnreadableSession) as error:
        warn(f"cannot read the submodule changes of its commits: {error.message}")
        return ()
