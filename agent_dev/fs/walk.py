"""Directory → entries: what an upper, or a root, holds. Links are never followed, any depth is walked."""

import errno
import os
import stat
from collections.abc import Callable, Iterator

from agent_dev.overlay.changes import Entry, FileType
from agent_dev.overlay.interpret import Found

Leave = Callable[[bytes, FileType], bool]

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OVERLAY = "user.overlay."
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
    leave: "Leave | None" = None,
) -> Iterator[Found]:
    """Yield all below a directory, parents before children. `skip`: names at the top that are passed over.

    What cannot be read goes into `problems` with its reason. `leave` says what is passed over with all that is in it.
    """
    told = problems if problems is not None else []
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    # One descriptor at any depth: down by openat, up by `..`.
    stack: list[tuple[bytes, list[bytes], int]] = []
    try:
        found, below = _left(_read(here, b"", told, attributes=attributes, skip=skip), leave)
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
                told.append(f"{os.fsdecode(inside)}: {error.strerror}")
                continue
            if not path:
                stack[0] = (b"", below, os.fstat(here).st_ino)
            os.close(here)
            here = child
            found, names = _left(_read(here, inside, told, attributes=attributes), leave)
            yield from found
            stack.append((inside, names, os.fstat(here).st_ino))
    finally:
        os.close(here)


def _left(read: tuple[list[Found], list[bytes]], leave: Leave | None) -> tuple[list[Found], list[bytes]]:
    if leave is None:
        return read
    found = [one for one in read[0] if not leave(one.path, one.entry.type)]
    kept = {one.path.rpartition(b"/")[2] for one in found}
    return found, [name for name in read[1] if name in kept]


def _down(here: int, name: bytes) -> int:
    child = os.open(name, _OPEN, dir_fd=here)
    try:
        os.stat("..", dir_fd=child)  # a directory that can be listed but not entered would not let us out again
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
    folder: int, path: bytes, problems: list[str], *, attributes: bool, skip: tuple[bytes, ...] = ()
) -> tuple[list[Found], list[bytes]]:
    found: list[Found] = []
    below: list[bytes] = []
    prefix = path + b"/" if path else b""
    try:
        names = sorted(os.fsencode(name) for name in os.listdir(folder))
    except OSError as error:
        problems.append(f"{os.fsdecode(path)}: {error.strerror}")
        return found, below
    for name in names:
        if name in skip:
            continue
        try:
            one = _look(folder, name, prefix + name, attributes=attributes)
        except OSError as error:
            problems.append(f"{os.fsdecode(prefix + name)}: {error.strerror}")
            continue
        found.append(one)
        if one.entry.type is FileType.DIRECTORY:
            below.append(name)
    below.reverse()
    return found, below


def entry(folder: int, name: bytes, *, attributes: bool = True) -> Entry:
    """Return one entry of an open directory; without `attributes` at half the cost. Raises OSError."""
    return _look(folder, name, name, attributes=attributes).entry


def _look(folder: int, name: bytes, path: bytes, *, attributes: bool) -> Found:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    kind = _TYPES.get(stat.S_IFMT(status.st_mode), FileType.DEVICE)
    target = os.readlink(name, dir_fd=folder) if kind is FileType.SYMLINK else b""
    own: tuple[tuple[str, bytes], ...] = ()
    overlay: tuple[tuple[str, bytes], ...] = ()
    if attributes and kind in (FileType.FILE, FileType.DIRECTORY):
        own, overlay = _attributes(folder, name, kind)
    own_entry = Entry(
        type=kind,
        mode=stat.S_IMODE(status.st_mode),
        size=status.st_size,
        inode=status.st_ino,
        mtime=status.st_mtime_ns,
        ctime=status.st_ctime_ns,
        links=status.st_nlink,
        target=target,
        attributes=own,
    )
    return Found(path, own_entry, status.st_rdev, overlay, status.st_uid, status.st_gid)


def _attributes(folder: int, name: bytes, kind: FileType) -> tuple[tuple[tuple[str, bytes], ...], tuple[tuple[str, bytes], ...]]:
    path = b"/proc/self/fd/%d/%b" % (folder, name)
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return (), ()
    own, overlay = [], []
    for attribute in sorted(names):
        if attribute.startswith(_OVERLAY):
            overlay.append((attribute[len(_OVERLAY) :], _value(path, attribute, kind) or b""))
        elif attribute.startswith("user."):
            value = _value(path, attribute, kind)
            if value is not None:
                own.append((attribute, value))
    return tuple(own), tuple(overlay)


def _value(path: bytes, attribute: str, kind: FileType) -> bytes | None:
    """Return a value; None for a file that may not be read: there the overlay's names say all, and others are lost."""
    try:
        return os.getxattr(path, attribute, follow_symlinks=False)
    except PermissionError:
        if kind is FileType.DIRECTORY:
            raise  # whether it hides the lower one is not known
        return None
