"""Every system call by which a merge, an undo or a recovery changes a disk: one tiny function each.

All of them pass `watcher` first. Tests put one there that kills the process at the N-th call, lets it fail, or writes the
calls down for a model of what a power cut leaves.
"""

import errno
import os
from collections.abc import Callable

from agent_dev.linux import syscalls as kernel

Watcher = Callable[[str, tuple[object, ...]], None]
watcher: Watcher | None = None

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _pass(call: str, *words: object) -> None:
    if watcher is not None:
        watcher(call, words)


def create(name: bytes, folder: int, mode: int = 0o600) -> int:
    """Make a file that must not be there yet; return its descriptor."""
    _pass("create", folder, name)
    return os.open(name, _NEW, mode, dir_fd=folder)


def write(fd: int, data: bytes | memoryview) -> None:
    """Write everything, however often the kernel takes only a part."""
    _pass("write", fd, len(data))
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def truncate(fd: int, size: int) -> None:
    """Cut a file, or let it grow by a hole."""
    _pass("truncate", fd, size)
    os.ftruncate(fd, size)


def fsync(fd: int) -> None:
    """Make a file durable, or a directory's entries."""
    _pass("fsync", fd)
    os.fsync(fd)


def syncfs(fd: int) -> None:
    """Make a whole file system durable."""
    _pass("syncfs", fd)
    kernel.syncfs(fd)


def sync_folder(fd: int) -> None:
    """Make a directory's entries durable; `fd` may be an O_PATH descriptor."""
    real = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fsync(real)
    finally:
        os.close(real)


def sync_path(path: str) -> None:
    """Make the entries of a directory of ours durable, by its path."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fsync(fd)
    finally:
        os.close(fd)


def sync_all(path: str) -> None:
    """Make the whole file system durable on which a directory of ours lies."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        syncfs(fd)
    finally:
        os.close(fd)


def mkdir(name: bytes, folder: int, mode: int = 0o700) -> None:
    """Make a directory; the umask has no say."""
    _pass("mkdir", folder, name)
    os.mkdir(name, 0o700, dir_fd=folder)
    if mode != 0o700:
        chmod_at(name, folder, mode)


def mkdir_path(path: str) -> None:
    """Make a directory of ours, by its path."""
    _pass("mkdir", path)
    os.mkdir(path, 0o700)


def symlink(target: bytes, name: bytes, folder: int) -> None:
    """Make a symbolic link."""
    _pass("symlink", folder, name)
    os.symlink(target, name, dir_fd=folder)


def mkfifo(name: bytes, folder: int, mode: int) -> None:
    """Make a FIFO; the umask has no say."""
    _pass("mkfifo", folder, name)
    os.mkfifo(name, 0o600, dir_fd=folder)
    chmod_at(name, folder, mode)


def whiteout(name: bytes, folder: int) -> None:
    """Make the overlay's mark for what is deleted: a character device 0, 0."""
    _pass("whiteout", folder, name)
    os.mknod(name, 0o020000, 0, dir_fd=folder)


def unlink(name: bytes, folder: int) -> None:
    """Remove a name that is no directory's."""
    _pass("unlink", folder, name)
    os.unlink(name, dir_fd=folder)


def rmdir(name: bytes, folder: int) -> None:
    """Remove an empty directory."""
    _pass("rmdir", folder, name)
    os.rmdir(name, dir_fd=folder)


def move(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Rename; fails where something stands (RENAME_NOREPLACE)."""
    _pass("move", old_folder, old, new_folder, new)
    kernel.rename(old_folder, old, new_folder, new, kernel.NOREPLACE)


def exchange(one_folder: int, one: bytes, other_folder: int, other: bytes) -> None:
    """Let two things change places (RENAME_EXCHANGE)."""
    _pass("exchange", one_folder, one, other_folder, other)
    kernel.rename(one_folder, one, other_folder, other, kernel.EXCHANGE)


def replace(folder: int, old: bytes, new: bytes) -> None:
    """Let a file of ours take the place of another of ours in the same directory."""
    _pass("replace", folder, old, folder, new)
    os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)


def put(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Let something of ours take the place of what is no directory, or of nothing, in another directory."""
    _pass("put", old_folder, old, new_folder, new)
    os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)


def link(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Give a file that is no link another name."""
    _pass("link", old_folder, old, new_folder, new)
    os.link(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder, follow_symlinks=False)


def make_socket(name: bytes, folder: int, mode: int) -> None:
    """Make a socket's name, with nobody behind it."""
    _pass("socket", folder, name)
    os.mknod(name, 0o140600, 0, dir_fd=folder)
    chmod_at(name, folder, mode)


def chown_at(name: bytes, folder: int, owner: int, group: int) -> None:
    """Give something another owner; a link itself, not what it leads to."""
    _pass("chown", folder, name)
    os.chown(name, owner, group, dir_fd=folder, follow_symlinks=False)


def chown(fd: int, owner: int, group: int) -> None:
    """Give an open file another owner; -1 leaves one as it is."""
    _pass("chown", fd)
    os.fchown(fd, owner, group)


def chmod(fd: int, mode: int) -> None:
    """Give an open file or directory a mode."""
    _pass("chmod", fd, mode)
    os.fchmod(fd, mode)


def chmod_at(name: bytes, folder: int, mode: int) -> None:
    """Give something that is no link a mode, by its name: a link that somebody put there meanwhile is not followed."""
    _pass("chmod", folder, name, mode)
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if os.fstat(fd).st_mode & 0o170000 == 0o120000:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def set_time(fd: int, mtime: int) -> None:
    """Set both times, in ns since 1970."""
    _pass("utime", fd, mtime)
    os.utime(fd, ns=(mtime, mtime))


def set_attribute(fd: int, name: str, value: bytes) -> None:
    """Set an extended attribute."""
    _pass("setxattr", fd, name)
    os.setxattr(fd, name, value)


def remove_attribute(fd: int, name: str) -> None:
    """Remove an extended attribute."""
    _pass("removexattr", fd, name)
    os.removexattr(fd, name)


def about_to_move_refs(names: tuple[str, ...]) -> None:
    """Say that a git is started that moves refs."""
    _pass("refs", *names)
