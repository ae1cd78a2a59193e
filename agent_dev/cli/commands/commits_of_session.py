"""A session's commits for a word that tells of them, or brings them home."""

from agent_dev.cli.main import say
from agent_dev.commits import submodules as pointers
from agent_dev.commits.agent_git import commits
from agent_dev.commits.submodules import Pointer
from agent_dev.errors import CommandFailed
from agent_dev.git.formats.commit_format import Commit
from agent_dev.merge.review import Review
from agent_dev.session.sessions import Here


def commits_of(review: Review, where: Here) -> tuple[Commit, ...]:
    """Return a session's commits; when git cannot read them that is said, and hides nothing else."""
    try:
        return commits.made(review.session, review.record, where.environ)
    except CommandFailed as error:
        say(f"its commits cannot be read: {error.message}")
        return ()


def pointers_of(review: Review, where: Here, made: tuple[Commit, ...]) -> tuple[Pointer, ...]:
    """Return the submodules that commits moved; as in `commits_of` where git cannot read them."""
    try:
        return pointers.of_session(review.session, review.record, [one.id for one in made], where.environ)
    except CommandFailed as error:
        say(f"what its commits did to submodules cannot be read: {error.message}")
        return ()
