"""The result of an import of commits, as a value."""

from agent_dev.commits.lfs_and_submodules import SubmoduleImport
from agent_dev.commits.merge_conflicts import ConflictDetails
from agent_dev.commits.risks import RiskyFile
from agent_dev.errors import CannotImport, CommitsAlreadyKept
from agent_dev.fs.entry import Key
from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ImportedCommits:
    """The commits that were imported into one repository. `path`: of its work tree; `commits`: the oldest first.

    `reason`: why the request was not fulfilled, with a command to run.
    """

    path: str
    ref: str
    before: str
    after: str
    commits: tuple[ParsedCommit, ...] = ()
    reason: str = ""
    next_command: str = ""
    lfs_count: int = 0  # number of imported LFS contents
    refused_lfs: tuple[str, ...] = ()  # LFS contents that do not match their ids
    submodules: tuple[SubmoduleImport, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import. `merge`: the merge's id, "" if nothing was imported; `roots`: the paths of the session's roots.

    `conflicts`: paths in conflict, with reasons; `conflict_root`: the path of the root that they are in. `failure`: why nothing
    was imported; `failure_command`: a command to run then. `risky`: files that need a review first. `resolvable`: conflicts that
    can be resolved, and `subject`: the subject of their commit. `merged_files`: files whose uncommitted changes were merged with
    the commits.
    """

    session: str
    merge: str = ""
    roots: tuple[str, ...] = ()
    repositories: tuple[ImportedCommits, ...] = ()
    applied: tuple[Key, ...] = ()
    conflicts: tuple[SkippedChange, ...] = ()
    conflict_root: str = ""
    risky: tuple[RiskyFile, ...] = ()
    failure: str = ""
    failure_command: str = ""
    resolvable: tuple[ConflictDetails, ...] = ()
    subject: str = ""
    merged_files: tuple[Key, ...] = ()
    not_updated: tuple[SkippedChange, ...] = ()  # files that differ from the commits, and why
    split_links: tuple[Key, ...] = ()  # files with further hard links, which keep the old content

    @property
    def reason(self) -> str:
        """Why the request was not fulfilled, entirely or in the first repository where it was not; "" if it was."""
        return self.failure or next((one.reason for one in self.repositories if one.reason), "")

    @property
    def next_command(self) -> str:
        """A command to run if the request was not fulfilled."""
        return self.failure_command or next((one.next_command for one in self.repositories if one.next_command), "")

    @property
    def commits(self) -> tuple[ParsedCommit, ...]:
        """The commits of all repositories."""
        return tuple(commit for one in self.repositories for commit in one.commits)

    @property
    def lfs_count(self) -> int:
        """The number of imported LFS contents."""
        return sum(one.lfs_count for one in self.repositories)

    @property
    def refused_lfs(self) -> tuple[str, ...]:
        """The LFS contents that do not match their ids."""
        return tuple(oid for one in self.repositories for oid in one.refused_lfs)

    @property
    def submodules(self) -> tuple[SubmoduleImport, ...]:
        """The commits of submodules in all repositories."""
        return tuple(found for one in self.repositories for found in one.submodules)

    @property
    def ref(self) -> str:
        """The updated ref of the first repository, "" for none."""
        return self.repositories[0].ref if self.repositories else ""

    @property
    def before(self) -> str:
        """Its commit before the import."""
        return self.repositories[0].before if self.repositories else ""

    @property
    def after(self) -> str:
        """Its commit after the import."""
        return self.repositories[0].after if self.repositories else ""


def describe_failure(error: CannotImport, session: str) -> ImportResult:
    """Return the result of an import that changed nothing; its ref is one that has the commits already."""
    kept: tuple[ImportedCommits, ...] = ()
    if isinstance(error, CommitsAlreadyKept):
        ref, path, commit = (str(error.values[name]) for name in ("ref", "path", "commit"))
        kept = (ImportedCommits(path, ref, commit, commit, reason=error.message, next_command=error.hint),)
    return ImportResult(session, repositories=kept, failure=error.message, failure_command=error.hint)
