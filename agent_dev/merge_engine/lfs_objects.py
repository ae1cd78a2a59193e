"""Git LFS objects: find and verify them, copy them to the user's store or a merge's slot."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator

from agent_dev.fs import dir_tree, durable, read_regular
from agent_dev.fs.entry import Entry
from agent_dev.git.formats.lfs_pointer import LfsPointer
from agent_dev.merge_engine.journal import EntryMark
from agent_dev.merge_engine.merge_plan import ContentSource
from agent_dev.merge_engine.slots import Stage

_CHUNK_SIZE = 1 << 20


def has_objects(git_dir: str) -> bool:
    """Return whether an agent's git directory has LFS objects."""
    return read_regular.are_real_directories(git_dir, "lfs", "lfs/objects")


def storage_path(common: str, config: dict[str, str]) -> str:
    """Return the path of the user's LFS storage (git-lfs: docs/man/git-lfs-config)."""
    return os.path.join(common, os.path.expanduser(config.get("lfs.storage") or "lfs"))


def git_dir_source(git_dir: str, pointer: LfsPointer) -> ContentSource:
    """Return the source of an object in an agent's git directory."""
    return ContentSource(git_dir, f"lfs/objects/{pointer.store_path}".encode(), pointer.oid, is_from_agent=True)


def store_source(store_path: str, pointer: LfsPointer) -> ContentSource:
    """Return the source of an object in the user's store."""
    folder, _, name = f"{store_path}/objects/{pointer.store_path}".rpartition("/")
    return ContentSource(folder, name.encode(), pointer.oid)


def is_in_store(store_path: str, pointer: LfsPointer) -> bool:
    """Return whether the user's store has an object of this name and size."""
    return has_expected_size(store_source(store_path, pointer), pointer)


def has_expected_size(source: ContentSource, pointer: LfsPointer) -> bool:
    """Return whether a file has the size of an object."""
    fd = open_object(source, pointer.size)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def is_intact(source: ContentSource, pointer: LfsPointer) -> bool:
    """Return whether a file is an intact object: size and SHA-256 match the pointer."""
    fd = open_object(source, pointer.size)
    if fd < 0:
        return False
    try:
        return _sha256(fd) == pointer.oid
    except OSError:
        return False
    finally:
        os.close(fd)


def open_object(source: ContentSource, size: int) -> int:
    """Open a regular file of this size without following links below its directory; return -1 if there is none."""
    try:
        tree = dir_tree.Tree(source.folder, is_ours=source.is_from_agent)
    except OSError:
        return -1
    try:
        fd = tree.open(source.path, os.O_RDONLY)
    except OSError:
        return -1
    finally:
        tree.close()
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_size == size:
        return fd
    os.close(fd)
    return -1


def copy_to_slot(source: ContentSource, target: Stage, slot: str, entry: Entry) -> tuple[EntryMark, str]:
    """Copy an object into a slot; return its mark and digest. Raises OSError, also for wrong content."""
    fd = open_object(source, entry.size)
    if fd < 0:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(source.path))
    try:
        copied = target.copy_from_fd(slot, fd, entry)
    finally:
        os.close(fd)
    copy = os.open(slot, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=target.fd)
    try:
        if _sha256(copy) != source.sha256:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), os.fsdecode(source.path))
    finally:
        os.close(copy)
    return copied


def copy_to_store(source: ContentSource, store_path: str, pointer: LfsPointer) -> bool:
    """Copy an object to the user's store, durable on return; return False for wrong content. Raises OSError.

    The temporary file is in a directory that git-lfs itself cleans up after a crash.
    """
    fd = open_object(source, pointer.size)
    if fd < 0:
        return False
    try:
        os.makedirs(f"{store_path}/tmp", exist_ok=True)
        folder = os.open(f"{store_path}/tmp", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _copy_verified(fd, folder, f"{store_path}/objects/{pointer.store_path}", pointer)
        finally:
            os.close(folder)
    finally:
        os.close(fd)


def _copy_verified(source: int, folder: int, target: str, pointer: LfsPointer) -> bool:
    name = f"agent-dev-{os.getpid()}-{pointer.oid}".encode()
    into = os.path.dirname(target)
    os.makedirs(into, exist_ok=True)
    copy = durable.create(name, folder, 0o644)
    try:
        digest = hashlib.sha256()
        for piece in _chunks(source):
            digest.update(piece)
            durable.write(copy, piece)
        is_good = digest.hexdigest() == pointer.oid
        durable.fsync(copy)
    finally:
        os.close(copy)
    target_dir = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if is_good:
            durable.rename_new(folder, name, target_dir, pointer.oid.encode())
            durable.fsync(target_dir)
    except FileExistsError:
        pass  # git-lfs fetched it concurrently
    finally:
        os.close(target_dir)
        if os.path.lexists(f"/proc/self/fd/{folder}/{name.decode()}"):
            durable.unlink(name, folder)
    return is_good


def _sha256(fd: int) -> str:
    digest = hashlib.sha256()
    for piece in _chunks(fd):
        digest.update(piece)
    return digest.hexdigest()


def _chunks(fd: int) -> Iterator[bytes]:
    while piece := os.read(fd, _CHUNK_SIZE):
        yield piece
