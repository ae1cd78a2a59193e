"""Submodules updated by a session's commits: old and new commit, and the log between."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_dev.agent_git import commits, program
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.agent_git.submodules import find_submodule_git_dirs
from agent_dev.git import bare, commit_reader
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.commit_format import Commit, ParsedCommit, parse_log
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store

GITLINK = 0o160000
_MAX_LOG = 20  # listed commits per submodule update


@dataclass(frozen=True, slots=True)
class SubmoduleChange:
    """A submodule updated by a commit. `log`: the new commits, newest first; None if its objects are missing."""

    commit: str
    path: bytes
    old: str
    new: str
    log: tuple[Commit, ...] | None


def find_submodule_changes(
    source: AgentRepository, session_commits: tuple[ParsedCommit, ...], environ: dict[str, str]
) -> tuple[SubmoduleChange, ...]:
    """Return the submodules that commits updated. Raises CommandFailed if git is missing."""
    links = [(one, file) for one in session_commits for file in one.changed_files if GITLINK in (file.old_mode, file.new_mode)]
    if not links:
        return ()
    with open_submodule_objects(source, environ) as repo:
        return tuple(
            SubmoduleChange(
                one.id,
                file.path,
                _commit_id(file.old_mode, file.old_oid),
                _commit_id(file.new_mode, file.new_oid),
                read_submodule_log(repo, file.old_oid, file.new_oid),
            )
            for one, file in links
        )


def find_updated_submodules(source: AgentRepository, ids: list[str], environ: dict[str, str]) -> tuple[SubmoduleChange, ...]:
    """Return the submodules that commits with these ids updated; none if the agent had no submodules. Raises CommandFailed."""
    if not ids or not find_submodule_git_dirs(source.private_dir):
        return ()
    with commits.open_agent_objects(source, environ) as repo:
        changed_commits = commit_reader.add_changed_files(repo, commit_reader.read_commits(repo, ids))
    return find_submodule_changes(source, changed_commits, environ)


def find_session_submodules(
    session: store.Session, record: store.Record, ids: list[str], environ: dict[str, str]
) -> tuple[SubmoduleChange, ...]:
    """Return the submodules that commits with these ids updated, in all repositories of a session. Raises CommandFailed."""
    found: list[SubmoduleChange] = []
    for source in list_repositories(session, record) if ids else ():
        known = {one.id for one in commits.list_commits(source, environ)}
        found += find_updated_submodules(source, [one for one in ids if one in known], environ)
    return tuple(found)


@contextmanager
def open_submodule_objects(
    source: AgentRepository, environ: dict[str, str], more: tuple[str, ...] = ()
) -> Iterator[BareRepository]:
    """Yield a repository with the objects of an agent's submodules and of the stores `more`. Raises CommandFailed."""
    with bare.temporary_directory(source.session.folder) as parent:
        stores = (*source.stores, *more)
        repo = bare.create_linked(parent, program.find_git(source.record, environ), source.private_dir, stores)
        for git_dir in find_submodule_git_dirs(source.private_dir):
            bare.link_objects(repo, git_dir)
        yield repo


def _commit_id(mode: int, oid: str) -> str:
    return oid if mode == GITLINK else ""


def read_submodule_log(repo: BareRepository, old: str, new: str) -> tuple[Commit, ...] | None:
    """Return the commits between two, the newest first; None if they are missing."""
    if not new.strip("0"):
        return ()
    excluded = (f"^{old}",) if old.strip("0") else ()
    code, output, _ = repo.run("log", f"-{_MAX_LOG}", "-z", "--format=%H%n%s", new, *excluded, "--")
    return None if code else parse_log(output)
