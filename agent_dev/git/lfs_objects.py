"""Contents that Git LFS keeps beside git, out of the agent's private git dir into the user's: only what is what its name says."""

import hashlib
import os
import stat

from agent_dev.commits.agent_git import refs
from agent_dev.fs import durable as disk
from agent_dev.git.lfs_pointer import Pointer

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE = 1 << 20


def are_in(git_dir: str) -> bool:
    """Whether a git dir of an agent's has any."""
    return refs.is_real(git_dir, "lfs", "lfs/objects")


def storage(common: str, config: dict[str, str]) -> str:
    """Return where the user's lie (git-lfs: docs/man/git-lfs-config)."""
    return os.path.join(common, os.path.expanduser(config.get("lfs.storage") or "lfs"))


def is_there(place: str, pointer: Pointer) -> bool:
    """Whether the user has a content."""
    return os.path.exists(f"{place}/objects/{_name(pointer)}")


def is_offered(git_dir: str, pointer: Pointer) -> bool:
    """Whether the agent has it, or something that is called so."""
    fd = _opened(git_dir, pointer)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def bring(git_dir: str, place: str, pointer: Pointer) -> bool:
    """Bring a content home, durable on return; return False for one that is not what its name says. Raises OSError.

    It is copied beside its place, to where git-lfs itself tidies up what a crash leaves.
    """
    source = _opened(git_dir, pointer)
    if source < 0:
        return False
    try:
        os.makedirs(f"{place}/tmp", exist_ok=True)
        folder = os.open(f"{place}/tmp", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _copied(source, folder, f"{place}/objects/{_name(pointer)}", pointer)
        finally:
            os.close(folder)
    finally:
        os.close(source)


def _name(pointer: Pointer) -> str:
    return f"{pointer.oid[:2]}/{pointer.oid[2:4]}/{pointer.oid}"


def _opened(git_dir: str, pointer: Pointer) -> int:
    """Open the agent's file, no link followed; return -1 for none of this size."""
    first, second = pointer.oid[:2], pointer.oid[2:4]
    if not refs.is_real(git_dir, "lfs", "lfs/objects", f"lfs/objects/{first}", f"lfs/objects/{first}/{second}"):
        return -1
    try:
        fd = os.open(f"{git_dir}/lfs/objects/{_name(pointer)}", _OPEN)
    except OSError:
        return -1
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_size == pointer.size:
        return fd
    os.close(fd)
    return -1


def _copied(source: int, folder: int, target: str, pointer: Pointer) -> bool:
    name = f"agent-dev-{os.getpid()}-{pointer.oid}".encode()
    into = os.path.dirname(target)
    os.makedirs(into, exist_ok=True)
    copy = disk.create(name, folder, 0o644)
    try:
        is_whole = _digest(source, copy) == pointer.oid
        disk.fsync(copy)
    finally:
        os.close(copy)
    place = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if is_whole:
            disk.move(folder, name, place, pointer.oid.encode())
            disk.fsync(place)
    except FileExistsError:
        is_whole = True  # git-lfs brought it meanwhile
    finally:
        os.close(place)
        if os.path.lexists(f"/proc/self/fd/{folder}/{name.decode()}"):
            disk.unlink(name, folder)
    return is_whole


def _digest(source: int, copy: int) -> str:
    digest = hashlib.sha256()
    while piece := os.read(source, _PIECE):
        digest.update(piece)
        disk.write(copy, piece)
    return digest.hexdigest()
