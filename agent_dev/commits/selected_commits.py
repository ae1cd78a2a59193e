"""The commits that the options of an import select, in each repository of a session."""

from agent_dev.agent_git import commits, current_refs, refs
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.commits import targets
from agent_dev.commits.targets import AgentBranch, ImportOptions, PickedCommits
from agent_dev.errors import CannotImport, UsageError
from agent_dev.merge.review import Review
from agent_dev.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SelectedCommits:
    """The selected commits of one repository. `args`: the values of --commits that name them; `before`: its refs at the start."""

    source: AgentRepository
    args: tuple[str, ...]
    selection: AgentBranch | PickedCommits
    before: dict[str, str]

    @property
    def tips(self) -> tuple[str, ...]:
        """The commits from which all selected ones can be reached."""
        if isinstance(self.selection, AgentBranch):
            return (self.selection.tip,)
        return tuple(item if isinstance(item, str) else item[1] for item in self.selection.items)


def select_commits(review: Review, options: ImportOptions) -> tuple[SelectedCommits, ...]:
    """Return the selected commits by repository. Raises UsageError for a value that no repository has, CannotImport."""
    sources = list_repositories(review.session, review.record)
    if not sources:
        raise CannotImport(message="the session has no git directory and no commits", hint="to apply its files: agent-dev merge")
    values = [_RepositoryValues(source, review.environ) for source in sources]
    if options.args_by_root:
        wanted = [(one, options.args_by_root[one.source.root]) for one in values if one.source.root in options.args_by_root]
    elif len(values) == 1:
        wanted = [(values[0], options.commit_args)]
    else:
        wanted = _by_repository(values, options.commit_args)
    return tuple(one.select(args) for one, args in wanted)


class _RepositoryValues:
    """The refs and commits of a repository that values of --commits may name."""

    def __init__(self, source: AgentRepository, environ: dict[str, str]) -> None:
        self.source, self._environ = source, environ
        self.before, self.after = refs.read_initial_refs(source), current_refs.read_refs(source, environ)
        self._commits: list[str] | None = None

    def select(self, args: tuple[str, ...]) -> SelectedCommits:
        """Return the selected commits. Raises UsageError for a value that the repository does not have."""
        return SelectedCommits(self.source, args, self._parse(args), self.before)

    def has(self, value: str) -> bool:
        """Return whether a value names commits of this repository that are new."""
        try:
            found = self._parse((value,))
        except UsageError:
            return False
        return isinstance(found, PickedCommits) or found.tip != found.before

    def has_commits_left(self) -> bool:
        """Return whether it has commits that were neither imported nor declined."""
        return bool(commits.list_undecided(self.source, self._environ))

    def _parse(self, args: tuple[str, ...]) -> AgentBranch | PickedCommits:
        return targets.parse_commit_args(args, self.before, self.after, self._commit_ids() if any(args) else ())

    def _commit_ids(self) -> list[str]:
        if self._commits is None:
            self._commits = [one.id for one in commits.list_commits(self.source, self._environ)]
        return self._commits


def _by_repository(values: list[_RepositoryValues], args: tuple[str, ...]) -> list[tuple[_RepositoryValues, tuple[str, ...]]]:
    """Return the values by the repositories that have them: a branch may be in several. Raises UsageError.

    Repositories with nothing left to import are skipped, unless none has anything: then the first one says why.
    """
    found = [(one, tuple(arg for arg in args if one.has(arg))) for one in values]
    unknown = [arg for arg in args if not any(arg in own for _, own in found)]
    if unknown:
        return [(values[0], (unknown[0],))]
    found = [(one, own) for one, own in found if own]
    return [(one, own) for one, own in found if one.has_commits_left()] or found[:1]
