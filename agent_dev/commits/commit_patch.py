"""Patches of commits against their first parents, by git in a repository that has only the agent's objects."""

from collections.abc import Iterator

from agent_dev.commits.prefetch import RunningQueries
from agent_dev.errors import CommandFailed
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.commit_format import ParsedCommit

_OPTIONS = ("-p", "-r", "--root", "-M", "--full-index", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--no-color")


def read_patch(repo: BareRepository, commit: ParsedCommit, max_size: int = 1 << 28, *, with_binary: bool = False) -> bytes:
    """Return the patch of a commit; of a merge commit the changes against its first parent.

    `with_binary`: include the bytes of binary files. Raises CommandFailed for a patch of more than `max_size` bytes and for
    damaged objects.
    """
    options = (*_OPTIONS, "--binary") if with_binary else _OPTIONS
    with repo.start("diff-tree", *options, *commit.parents[:1], commit.id, max_size=max_size) as finish:
        code, output, reason = finish()
    if code:
        raise CommandFailed(program="git diff-tree", reason=reason)
    return output


def read_patches(queries: RunningQueries, wanted: str = "") -> Iterator[tuple[ParsedCommit, bytes]]:
    """Yield the session's commits with their patches, the newest first; `wanted`: only ids that start with this."""
    for commit in queries.finish_read().commits:
        if commit.id.startswith(wanted):
            yield commit, read_patch(queries.repo, commit, with_binary=True)
