"""The system calls by which a merge, an undo or a recovery changes a disk, one function each.

All of them call `hook` first. Tests use it to kill the process at the N-th call, to let a call fail, or to record the calls
for a model of a power failure.
"""

import errno
import os
from collections.abc import Callable

from agent_dev.linux import streams, syscalls

Hook = Callable[[str, tuple[object, ...]], None]
hook: Hook | None = None

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _notify(call: str, *arguments: object) -> None:
    if hook is not None:
        hook(call, arguments)


def create(name: bytes, folder: int, mode: int = 0o600) -> int:
    """Create a file that must not exist; return its descriptor."""
    _notify("create", folder, name)
    return os.open(name, _NEW, mode, dir_fd=folder)


def write(fd: int, data: bytes | memoryview) -> None:
    """Write all bytes, even if the kernel writes only a part at a time."""
    _notify("write", fd, len(data))
    streams.write_all(fd, data)


def append(path: str, data: bytes) -> None:
    """Append to a file of ours, created if it is missing; durable on return."""
    folder_path, name = os.path.split(path)
    folder = os.open(folder_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fd = create(name.encode(), folder)
            fsync(folder)
        except FileExistsError:
            fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, dir_fd=folder)
        try:
            write(fd, data)
            fsync(fd)
        finally:
            os.close(fd)
    finally:
        os.close(folder)


def truncate(fd: int, size: int) -> None:
    """Set a file's size; a larger file grows by a hole."""
    _notify("truncate", fd, size)
    os.ftruncate(fd, size)


def fsync(fd: int) -> None:
    """Make a file, or a directory's entries, durable."""
    _notify("fsync", fd)
    os.fsync(fd)


def syncfs(fd: int) -> None:
    """Make a whole file system durable."""
    _notify("syncfs", fd)
    syscalls.syncfs(fd)


def sync_directory(fd: int) -> None:
    """Make a directory's entries durable; `fd` may be an O_PATH descriptor."""
    _sync(f"/proc/self/fd/{fd}", fsync)


def sync_path(path: str) -> None:
    """Make the entries of a directory of ours durable."""
    _sync(path, fsync)


def sync_file_system_of(path: str) -> None:
    """Make the whole file system of a directory of ours durable."""
    _sync(path, syncfs)


def _sync(path: str, sync: Callable[[int], None]) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)


def mkdir(name: bytes, folder: int, mode: int = 0o700) -> None:
    """Create a directory with this mode, regardless of the umask."""
    _notify("mkdir", folder, name)
    os.mkdir(name, 0o700, dir_fd=folder)
    if mode != 0o700:
        chmod_at(name, folder, mode)


def mkdir_path(path: str) -> None:
    """Create a directory of ours by its path."""
    _notify("mkdir", path)
    os.mkdir(path, 0o700)


def symlink(target: bytes, name: bytes, folder: int) -> None:
    """Create a symlink."""
    _notify("symlink", folder, name)
    os.symlink(target, name, dir_fd=folder)


def mkfifo(name: bytes, folder: int, mode: int) -> None:
    """Create a FIFO with this mode, regardless of the umask."""
    _notify("mkfifo", folder, name)
    os.mkfifo(name, 0o600, dir_fd=folder)
    chmod_at(name, folder, mode)


def whiteout(name: bytes, folder: int) -> None:
    """Create an overlay whiteout: a character device 0, 0."""
    _notify("whiteout", folder, name)
    os.mknod(name, 0o020000, 0, dir_fd=folder)


def unlink(name: bytes, folder: int) -> None:
    """Remove a name that is not a directory."""
    _notify("unlink", folder, name)
    os.unlink(name, dir_fd=folder)


def rmdir(name: bytes, folder: int) -> None:
    """Remove an empty directory."""
    _notify("rmdir", folder, name)
    os.rmdir(name, dir_fd=folder)


def rename_new(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Rename; fails if the target exists (RENAME_NOREPLACE)."""
    _notify("move", old_folder, old, new_folder, new)
    syscalls.rename(old_folder, old, new_folder, new, syscalls.NOREPLACE)


def exchange(one_folder: int, one: bytes, other_folder: int, other: bytes) -> None:
    """Exchange two entries (RENAME_EXCHANGE)."""
    _notify("exchange", one_folder, one, other_folder, other)
    syscalls.rename(one_folder, one, other_folder, other, syscalls.EXCHANGE)


def replace(folder: int, old: bytes, new: bytes) -> None:
    """Rename a file of ours over another one in the same directory."""
    _notify("replace", folder, old, folder, new)
    os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)


def rename_over(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Rename an entry of ours to another directory, replacing a non-directory."""
    _notify("put", old_folder, old, new_folder, new)
    os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)


def link(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Create a hard link to a file that is not a symlink."""
    _notify("link", old_folder, old, new_folder, new)
    os.link(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder, follow_symlinks=False)


def make_socket(name: bytes, folder: int, mode: int) -> None:
    """Create a socket file without a listener."""
    _notify("socket", folder, name)
    os.mknod(name, 0o140600, 0, dir_fd=folder)
    chmod_at(name, folder, mode)


def chown_at(name: bytes, folder: int, owner: int, group: int) -> None:
    """Set owner and group; of a symlink itself, not of its target."""
    _notify("chown", folder, name)
    os.chown(name, owner, group, dir_fd=folder, follow_symlinks=False)


def chown(fd: int, owner: int, group: int) -> None:
    """Set owner and group of an open file; -1 keeps the current one."""
    _notify("chown", fd)
    os.fchown(fd, owner, group)


def chmod(fd: int, mode: int) -> None:
    """Set the mode of an open file or directory."""
    _notify("chmod", fd, mode)
    os.fchmod(fd, mode)


def chmod_path_fd(fd: int, mode: int) -> None:
    """Set the mode by a descriptor, which may be an O_PATH one."""
    _notify("chmod", fd, mode)
    os.chmod(f"/proc/self/fd/{fd}", mode)


def chmod_at(name: bytes, folder: int, mode: int) -> None:
    """Set the mode by name, without following a symlink that replaced the file. Raises OSError (ELOOP) for a symlink."""
    _notify("chmod", folder, name, mode)
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if os.fstat(fd).st_mode & 0o170000 == 0o120000:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def set_time(fd: int, mtime: int) -> None:
    """Set both times, in ns since 1970."""
    _notify("utime", fd, mtime)
    os.utime(fd, ns=(mtime, mtime))


def set_time_at(name: bytes, folder: int, mtime: int) -> None:
    """Set both times by name, without following symlinks, in ns since 1970 (utimensat, AT_SYMLINK_NOFOLLOW)."""
    _notify("utime", folder, name, mtime)
    os.utime(name, ns=(mtime, mtime), dir_fd=folder, follow_symlinks=False)


def set_attribute(fd: int, name: str, value: bytes) -> None:
    """Set an extended attribute."""
    _notify("setxattr", fd, name)
    os.setxattr(fd, name, value)


def remove_attribute(fd: int, name: str) -> None:
    """Remove an extended attribute."""
    _notify("removexattr", fd, name)
    os.removexattr(fd, name)


def announce_ref_update(names: tuple[str, ...]) -> None:
    """Announce that git is started to update refs."""
    _notify("refs", *names)
