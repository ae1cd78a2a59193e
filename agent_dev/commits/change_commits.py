"""The commit of each change: the last one on the agent's branch that changed its path; none if the file is uncommitted."""

from collections.abc import Iterable

from agent_dev.commits.prefetch import RunningQueries, start_queries
from agent_dev.commits.report import OverlayView, find_uncommitted
from agent_dev.errors import CommandFailed
from agent_dev.fs.entry import Key
from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.merge.review import Review

UNCOMMITTED = ""
_MAX_CHANGES = 2_000  # above this, no commits are searched: each file is compared with its last commit


def find_change_commits(review: Review) -> dict[Key, str]:
    """Return the commit of each change, `UNCOMMITTED` for none; nothing for ignored files, or if there are no commits."""
    if len(review.changes.changes) > _MAX_CHANGES:
        return {}
    try:
        with start_queries(review.session, review.record, review.environ) as queries:
            return {key: commit for one in queries for key, commit in _find(review, one).items()}
    except CommandFailed:
        return {}  # the agent deleted or damaged objects; the commits tab reports it


def _find(review: Review, queries: RunningQueries) -> dict[Key, str]:
    commits = queries.finish_read().commits
    if not commits:
        return {}
    moved = {file.path: file for file in queries.finish_diff()}
    uncommitted = frozenset(find_uncommitted(OverlayView(review, queries.source.root), queries, moved))
    last = last_commits(commits, queries.head_commit)
    found = {}
    for change in review.folded.changes:
        paths = [key.path for key in (change.key, change.renamed_from) if key is not None]
        if change.key.root != queries.source.root or change.is_ignored:
            continue
        known = (last[path] for path in paths if path in last)
        found[change.key] = UNCOMMITTED if not uncommitted.isdisjoint(paths) else next(known, UNCOMMITTED)
    return found


def last_commits(commits: Iterable[ParsedCommit], head: str) -> dict[bytes, str]:
    """Return the last commit of each path on the branch that ends at `head`. `commits`: newest first."""
    branch, found = {head}, dict[bytes, str]()
    for commit in commits:
        if commit.id in branch:
            branch.update(commit.parents)
            for file in commit.changed_files:
                found.setdefault(file.path, commit.id)
    return found
