"""Walk a directory: yield the entries of an upper layer or a root, without following symlinks.

A directory whose path is too long for the kernel (PATH_MAX) is yielded but not entered: the full paths of thousands of nested
directories would take memory that grows with the square of the depth.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator

from agent_dev.fs.entry import HARMLESS_OVERLAY_ATTRIBUTES, LONGEST_PATH, Entry, FileType, WalkedEntry
from agent_dev.linux import attribute_names
from agent_dev.quick_dataclass import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.fs.unlocked_directories import UnlockedDirectories

SkipEntry = Callable[[bytes, FileType], bool]

_FS_ENCODING = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OVERLAY = "user.overlay."
_READABLE = 0o500
_TYPE_BITS, _MODE_BITS = 0o170000, 0o7777
# The overlay's attributes by the names of all attributes of an entry: most entries are new, or were copied up.
_USUAL: dict[bytes, tuple[tuple[str, bytes], ...]] = {b"": (), f"{_OVERLAY}origin\0".encode(): (("origin", b""),)}
_TYPES = {
    stat.S_IFREG: FileType.FILE,
    stat.S_IFDIR: FileType.DIRECTORY,
    stat.S_IFLNK: FileType.SYMLINK,
    stat.S_IFIFO: FileType.FIFO,
    stat.S_IFSOCK: FileType.SOCKET,
}


def walk(
    root: str,
    *,
    skip: tuple[bytes, ...] = (),
    attributes: bool = True,
    problems: list[str] | None = None,
    leave: "SkipEntry | None" = None,
    opened: "UnlockedDirectories | None" = None,
) -> Iterator[WalkedEntry]:
    """Yield everything below a directory, parents before children. `skip`: names at the top that are left out.

    `opened`: unlocks directories that keep their owner out; they are yielded with their own modes.

    Unreadable entries are added to `problems` with the reason. `leave` returns whether an entry is left out with its content.
    """
    errors = problems if problems is not None else []
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    # One descriptor for any depth: down by openat, up by `..`.
    stack: list[tuple[bytes, list[bytes], int]] = []
    try:
        found, below = _filtered(_read(here, b"", errors, opened, attributes=attributes, skip=skip), leave)
        yield from found
        stack.append((b"", below, 0))
        while stack:
            path, below, _ = stack[-1]
            if not below:
                stack.pop()
                if stack:
                    here = _up(here, stack[-1][2], path)
                continue
            name = below.pop()
            inside = path + b"/" + name if path else name
            try:
                child = _down(here, name)
            except OSError as error:
                errors.append(f"{os.fsdecode(inside)}: {error.strerror}")
                continue
            if not path:
                stack[0] = (b"", below, os.fstat(here).st_ino)
            os.close(here)
            here = child
            found, names = _filtered(_read(here, inside, errors, opened, attributes=attributes), leave)
            yield from found
            stack.append((inside, names, os.fstat(here).st_ino))
    finally:
        os.close(here)


def _filtered(read: tuple[list[WalkedEntry], list[bytes]], leave: SkipEntry | None) -> tuple[list[WalkedEntry], list[bytes]]:
    if leave is None:
        return read
    found = [one for one in read[0] if not leave(one.path, one.entry.type)]
    kept = {one.path.rpartition(b"/")[2] for one in found}
    return found, [name for name in read[1] if name in kept]


def _down(here: int, name: bytes) -> int:
    child = os.open(name, _OPEN, dir_fd=here)
    try:
        os.stat("..", dir_fd=child)  # if it can be listed but not searched, we could not get back
    except OSError:
        os.close(child)
        raise
    return child


def _up(here: int, inode: int, path: bytes) -> int:
    up = os.open("..", _OPEN, dir_fd=here)
    if os.fstat(up).st_ino != inode:
        os.close(up)
        raise OSError(errno.ESTALE, f"{os.fsdecode(path)} was moved while it was read")
    os.close(here)
    return up


def _read(
    folder: int,
    path: bytes,
    problems: list[str],
    opened: "UnlockedDirectories | None",
    *,
    attributes: bool,
    skip: tuple[bytes, ...] = (),
) -> tuple[list[WalkedEntry], list[bytes]]:
    found: list[WalkedEntry] = []
    below: list[bytes] = []
    prefix = path + b"/" if path else b""
    try:
        names = sorted([name.encode(*_FS_ENCODING) for name in os.listdir(folder)])  # as os.fsencode, in half the time
    except OSError as error:
        problems.append(f"{os.fsdecode(path)}: {error.strerror}")
        return found, below
    location = _proc_path(folder) if attributes else b""
    for name in names:
        if name in skip:
            continue
        try:
            one = _look(folder, name, prefix + name, opened, attributes=location)
        except OSError as error:
            problems.append(f"{os.fsdecode(prefix + name)}: {error.strerror}")
            continue
        if one.entry.type is FileType.DIRECTORY:
            if len(one.path) > LONGEST_PATH:
                one = replace(one, is_too_deep=True)
            else:
                below.append(name)
        found.append(one)
    below.reverse()
    return found, below


def _proc_path(folder: int) -> bytes:
    return b"/proc/self/fd/%d/" % folder


def walked_entry(folder: int, path: bytes) -> WalkedEntry:
    """Return the entry at a path, given the open directory above it. Raises OSError."""
    return _look(folder, path.rpartition(b"/")[2], path, attributes=_proc_path(folder))


def read_entry(folder: int, name: bytes, *, attributes: bool = True, is_ours: bool = False) -> Entry:
    """Return one entry of an open directory; without `attributes` in half the time. Raises OSError.

    `is_ours`: the attributes of an unreadable file are read too.
    """
    if attributes:
        return _look(folder, name, name, attributes=_proc_path(folder), is_ours=is_ours).entry
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    kind = _TYPES.get(status.st_mode & _TYPE_BITS, FileType.DEVICE)
    return _entry(folder, name, status, kind, status.st_mode & _MODE_BITS)


def read_attributes(fd: int) -> tuple[tuple[str, bytes], ...]:
    """Return the extended attributes of an open file, without the overlay's. Raises OSError."""
    try:
        names = os.listxattr(fd)
    except OSError:
        return ()
    own = (name for name in sorted(names) if name.startswith("user.") and not name.startswith(_OVERLAY))
    return tuple((name, os.getxattr(fd, name)) for name in own)


