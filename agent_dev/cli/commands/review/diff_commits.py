"""`diff COMMIT` and `diff A..B`: the patch of one of an agent's commits, or between two commits."""

import argparse
import re
from collections.abc import Sequence

from agent_dev.cli.commands.open_session import locked_session
from agent_dev.cli.parser import relative_to_root
from agent_dev.cli.render import pager
from agent_dev.commits.commit_patch import diff_commits, resolve_commit
from agent_dev.commits.prefetch import RunningQueries, start_queries
from agent_dev.errors import UsageError
from agent_dev.merge import running_session
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, ListedSession

REVISIONS = re.compile(r"[0-9a-f]{4,64}|(?:[0-9a-f]{4,64}|HEAD)\.\.(?:[0-9a-f]{4,64}|HEAD|)")

_GIT_REVISIONS = re.compile(r"HEAD(?:[~^]\d*)*|.+[~^]\d+|[^/.].*\.\..*")  # also branches


def refuse_revisions(word: str) -> None:
    """Raise UsageError for an argument that is no changed path and names commits in a way that only git understands."""
    if _GIT_REVISIONS.fullmatch(word):
        message = f"{word}: commits are named by their ids, in A..B also by HEAD"
        raise UsageError(message=message, hint="agent-dev commits lists them")


def print_commit_diff(one: ListedSession, names: Sequence[str], context: CommandContext, args: argparse.Namespace) -> None:
    """Print the patch of a session's commits; `names`: the commits, as one word, and paths. Raises UsageError, CommandFailed."""
    word = names[0]
    paths = [relative_to_root(path, context, one) for path in names[1:]]
    if args.stat or args.hunks:
        raise UsageError(message="--stat and --hunks do not apply to commits", hint=f"agent-dev diff {word}")

    def read() -> bytes:
        with start_queries(one.session, store.read_record(one.session), context.environ) as queries:
            if not queries:
                raise UsageError(message="the session has no git repository", hint="agent-dev diff")
            return _read_diff(_find_repository(queries, word), word, paths)

    if one.state == store.RUNNING:
        patch = running_session.retry_while_changing(one.session, read)
    else:
        with locked_session(one):
            patch = read()
    with pager.open_output(context.environ, args.color, has_pager=not args.no_pager) as shown:
        pager.write_patch(patch, shown)


def _find_repository(queries: Sequence[RunningQueries], word: str) -> RunningQueries:
    """Return the repository that has the commits, else the first one."""
    first = word.partition("..")[0]
    return next((one for one in queries if len(queries) > 1 and resolve_commit(one, first)), queries[0])


def _read_diff(queries: RunningQueries, word: str, paths: Sequence[str]) -> bytes:
    first, separator, second = word.partition("..")
    if separator:
        ends = _resolve(queries, first), _resolve(queries, second or "HEAD")
        return diff_commits(queries.repo, ends, paths, queries.rename_similarity)
    found = [commit for commit in queries.finish_read().commits if commit.id.startswith(first)]
    if len(found) != 1:
        reason = f"{len(found)} commits start with {first}" if found else f"the session has no commit {first}"
        raise UsageError(message=reason, hint="agent-dev commits lists them")
    return diff_commits(queries.repo, (*found[0].parents[:1], found[0].id), paths, queries.rename_similarity)


def _resolve(queries: RunningQueries, revision: str) -> str:
    found = resolve_commit(queries, revision)
    if not found:
        message = f"{revision} is not a commit of the session or the repository"
        raise UsageError(message=message, hint="agent-dev commits lists them")
    return found
