"""Read the work in a session's git directories that is not among its commits. Git runs only in repositories of ours."""

import os
from collections.abc import Iterable, Iterator

from agent_dev.agent_git import changes, current_refs, refs
from agent_dev.agent_git.commits import open_agent_objects
from agent_dev.agent_git.program import find_git
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.agent_git.submodules import list_submodules
from agent_dev.agent_git.unlisted_work import UnlistedWork
from agent_dev.errors import AgentDevError
from agent_dev.fs.read_regular import are_real_directories, read_regular_file
from agent_dev.git import bare, config_file
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.ref_format import parse_stash_ids
from agent_dev.git.user_refs import UserGit
from agent_dev.quick_dataclass import replace
from agent_dev.session import store

_MAX_CONFIG, _MAX_LOG = 1 << 20, 16 << 20
_MAX_LOGS, _MAX_IDS = 1000, 100_000


def find_in_session(session: store.Session, record: store.Record, environ: dict[str, str]) -> tuple[UnlistedWork, ...]:
    """Return the work in all git directories of a session."""
    sources = list_repositories(session, record)
    return tuple(one for source in sources for one in (*find_in_reflogs(source, environ), *find_in_submodules(source, environ)))


def find_in_reflogs(source: AgentRepository, environ: dict[str, str]) -> tuple[UnlistedWork, ...]:
    """Return the commits in the reflogs of a repository whose refs have no commits of the agent."""
    found = (_read(source, environ),) if refs.has_new_objects(source) else ()
    return tuple(one for one in found if one.has_content)


def find_in_submodules(source: AgentRepository, environ: dict[str, str]) -> tuple[UnlistedWork, ...]:
    """Return the work in the submodules of a repository."""
    found = (_read(one, environ) for one in list_submodules(source) if refs.has_changed(one))
    return tuple(one for one in found if one.has_content or one.refs)


def _read(source: AgentRepository, environ: dict[str, str]) -> UnlistedWork:
    path = _work_tree_path(source) if source.module else ""
    try:
        with open_agent_objects(source, environ) as repo:
            found = _GitDirReader(source, repo, environ).read(path)
            return replace(found, git_dir=source.private_dir) if source.record["options"].get("direct") else found
    except AgentDevError as error:
        return UnlistedWork(source.path, path, problem=error.message)