def _look(
    folder: int,
    name: bytes,
    path: bytes,
    opened: "UnlockedDirectories | None" = None,
    *,
    attributes: bytes,
    is_ours: bool = False,
) -> WalkedEntry:
    """Return an entry; `attributes`: the prefix of its path for reading extended attributes; empty: do not read them."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    kind = _TYPES.get(status.st_mode & _TYPE_BITS, FileType.DEVICE)
    mode = status.st_mode & _MODE_BITS
    if opened is not None and kind is FileType.DIRECTORY:
        mode = opened.own_mode(path, status.st_ino, mode)
        if status.st_mode & _READABLE != _READABLE:
            opened.unlock(path, _READABLE)
    own: tuple[tuple[str, bytes], ...] = ()
    overlay: tuple[tuple[str, bytes], ...] = ()
    if attributes and (kind is FileType.FILE or kind is FileType.DIRECTORY):
        with_files = is_ours or (opened is not None and opened.with_files)
        own, overlay = _attributes(folder, name, attributes + name, kind, is_ours=with_files)
    entry = _entry(folder, name, status, kind, mode, own)
    return WalkedEntry(path, entry, status.st_rdev, overlay, status.st_uid, status.st_gid)


def _entry(
    folder: int,
    name: bytes,
    status: os.stat_result,
    kind: FileType,
    mode: int,
    attributes: tuple[tuple[str, bytes], ...] = (),
) -> Entry:
    target = os.readlink(name, dir_fd=folder) if kind is FileType.SYMLINK else b""
    mtime, ctime = status.st_mtime_ns, status.st_ctime_ns
    # by position: by name it takes a third longer
    return Entry(kind, mode, status.st_size, status.st_ino, mtime, ctime, status.st_nlink, target, attributes)


def _attributes(
    folder: int, name: bytes, path: bytes, kind: FileType, *, is_ours: bool
) -> tuple[tuple[tuple[str, bytes], ...], tuple[tuple[str, bytes], ...]]:
    try:
        names = attribute_names.read_names(folder, name)
    except OSError:
        return (), ()
    if names in _USUAL:
        return (), _USUAL[names]
    own, overlay = [], []
    for attribute in sorted(map(os.fsdecode, names.split(b"\0")[:-1])):
        if attribute.startswith(_OVERLAY):
            mark = attribute[len(_OVERLAY) :]
            # The value of a harmless one is not used, and every copied-up file has one.
            overlay.append((mark, b"" if mark in HARMLESS_OVERLAY_ATTRIBUTES else _value(path, attribute, kind) or b""))
        elif attribute.startswith("user."):
            value = _value(path, attribute, kind)
            if value is None and is_ours:
                value = _unreadable_value(path, attribute)
            if value is not None:
                own.append((attribute, value))
    return tuple(own), tuple(overlay)


def _value(path: bytes, attribute: str, kind: FileType) -> bytes | None:
    """Return a value; None for an unreadable file: of the overlay's attributes the names suffice, others are lost."""
    try:
        return os.getxattr(path, attribute, follow_symlinks=False)
    except PermissionError:
        if kind is FileType.DIRECTORY:
            raise  # unknown whether it hides the lower directory
        return None


def _unreadable_value(path: bytes, attribute: str) -> bytes:
    """Return a value of an unreadable file of ours; it is made readable for a moment."""
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        proc_path, mode = f"/proc/self/fd/{fd}", stat.S_IMODE(os.fstat(fd).st_mode)
        os.chmod(proc_path, mode | 0o400)
        try:
            return os.getxattr(proc_path, attribute)
        finally:
            os.chmod(proc_path, mode)
    finally:
        os.close(fd)
