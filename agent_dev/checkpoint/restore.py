"""Restore a tree to an earlier state: the upper of an ended session, or a running sandbox through its own mount.

Each file is created in a temporary folder in the same mount and renamed to its path. A restore is idempotent, so an interrupted
one is simply repeated.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_dev.checkpoint import restore_plan, snapshot
from agent_dev.checkpoint.restore_plan import Node, RestorePlan
from agent_dev.fs import digest, durable
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls
from agent_dev.quick_dataclass import dataclass, field

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_TEMP_NAME = b"new"

ContentOpener = Callable[[Node], int]


@dataclass(slots=True)
class RestoreContext:
    """The state of a restore: the tree's root, a temporary folder in the same mount, and a function that opens contents.

    `open_content` raises OSError.
    """

    root: int
    temp: int
    open_content: ContentOpener
    problems: list[str] = field(default_factory=list)


def restore_nodes(steps: RestorePlan, context: RestoreContext) -> None:
    """Carry out a restore; failures of single paths go to `context.problems`. Raises OSError if the disk fails."""
    unlocked: dict[str, int] = {}  # original modes of unlocked directories
    for path in steps.removed:
        _try(context, path, lambda path=path: _remove(context, path, unlocked))  # type: ignore[misc]  # mypy cannot infer it
    for node in steps.created:
        _try(context, node.path, lambda node=node: _make(context, node, steps, unlocked))  # type: ignore[misc]  # as above
    for node in steps.updated_directories:
        _try(context, node.path, lambda node=node: _set_metadata(context, node, unlocked))  # type: ignore[misc]  # as above
    for path, mode in sorted(unlocked.items(), reverse=True):
        _try(context, path, lambda path=path, mode=mode: _restore_mode(context, path, mode))  # type: ignore[misc]  # as above


def _try(context: RestoreContext, path: str, action: Callable[[], None]) -> None:
    try:
        action()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS):
            raise
        context.problems.append(f"{path}: {error.strerror}")


def _open_writable(context: RestoreContext, path: str, unlocked: dict[str, int]) -> int:
    """Open a directory for writing; unlock it and its parents until the end if their modes keep the owner out."""
    fd = _open_unlocking(context, path, unlocked)
    mode = os.fstat(fd).st_mode & 0o7777
    if mode & 0o300 != 0o300:
        unlocked.setdefault(path, mode)
        durable.chmod(fd, 0o700)
    return fd


def _open_unlocking(context: RestoreContext, path: str, unlocked: dict[str, int]) -> int:
    path_bytes = os.fsencode(path) or b"."
    try:
        return syscalls.open_below(context.root, path_bytes, _FOLDER)
    except PermissionError:
        for one in ("", *restore_plan.parent_paths(path), path) if path else ("",):
            _unlock(context, one, unlocked)
    return syscalls.open_below(context.root, path_bytes, _FOLDER)


def _unlock(context: RestoreContext, path: str, unlocked: dict[str, int]) -> None:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
    # Not "." for the root: that needs search permission.
    fd = syscalls.open_below(context.root, os.fsencode(path), flags) if path else os.dup(context.root)
    try:
        mode = os.fstat(fd).st_mode & 0o7777
        if mode & 0o700 != 0o700:
            unlocked.setdefault(path, mode)
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)


def _split(path: str) -> tuple[str, bytes]:
    folder, _, name = path.rpartition("/")
    return folder, os.fsencode(name)


def _remove(context: RestoreContext, path: str, unlocked: dict[str, int]) -> None:
    folder, name = _split(path)
    try:
        fd = _open_writable(context, folder, unlocked)
    except OSError as error:
        if error.errno in _GONE:
            return
        raise
    try:
        remove_entry(fd, name)
    finally:
        os.close(fd)
        unlocked.pop(path, None)


def remove_entry(folder: int, name: bytes) -> None:
    """Remove a name and everything below it, if it exists."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if mode & 0o170000 != 0o040000:
            durable.unlink(name, folder)
            return
        try:
            durable.rmdir(name, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            remove_tree(f"/proc/self/fd/{folder}/{os.fsdecode(name)}")
    except FileNotFoundError:
        return


def _make(context: RestoreContext, node: Node, steps: RestorePlan, unlocked: dict[str, int]) -> None:
    if node.kind == restore_plan.FILE and not node.content:
        raise OSError(errno.EACCES, "it was unreadable when the checkpoint was taken")
    folder, name = _split(node.path)
    fd = _open_writable(context, folder, unlocked)
    try:
        if node.kind == restore_plan.DIRECTORY:
            _make_directory(fd, name)
            return
        remove_entry(context.temp, _TEMP_NAME)
        link_target = steps.hard_links.get(node.path)
        if link_target is not None:
            _link(context, link_target, unlocked)
        else:
            _build(context, node)
        _move_into_place(context, fd, name)
    finally:
        os.close(fd)


def _make_directory(folder: int, name: bytes) -> None:
    try:
        durable.mkdir(name, folder)
    except FileExistsError:
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o170000 != 0o040000:
            durable.unlink(name, folder)
            durable.mkdir(name, folder)


def _move_into_place(context: RestoreContext, folder: int, name: bytes) -> None:
    try:
        durable.rename_over(context.temp, _TEMP_NAME, folder, name)
    except IsADirectoryError:
        remove_entry(folder, name)
        durable.rename_over(context.temp, _TEMP_NAME, folder, name)


def _link(context: RestoreContext, link_target: str, unlocked: dict[str, int]) -> None:
    parent_fd, first = _split(link_target)
    fd = _open_writable(context, parent_fd, unlocked)
    try:
        durable.link(fd, first, context.temp, _TEMP_NAME)
    finally:
        os.close(fd)


def _build(context: RestoreContext, node: Node) -> None:
    """Create a node in the temporary folder."""
    match node.kind:
        case restore_plan.FILE:
            _build_file(context, node)
        case restore_plan.SYMLINK:
            durable.symlink(os.fsencode(node.content), _TEMP_NAME, context.temp)
            _set_owner(context.temp, _TEMP_NAME, node)
            durable.set_time_at(_TEMP_NAME, context.temp, node.mtime)
        case restore_plan.FIFO:
            durable.mkfifo(_TEMP_NAME, context.temp, node.mode)
            _set_owner(context.temp, _TEMP_NAME, node)
            durable.set_time_at(_TEMP_NAME, context.temp, node.mtime)
        case restore_plan.SOCKET:
            durable.make_socket(_TEMP_NAME, context.temp, node.mode)
            _set_owner(context.temp, _TEMP_NAME, node)
        case _:
            durable.whiteout(_TEMP_NAME, context.temp)


def _build_file(context: RestoreContext, node: Node) -> None:
    source = context.open_content(node)
    try:
        target = durable.create(_TEMP_NAME, context.temp)
        try:
            _fill(source, target, os.fstat(source).st_size)
            _set_owner(context.temp, _TEMP_NAME, node)
            _set_attributes(target, node)
            durable.chmod(target, node.mode)
            durable.set_time(target, node.mtime)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _fill(source: int, target: int, size: int) -> None:
    end = 0
    for offset, piece in digest.read_data(source, size):
        if offset != end:
            os.lseek(target, offset, os.SEEK_SET)
        durable.write(target, piece)
        end = offset + len(piece)
    if end != size:
        durable.truncate(target, size)


def _set_owner(folder: int, name: bytes, node: Node) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (status.st_uid, status.st_gid) != (node.owner, node.group):
        try:
            durable.chown_at(name, folder, node.owner, node.group)
        except PermissionError:
            return  # not permitted: the group was inherited from the directory


def _set_attributes(fd: int, node: Node) -> None:
    """Set the attributes of an open file or directory to those of a node."""
    wanted = dict(one.split("=", 1) for one in node.attributes.split(",") if one)
    for name in os.listxattr(fd):
        if name not in wanted and snapshot.is_preserved_attribute(name):
            durable.remove_attribute(fd, name)
    for name, value in wanted.items():
        durable.set_attribute(fd, name, bytes.fromhex(value))


def _set_metadata(context: RestoreContext, node: Node, unlocked: dict[str, int]) -> None:
    os.close(_open_unlocking(context, _split(node.path)[0], unlocked))
    unlocked.pop(node.path, None)
    fd = syscalls.open_below(context.root, os.fsencode(node.path) or b".", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(fd).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)
    fd = syscalls.open_below(context.root, os.fsencode(node.path) or b".", _FOLDER)
    try:
        if node.path:
            folder, name = _split(node.path)
            parent_fd = syscalls.open_below(context.root, os.fsencode(folder) or b".", _FOLDER)
            try:
                _set_owner(parent_fd, name, node)
            finally:
                os.close(parent_fd)
        _set_attributes(fd, node)
        durable.chmod(fd, node.mode)
    finally:
        os.close(fd)


def _restore_mode(context: RestoreContext, path: str, mode: int) -> None:
    fd = syscalls.open_below(context.root, os.fsencode(path) or b".", _FOLDER)
    try:
        durable.chmod(fd, mode)
    finally:
        os.close(fd)


def create_temp_folder(folder: int, name: bytes) -> int:
    """Create an empty temporary folder in a directory, replacing a leftover, and open it."""
    with _make_writable(folder):
        remove_entry(folder, name)
        durable.mkdir(name, folder)
        return syscalls.open_below(folder, name, _FOLDER)


def remove_temp_folder(folder: int, name: bytes, fd: int) -> None:
    """Remove the temporary folder."""
    os.close(fd)
    with _make_writable(folder):
        remove_entry(folder, name)


@contextmanager
def _make_writable(folder: int) -> Iterator[None]:
    """Make a directory writable for its owner while the temporary folder is created or removed in it."""
    if os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
        yield
        return
    mode = os.fstat(folder).st_mode & 0o7777
    durable.chmod(folder, 0o700)
    try:
        yield
    finally:
        durable.chmod(folder, mode)
