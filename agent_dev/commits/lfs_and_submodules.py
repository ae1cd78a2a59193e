"""Import of Git LFS contents and of submodule commits, which are not among a repository's own objects (decision 0024)."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from agent_dev.agent_git import quarantine
from agent_dev.agent_git.quarantine import GitDirPair
from agent_dev.agent_git.submodules import find_submodule_git_dirs
from agent_dev.commits.destinations import ImportContext
from agent_dev.commits.report import GITLINK
from agent_dev.errors import CommandFailed, RefusedCommits
from agent_dev.git import bare, commit_reader, user_refs
from agent_dev.git.bare import BareRepository
from agent_dev.git.blobs import read_blobs
from agent_dev.git.formats import lfs_pointer as pointing
from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.git.user_refs import UserGit
from agent_dev.merge_engine import lfs_objects
from agent_dev.merge_engine.merge_plan import ContentSource
from agent_dev.quick_dataclass import dataclass, field

_NOT_FOUND = "not found in any of your submodules; it stays in the session"


@dataclass(frozen=True, slots=True)
class SubmoduleImport:
    """A submodule commit named by a commit. `ref`: the ref that keeps it in the submodule; "" if not imported, for `reason`."""

    path: bytes
    commit: str
    ref: str = ""
    reason: str = ""


@dataclass(slots=True)
class ExtraObjects:
    """The objects to import, and the result. `refused_lfs`: LFS contents that do not match their ids."""

    submodules: tuple[SubmoduleImport, ...] = ()
    refused_lfs: list[str] = field(default_factory=list)
    _lfs: list["_LfsContents"] = field(default_factory=list)
    _verified: list["_Verified"] = field(default_factory=list)

    @property
    def lfs_count(self) -> int:
        """The number of LFS contents."""
        return sum(len(some.pointers) for some in self._lfs)

    def import_objects(self, more: Mapping[pointing.LfsPointer, ContentSource], storage: str) -> None:
        """Add the objects to the user's stores, and `more` LFS contents that only the agent's work tree has. Raises OSError."""
        for pointer, source in more.items():
            lfs_objects.copy_to_store(source, storage, pointer)
        for lfs in self._lfs:
            for pointer in lfs.pointers:
                source = lfs_objects.git_dir_source(lfs.git_dir, pointer)
                if not lfs_objects.is_in_store(lfs.storage, pointer) and not lfs_objects.copy_to_store(
                    source, lfs.storage, pointer
                ):
                    self.refused_lfs.append(pointer.oid)
        for checked in self._verified:
            quarantine.import_objects(checked.place, checked.user.folder, tuple(checked.refs.values()), checked.known)
            user_refs.create_kept_refs(checked.user, checked.refs)


@dataclass(frozen=True, slots=True)
class _LfsContents:
    """LFS contents of one of the agent's git dirs, and the store of the user's corresponding git dir."""

    git_dir: str
    storage: str
    pointers: tuple[pointing.LfsPointer, ...]


@dataclass(frozen=True, slots=True)
class _Verified:
    """Verified commits of one submodule, by their new refs."""

    place: BareRepository
    user: UserGit
    refs: dict[str, str]
    known: tuple[str, ...]


@contextmanager
def open_extra_objects(work: ImportContext, commits: tuple[ParsedCommit, ...], tip: str) -> Iterator[ExtraObjects]:
    """Find and verify the objects that commits need. Change nothing. Raises CommandFailed."""
    folder, common, stores = work.source.private_dir, work.source.common, work.source.stores
    large = _find_lfs(GitDirPair(folder, common, stores), work.user_git, work.repo, (tip,))
    with ExitStack() as stack:
        submodules = _Submodules(
            work, stack, _submodule_commits(work.repo, commits) if find_submodule_git_dirs(folder) else {}, [large]
        )
        for git_dir in find_submodule_git_dirs(folder) if submodules.left else ():
            submodules.check(GitDirPair(git_dir, common + git_dir.removeprefix(folder), stores))
        rows = (*submodules.rows, *(SubmoduleImport(path, oid, reason=_NOT_FOUND) for oid, path in submodules.left.items()))
        yield ExtraObjects(rows, _lfs=submodules.large, _verified=submodules.checked)


# LFS contents


def _find_lfs(sides: GitDirPair, user: UserGit, repo: BareRepository, tips: tuple[str, ...]) -> _LfsContents:
    """Return the LFS contents that the commits need, that the agent has and the user lacks."""
    if not lfs_objects.has_objects(sides.agent_git_dir):
        return _LfsContents(sides.agent_git_dir, "", ())
    storage = lfs_objects.storage_path(sides.user_git_dir, user.read_config())
    stdin = _missing_objects(user, tips)
    rows = repo.check_output("rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin", stdin=stdin.encode())
    args = ("cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)")
    small = []
    for row in repo.check_output(*args, stdin=rows).split(b"\n"):
        oid, _, kind = row.partition(b" ")
        object_type, _, size = kind.partition(b" ")
        if object_type == b"blob" and int(size) <= pointing.MAX_POINTER_SIZE:
            small.append(oid.decode("ascii"))
    found = {one for data in read_blobs(repo, small).values() if (one := pointing.parse_pointer(data)) is not None}
    wanted = (one for one in found if not lfs_objects.is_in_store(storage, one) and _is_offered(sides.agent_git_dir, one))
    return _LfsContents(sides.agent_git_dir, storage, tuple(sorted(wanted, key=lambda one: one.oid)))


def _is_offered(git_dir: str, pointer: pointing.LfsPointer) -> bool:
    return lfs_objects.has_expected_size(lfs_objects.git_dir_source(git_dir, pointer), pointer)


def _missing_objects(user: UserGit, tips: tuple[str, ...]) -> str:
    """Return git's input for objects of these commits that the user lacks."""
    return "".join(f"{oid}\n" for oid in tips) + "".join(f"^{oid}\n" for oid in sorted(set(user.read_refs().values())))


