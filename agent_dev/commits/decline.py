"""Decline commits of a session. A merge without files and refs records it, so that it can be undone."""

from collections.abc import Sequence
from typing import assert_never

from agent_dev.agent_git import commits, program
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.commits.selected_commits import SelectedCommits, select_commits
from agent_dev.commits.targets import AgentBranch, ImportOptions, PickedCommits
from agent_dev.errors import CannotImport
from agent_dev.git.formats.commit_format import Commit
from agent_dev.git.updates import GitUpdate
from agent_dev.git.user_refs import UserGit
from agent_dev.merge import merge
from agent_dev.merge.merge import CommitImport, Notify, RepositoryUpdate
from agent_dev.merge.review import Review
from agent_dev.merge_engine import merge_plan
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store

_MAX_REACHED = 100_000


@dataclass(frozen=True, slots=True)
class DeclinedCommits:
    """The commits of one repository that were declined, newest first."""

    path: str
    commits: tuple[Commit, ...]


@dataclass(frozen=True, slots=True)
class DeclineResult:
    """The result: the merge that recorded it, and whether the session holds nothing else."""

    session: str
    merge: str
    repositories: tuple[DeclinedCommits, ...]
    is_session_empty: bool


def decline_commits(review: Review, args: Sequence[str], state_store: store.Store, notice: Notify) -> DeclineResult:
    """Decline commits in all repositories. `args`: as the values of --commits, but "" stands for all commits.

    Raises UsageError for a value that no repository has, CannotImport if nothing is left to decline, CommandFailed, CannotMerge.
    """
    sources = list_repositories(review.session, review.record)
    found = {source.root: commits.list_undecided(source, review.environ) for source in sources}
    if any(args):
        selected = select_commits(review, ImportOptions(tuple(args)))
        wanted = {one.source.root: _selected_ids(one, review) for one in selected}
        found = {root: tuple(one for one in found[root] if one.id in ids) for root, ids in wanted.items()}
    declined = [(source, found[source.root]) for source in sources if found.get(source.root)]
    if not declined:
        raise CannotImport(
            message="no commits to decline: each is imported, declined or yours", hint="list the commits: agent-dev commits"
        )
    updates = tuple(_update(review, source, tuple(one.id for one in some)) for source, some in declined)
    merged = merge.import_commits(review, CommitImport(updates, merge_plan.join_plans(()), {}), state_store, notice)
    parts = tuple(DeclinedCommits(source.path, some) for source, some in declined)
    return DeclineResult(review.session.id, merged.id, parts, merged.is_session_empty)


def _selected_ids(selected: SelectedCommits, review: Review) -> frozenset[str]:
    """Return the commits that values of --commits name in one repository."""
    match selected.selection:
        case AgentBranch(_, tip, _):
            at_start = tuple(value for value in selected.before.values() if value and not value.startswith("ref:"))
            single, ranges = frozenset[str](), [(tip, at_start)]
        case PickedCommits(items):
            single = frozenset(item for item in items if isinstance(item, str))
            ranges = [(item[1], (item[0],)) for item in items if not isinstance(item, str)]
        case _:
            assert_never(selected.selection)
    with commits.open_agent_objects(selected.source, review.environ) as repo:
        return single.union(*(commits.list_reachable(repo, (end,), old, _MAX_REACHED) for end, old in ranges))


def _update(review: Review, source: AgentRepository, ids: tuple[str, ...]) -> RepositoryUpdate:
    user = UserGit(source.folder, program.find_git(source.record, review.environ), review.environ)
    git = GitUpdate(user.folder, user.program, user.environ, (), root=source.root, declined_commits=ids)
    return RepositoryUpdate(git, copy_objects=lambda: None)
