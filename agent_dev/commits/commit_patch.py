"""Patches of commits against their first parents, made by git in a repository with only the agent's objects."""

from collections.abc import Iterator, Sequence

from agent_dev.commits.prefetch import RunningQueries
from agent_dev.errors import CommandFailed
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.commit_format import ParsedCommit

_MAX_SIZE = 1 << 28  # bytes
_OPTIONS = ("-p", "-r", "--root", "--full-index", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--no-color")


def read_patch(
    repo: BareRepository, commit: ParsedCommit, similarity: int, max_size: int = _MAX_SIZE, *, with_binary: bool = False
) -> bytes:
    """Return the patch of a commit; for a merge commit, the changes against its first parent.

    `similarity`: of renamed files, in percent; 0: no file is renamed. `with_binary`: include the bytes of binary files. Raises
    CommandFailed for a patch of more than `max_size` bytes and for damaged objects.
    """
    return diff_commits(repo, (*commit.parents[:1], commit.id), (), similarity, max_size, with_binary=with_binary)


def diff_commits(
    repo: BareRepository,
    ids: Sequence[str],
    paths: Sequence[str],
    similarity: int,
    max_size: int = _MAX_SIZE,
    *,
    with_binary: bool = True,
) -> bytes:
    """Return the patch between two commits, or of a commit without parents, limited to `paths` (none: all).

    Raises CommandFailed as `read_patch` does.
    """
    renames = f"-M{similarity}%" if similarity else "--no-renames"
    options = (*_OPTIONS, renames, *(["--binary"] if with_binary else []))
    with repo.start("diff-tree", *options, *ids, "--", *paths, max_size=max_size) as finish:
        code, output, reason = finish()
    if code:
        raise CommandFailed(program="git diff-tree", reason=reason)
    return output


def resolve_commit(queries: RunningQueries, revision: str) -> str:
    """Return the id of a commit by the start of its id, or of the agent's HEAD; "" if there is none or more than one."""
    if revision == "HEAD":
        return queries.head_commit
    code, output, _ = queries.repo.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
    return "" if code else output.decode().strip()


def read_patches(queries: RunningQueries, wanted: str = "") -> Iterator[tuple[ParsedCommit, bytes]]:
    """Yield the session's commits with their patches, the newest first; `wanted`: only ids that start with this."""
    for commit in queries.finish_read().commits:
        if commit.id.startswith(wanted):
            yield commit, read_patch(queries.repo, commit, queries.rename_similarity, with_binary=True)
