"""Bringing a tree to an earlier state: an upper at rest, or what a running sandbox shows of one, through its own mount.

Each file is whole: it is made in a folder of ours in the same mount and renamed to its place. What is done twice comes out the
same, so that a restore that was cut short is simply done again.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint import snapshot
from agent_dev.checkpoint.restore_plan import Node, Restore
from agent_dev.fs import digest
from agent_dev.fs import durable as disk
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls as kernel

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_SOME = b"new"

Contents = Callable[[Node], int]


@dataclass(slots=True)
class Ground:
    """Where a restore works: the tree's root, a folder of ours in the same mount, and what opens a file's content.

    `contents` raises OSError.
    """

    root: int
    temp: int
    contents: Contents
    problems: list[str] = field(default_factory=list)


def carry_out(steps: Restore, ground: Ground) -> None:
    """Do what a restore needs; what cannot be done of it is in `ground.problems`. Raises OSError for a disk that fails."""
    opened: dict[str, int] = {}  # modes of directories that their owner had shut
    for path in steps.removed:
        _try(ground, path, lambda path=path: _remove(ground, path, opened))  # type: ignore[misc]  # mypy cannot infer it
    for node in steps.made:
        _try(ground, node.path, lambda node=node: _make(ground, node, steps, opened))  # type: ignore[misc]  # as above
    for node in steps.settled:
        _try(ground, node.path, lambda node=node: _settle(ground, node, opened))  # type: ignore[misc]  # as above
    for path, mode in sorted(opened.items(), reverse=True):
        _try(ground, path, lambda path=path, mode=mode: _shut(ground, path, mode))  # type: ignore[misc]  # as above


def _try(ground: Ground, path: str, act: Callable[[], None]) -> None:
    try:
        act()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS):
            raise
        ground.problems.append(f"{path}: {error.strerror}")


def _folder(ground: Ground, path: str, opened: dict[str, int]) -> int:
    """Open a directory, for writing into it: what its owner shut, of those above it too, is opened until the end."""
    fd = _let_in(ground, path, opened)
    mode = os.fstat(fd).st_mode & 0o7777
    if mode & 0o300 != 0o300:
        opened.setdefault(path, mode)
        disk.chmod(fd, 0o700)
    return fd


def _let_in(ground: Ground, path: str, opened: dict[str, int]) -> int:
    raw = os.fsencode(path) or b"."
    try:
        return kernel.open_below(ground.root, raw, _FOLDER)
    except PermissionError:
        for one in ("", *history.parents(path), path) if path else ("",):
            _open_shut(ground, one, opened)
    return kernel.open_below(ground.root, raw, _FOLDER)


def _open_shut(ground: Ground, path: str, opened: dict[str, int]) -> None:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
    # Not "." for the root, which would have to be searched.
    fd = kernel.open_below(ground.root, os.fsencode(path), flags) if path else os.dup(ground.root)
    try:
        mode = os.fstat(fd).st_mode & 0o7777
        if mode & 0o700 != 0o700:
            opened.setdefault(path, mode)
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)


def _split(path: str) -> tuple[str, bytes]:
    folder, _, name = path.rpartition("/")
    return folder, os.fsencode(name)


def _remove(ground: Ground, path: str, opened: dict[str, int]) -> None:
    folder, name = _split(path)
    try:
        fd = _folder(ground, folder, opened)
    except OSError as error:
        if error.errno in _GONE:
            return
        raise
    try:
        clear(fd, name)
    finally:
        os.close(fd)
        opened.pop(path, None)


def clear(folder: int, name: bytes) -> None:
    """Remove a name with all that is below it, and nothing when it is gone already."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if mode & 0o170000 != 0o040000:
            disk.unlink(name, folder)
            return
        try:
            disk.rmdir(name, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            remove_tree(f"/proc/self/fd/{folder}/{os.fsdecode(name)}")
    except FileNotFoundError:
        return


def _make(ground: Ground, node: Node, steps: Restore, opened: dict[str, int]) -> None:
    if node.kind == history.FILE and not node.content:
        raise OSError(errno.EACCES, "it could not be read when the checkpoint was taken")
    folder, name = _split(node.path)
    fd = _folder(ground, folder, opened)
    try:
        if node.kind == history.DIRECTORY:
            _make_folder(fd, name)
            return
        clear(ground.temp, _SOME)
        twin = steps.twins.get(node.path)
        if twin is not None:
            _link(ground, twin, opened)
        else:
            _build(ground, node)
        _place(ground, fd, name)
    finally:
        os.close(fd)


def _make_folder(folder: int, name: bytes) -> None:
    try:
        disk.mkdir(name, folder)
    except FileExistsError:
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o170000 != 0o040000:
            disk.unlink(name, folder)
            disk.mkdir(name, folder)


def _place(ground: Ground, folder: int, name: bytes) -> None:
    try:
        disk.put(ground.temp, _SOME, folder, name)
    except IsADirectoryError:
        clear(folder, name)
        disk.put(ground.temp, _SOME, folder, name)


def _link(ground: Ground, twin: str, opened: dict[str, int]) -> None:
    above, first = _split(twin)
    fd = _folder(ground, above, opened)
    try:
        disk.link(fd, first, ground.temp, _SOME)
    finally:
        os.close(fd)


def _build(ground: Ground, node: Node) -> None:
    """Make a node in the folder of ours."""
    match node.kind:
        case history.FILE:
            _build_file(ground, node)
        case history.SYMLINK:
            disk.symlink(os.fsencode(node.content), _SOME, ground.temp)
            _give(ground.temp, _SOME, node)
        case history.FIFO:
            disk.mkfifo(_SOME, ground.temp, node.mode)
            _give(ground.temp, _SOME, node)
        case history.SOCKET:
            disk.make_socket(_SOME, ground.temp, node.mode)
            _give(ground.temp, _SOME, node)
        case _:
            disk.whiteout(_SOME, ground.temp)


def _build_file(ground: Ground, node: Node) -> None:
    source = ground.contents(node)
    try:
        target = disk.create(_SOME, ground.temp)
        try:
            _fill(source, target, os.fstat(source).st_size)
            _give(ground.temp, _SOME, node)
            _set_attributes(target, node)
            disk.chmod(target, node.mode)
            disk.set_time(target, node.mtime)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _fill(source: int, target: int, size: int) -> None:
    end = 0
    for at, piece in digest.pieces(source, size):
        if at != end:
            os.lseek(target, at, os.SEEK_SET)
        disk.write(target, piece)
        end = at + len(piece)
    if end != size:
        disk.truncate(target, size)


def _give(folder: int, name: bytes, node: Node) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (status.st_uid, status.st_gid) != (node.owner, node.group):
        try:
            disk.chown_at(name, folder, node.owner, node.group)
        except PermissionError:
            return  # not ours to give: the group was one that the directory hands down


def _set_attributes(fd: int, node: Node) -> None:
    """Make an open file's or directory's attributes those of a node."""
    wanted = dict(one.split("=", 1) for one in node.attributes.split(",") if one)
    for name in os.listxattr(fd):
        if name not in wanted and snapshot.is_own(name):
            disk.remove_attribute(fd, name)
    for name, value in wanted.items():
        disk.set_attribute(fd, name, bytes.fromhex(value))


def _settle(ground: Ground, node: Node, opened: dict[str, int]) -> None:
    os.close(_let_in(ground, _split(node.path)[0], opened))
    opened.pop(node.path, None)
    fd = kernel.open_below(ground.root, os.fsencode(node.path) or b".", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(fd).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)
    fd = kernel.open_below(ground.root, os.fsencode(node.path) or b".", _FOLDER)
    try:
        if node.path:
            folder, name = _split(node.path)
            above = kernel.open_below(ground.root, os.fsencode(folder) or b".", _FOLDER)
            try:
                _give(above, name, node)
            finally:
                os.close(above)
        _set_attributes(fd, node)
        disk.chmod(fd, node.mode)
    finally:
        os.close(fd)


def _shut(ground: Ground, path: str, mode: int) -> None:
    fd = kernel.open_below(ground.root, os.fsencode(path) or b".", _FOLDER)
    try:
        disk.chmod(fd, mode)
    finally:
        os.close(fd)


def open_temp(folder: int, name: bytes) -> int:
    """Make an empty folder of ours in a directory, whatever a killed restore left there, and open it."""
    with _written_into(folder):
        clear(folder, name)
        disk.mkdir(name, folder)
        return kernel.open_below(folder, name, _FOLDER)


def close_temp(folder: int, name: bytes, fd: int) -> None:
    """Take the folder of ours away."""
    os.close(fd)
    with _written_into(folder):
        clear(folder, name)


@contextmanager
def _written_into(folder: int) -> Iterator[None]:
    """Let us into a directory that its owner shut, as long as a name of ours is made or removed in it."""
    if os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
        yield
        return
    mode = os.fstat(folder).st_mode & 0o7777
    disk.chmod(folder, 0o700)
    try:
        yield
    finally:
        disk.chmod(folder, mode)