class _GitDirReader:
    """The refs of one git directory, at the start and now, and those of the user's."""

    def __init__(self, source: AgentRepository, repo: BareRepository, environ: dict[str, str]) -> None:
        self.source, self.repo, self.environ = source, repo, environ
        self.refs_dir = current_refs.find_refs_dir(source, environ)
        self.before, self.after = refs.read_initial_refs(source), current_refs.read_refs(source, environ)
        self.tips = changes.compute_tips(self.before, self.after)
        self.remote = tuple(value for name, value in self.after.items() if name.startswith(changes.REMOTES))
        if source.module and _is_copy_of_lost_directory(source):
            self.remote = ()

    def read(self, path: str) -> UnlistedWork:
        """Return the work; of the repository itself, only the commits of its reflogs."""
        made = self._count(self.tips.new, (*self.tips.old, *self.remote)) if self.tips.new else 0
        yours = self._read_yours()
        lost = 0 if made else self._count_unreferenced(yours)
        if not self.source.module:
            return UnlistedWork(self.source.path, "", unreferenced=lost)
        left = self._count(self.tips.new, (*self.tips.old, *self.remote, *yours)) if made else 0
        known = {*refs.read_initial_stashes(self.source), *yours}
        stashes = {*parse_stash_ids(refs.read_stash_log(self.refs_dir))} - known
        return UnlistedWork(self.source.path, path, left, lost, len(stashes), sum(1 for _ in self._changed_refs(yours)))

    def _changed_refs(self, yours: tuple[str, ...]) -> Iterator[str]:
        """Yield the changed branches and other refs, without those whose commits were fetched or imported."""
        known = {*self.remote, *yours} - {*self.before.values()}
        for one in changes.compare_refs(self.before, self.after):
            if not one.name.startswith((changes.REMOTES, "refs/stash")) and one.after not in known:
                yield one.name

    def _count(self, tips: Iterable[str], known: Iterable[str]) -> int:
        """Return the number of commits that are reachable from tips and not from known commits. Raises CommandFailed."""
        lines = "".join((*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in known)))
        return int(self.repo.check_output("rev-list", "--count", "--ignore-missing", "--stdin", stdin=lines.encode()))

    def _read_yours(self) -> tuple[str, ...]:
        """Return the commits that the user's refs point to now; those of a submodule may have been imported."""
        if not os.path.isdir(self.source.folder):
            return ()
        user = UserGit(self.source.folder, find_git(self.source.record, self.environ), self.environ)
        return tuple(dict.fromkeys(user.read_refs().values()))

    def _count_unreferenced(self, yours: tuple[str, ...]) -> int:
        """Return the number of new commits that only a reflog of the agent has."""
        logged = self._logged_ids() - {*self.before.values(), *self.after.values()}
        own = self._without_borrowed(logged) if logged and refs.has_new_objects(self.source) else ()
        return self._count(own, (*self.tips.old, *self.tips.new, *self.remote, *yours)) if own else 0

    def _logged_ids(self) -> set[str]:
        """Return the commits in the reflogs of HEAD and of all refs, without the stash's."""
        folder, found = self.source.private_dir, set[str]()
        linked = self.source.linked_name
        for top in (folder, f"{folder}/worktrees/{linked}") if linked else (folder,):
            if are_real_directories(top, "logs"):
                for log in _list_logs(f"{top}/logs"):
                    found.update(parse_stash_ids(read_regular_file(log, _MAX_LOG)))
        return found

    def _without_borrowed(self, ids: set[str]) -> list[str]:
        """Return the ids of objects that the agent made; the user's reflogs have unreferenced commits, too."""
        with bare.temporary_directory(self.source.session.folder) as parent:
            program = find_git(self.source.record, self.environ)
            stores = tuple(one for one in (*self.source.stores, f"{self.source.common}/objects") if os.path.isdir(one))
            borrowed = bare.create(f"{parent}/borrowed", program, is_sha256=self.repo.is_sha256, stores=stores)
            lines = "".join(f"{oid}\n" for oid in sorted(ids)[:_MAX_IDS]).encode()
            rows = borrowed.check_output("cat-file", "--batch-check=%(objecttype)", stdin=lines).decode("ascii", "replace")
        return [words[0] for words in map(str.split, rows.splitlines()) if words[1:] == ["missing"]]


def _list_logs(folder: str) -> Iterator[str]:
    pending = [folder]
    for path in pending:
        try:
            entries = list(os.scandir(path))
        except OSError:
            continue
        pending += [one.path for one in entries if one.is_dir(follow_symlinks=False)][: max(0, _MAX_LOGS - len(pending))]
        yield from (one.path for one in entries[:_MAX_LOGS] if one.name != "stash" and one.is_file(follow_symlinks=False))


def _read_config(source: AgentRepository) -> bytes:
    return read_regular_file(f"{source.private_dir}/config", _MAX_CONFIG)


def _work_tree_path(source: AgentRepository) -> str:
    """Return the path of a submodule's work tree in the root; its name if the configuration has no such path."""
    name = source.module.rpartition("modules/")[2] if source.module.count("modules/") == 1 else source.module
    tree = config_file.read_values(_read_config(source), "core", "worktree")[-1:]
    path = os.path.normpath(os.path.join(source.folder, tree[0])) if tree else ""
    below = path.removeprefix(f"{source.path.rstrip('/')}/")
    return below if below != path else name


def _is_copy_of_lost_directory(source: AgentRepository) -> bool:
    """Return whether the agent cloned a submodule from a directory that the host does not have: nobody else has its commits."""
    if os.path.isdir(source.folder):
        return False
    urls = config_file.read_values(_read_config(source), "remote ", "url")
    local = [url.removeprefix("file://") for url in urls if url.startswith(("/", ".", "file://"))]
    return bool(local) and not any(map(os.path.isdir, local))
