"""Quarantine for the agent's objects: a pack of the new ones, verified in a repository of ours (decision 0017).

Nothing enters the user's repository before everything is verified; then a whole pack is renamed into it.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agent_dev.agent_git.repositories import AgentRepository
from agent_dev.errors import RefusedCommits
from agent_dev.fs import durable, read_regular
from agent_dev.git import bare
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.git.user_refs import UserGit
from agent_dev.quick_dataclass import dataclass, replace

_MAX_SIZE = 1 << 20
_HINT = "nothing was imported; the commits stay in the session"
# Findings that git reports as errors only on request (git: Documentation/fsck-msgids.txt).
_FSCK_ERRORS = ("gitmodulesParse", "gitmodulesSymlink")


@dataclass(frozen=True, slots=True)
class GitDirPair:
    """The agent's git dir, the user's (common) git dir that imports from it, and the `stores` of linked objects."""

    agent_git_dir: str
    user_git_dir: str
    stores: tuple[str, ...]


@contextmanager
def open_quarantine(source: AgentRepository, user: UserGit, tips: tuple[str, ...]) -> Iterator[BareRepository]:
    """Yield a repository with some of the agent's commits, verified; it borrows all other objects from the user's repository.

    Raises RefusedCommits with git's reason if verification fails, CommandFailed.
    """
    sides = GitDirPair(source.private_dir, source.common, source.stores)
    with open_quarantine_between(source.session.folder, sides, user, tips) as checked:
        yield checked


@contextmanager
def open_quarantine_between(folder: str, sides: GitDirPair, user: UserGit, tips: tuple[str, ...]) -> Iterator[BareRepository]:
    """Yield such a repository for any two git dirs, in a session's folder. Raises as `open_quarantine`."""
    user_objects = f"{sides.user_git_dir}/objects"
    with bare.temporary_directory(folder) as parent:
        source = bare.create_linked(parent, user.program, sides.agent_git_dir, (user_objects, *sides.stores))
        checked = bare.create(f"{parent}/checked", user.program, is_sha256=source.is_sha256, stores=(user_objects,))
        for repo in (source, checked):
            _copy_shallow(sides.user_git_dir, repo)
        is_partial = "extensions.partialclone" in user.read_config()
        _fetch(source, checked, tips, tuple(user.read_refs().values()), is_partial=is_partial)
        yield replace(checked, environ=dict(user.environ))


def _copy_shallow(common: str, repo: BareRepository) -> None:
    """Cut off the history where the user's shallow clone ends."""
    shallow = read_regular.read_regular_file(f"{common}/shallow", _MAX_SIZE)
    if shallow:
        bare.write_new_file(f"{repo.path}/shallow", shallow)


def _fetch(
    source: BareRepository, checked: BareRepository, tips: tuple[str, ...], known: tuple[str, ...], *, is_partial: bool
) -> None:
    wanted = "".join(f"{oid}\n" for oid in tips if parse_ref(oid.encode()))
    stdin = wanted + "".join(f"^{oid}\n" for oid in sorted(set(known)))
    packing = ("pack-objects", "--revs", "--stdout", "-q", "--window=0")
    code, pack, reason = source.run(*packing, stdin=stdin.encode(), seconds=bare.IMPORT_SECONDS)
    if code:
        raise RefusedCommits(reason=reason, hint=_HINT)
    indexing = ("-c", "core.fsync=none", "index-pack", "--stdin", _check_option(is_partial=is_partial))
    code, _, reason = checked.run(*indexing, stdin=pack, seconds=bare.IMPORT_SECONDS)
    if code:
        raise RefusedCommits(reason=reason, hint=_HINT)


def _check_option(*, is_partial: bool) -> str:
    """Return index-pack's check option: in a partial clone, objects may be missing."""
    return "--fsck-objects" if is_partial else "--strict=" + ",".join(f"{name}=error" for name in _FSCK_ERRORS)


def import_objects(repo: BareRepository, common: str, wanted: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Add the objects reachable from `wanted` but not from `known` to the user's object store, durable on return.

    Raises OSError.
    """
    if not _has_loose(repo):  # the repository holds only the verified pack
        packs = f"{repo.path}/objects/pack"
        names = os.listdir(packs)
        for name in names:
            _sync(f"{packs}/{name}")
        for name in names:
            if name.endswith(".idx"):
                _install_pack(packs, name.removesuffix(".idx"), f"{common}/objects/pack")
        return
    stdin = "".join(f"{oid}\n" for oid in wanted) + "".join(f"^{oid}\n" for oid in known)
    pack_dir = f"{repo.path}/home"
    os.mkdir(pack_dir, 0o700)
    args = ("-c", "core.fsync=all", "pack-objects", "--revs", "-q", f"{pack_dir}/pack")
    pack_names = repo.check_output(*args, stdin=stdin.encode(), seconds=bare.IMPORT_SECONDS).decode("ascii").strip()
    for name in pack_names.split():
        _install_pack(pack_dir, f"pack-{name}", f"{common}/objects/pack")


def _has_loose(repo: BareRepository) -> bool:
    return any(len(name) == 2 for name in os.listdir(f"{repo.path}/objects"))


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        durable.fsync(fd)
    finally:
        os.close(fd)


def _install_pack(source_dir: str, name: str, packs: str) -> None:
    """Move a pack to the user's packs; its index comes last, because it makes the pack visible to git. Undo that on failure."""
    os.makedirs(packs, exist_ok=True)
    target_fd = os.open(packs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    installed: list[str] = []
    try:
        for suffix in (".pack", ".rev", ".idx"):
            source = f"{source_dir}/{name}{suffix}"
            if os.path.exists(source) and not os.path.exists(f"{packs}/{name}{suffix}"):
                _install_file(source, f"{name}{suffix}", packs, target_fd)
                installed.append(f"{name}{suffix}")
        durable.fsync(target_fd)
    except OSError:
        for one in reversed(installed):
            os.unlink(one, dir_fd=target_fd)
        raise
    finally:
        os.close(target_fd)


def _install_file(source: str, name: str, packs: str, target_fd: int) -> None:
    mode = 0o444 & os.stat(packs).st_mode
    os.chmod(source, mode)
    if os.stat(source).st_dev != os.fstat(target_fd).st_dev:
        source = _copy_nearby(source, packs)
    folder = os.open(os.path.dirname(source), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        durable.rename_new(folder, os.path.basename(source).encode(), target_fd, name.encode())
    except FileExistsError:
        pass  # another import added the same pack
    finally:
        os.close(folder)


def _copy_nearby(source: str, packs: str) -> str:
    """Copy a file to another file system, under a temporary name that git's gc removes."""
    copy = f"{packs}/tmp_pack_agent_dev_{os.path.basename(source)}"
    try:
        shutil.copy2(source, copy)
        _sync(copy)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(copy)
        raise
    return copy