# Submodules


def _submodule_commits(repo: BareRepository, commits: tuple[ParsedCommit, ...], above: bytes = b"") -> dict[str, bytes]:
    """Return the submodule commits that commits update to, with a path below that of the containing submodule."""
    changed = commit_reader.add_changed_files(repo, commits)
    return {file.new_oid: above + file.path for commit in changed for file in commit.changed_files if file.new_mode == GITLINK}


class _Submodules:
    """Verification of submodule commits, by path; `left` holds those not found yet.

    Git dirs are searched from the top down, because commits of a submodule name commits of the submodules below it.
    """

    def __init__(self, work: ImportContext, stack: ExitStack, links: dict[str, bytes], large: list[_LfsContents]) -> None:
        self.work, self.stack, self.left, self.large = work, stack, dict(links), large
        self.rows: list[SubmoduleImport] = []
        self.checked: list[_Verified] = []

    def check(self, sides: GitDirPair) -> None:
        """Import the commits of one of the agent's git dirs that the user's corresponding one lacks."""
        if not os.path.isfile(f"{sides.user_git_dir}/HEAD"):
            return
        user = UserGit(sides.user_git_dir, self.work.user_git.program, self.work.review.environ)
        for oid in _existing_commits(user, self.left):
            del self.left[oid]
        with bare.temporary_directory(self.work.review.session.folder) as parent:
            tips = tuple(
                _existing_commits(bare.create_linked(parent, user.program, sides.agent_git_dir, sides.stores), self.left)
            )
        if tips:
            paths = {oid: self.left.pop(oid) for oid in tips}
            try:
                self._quarantine(sides, user, paths)
            except (RefusedCommits, CommandFailed) as error:
                self.rows += [SubmoduleImport(path, oid, reason=str(error)) for oid, path in paths.items()]

    def _quarantine(self, sides: GitDirPair, user: UserGit, paths: dict[str, bytes]) -> None:
        session = self.work.review.session
        repo = self.stack.enter_context(quarantine.open_quarantine_between(session.folder, sides, user, tuple(paths)))
        lfs = _find_lfs(sides, user, repo, tuple(paths))
        for tip, path in paths.items():
            self.left |= _submodule_commits(repo, _read_commits(repo, _missing_objects(user, (tip,))), path + b"/")
        self.large.append(lfs)
        names = {f"refs/agent-dev/{session.id}/{oid}": oid for oid in paths}
        self.rows += [SubmoduleImport(paths[oid], oid, name) for name, oid in names.items()]
        self.checked.append(_Verified(repo, user, names, tuple(sorted(set(user.read_refs().values())))))


def _read_commits(repo: BareRepository, stdin: str) -> tuple[ParsedCommit, ...]:
    return commit_reader.read_commits(
        repo, repo.check_output("rev-list", "--stdin", stdin=stdin.encode()).decode("ascii").split()
    )


def _existing_commits(repo: BareRepository | UserGit, ids: Collection[str]) -> list[str]:
    """Return the commits among `ids` that a repository has."""
    stdin = "".join(f"{oid}^{{commit}}\n" for oid in ids).encode()
    rows = repo.run("cat-file", "--batch-check=%(objectname)", stdin=stdin)[1].decode("ascii", "replace").split("\n")
    return [row for row in rows if row in ids]
