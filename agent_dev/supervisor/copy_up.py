"""Make a directory of a mounted overlay independent of its lower layers, so that the kernel can rename it.

No step is visible in the sandbox. The overlay itself copies up everything below the directory, as for a write. Then the upper
directory is marked opaque, that is, without a lower part. A remount drops the kernel's dentries of the directory, so that the
next lookup finds no lower part. Whiteouts, which no longer hide anything, are removed last. If the process is killed between
two steps, the directory reads as before.

Copying up requires the right to read unreadable files (mode 000): it is done in the user namespace that owns the sandbox's
mounts, on descriptors below the overlay's root, without following links or crossing mount points.
"""

import errno
import fcntl
import os
import stat
import time

from agent_dev.linux import process, syscalls
from agent_dev.sandbox import overlay_refresh, overlay_root
from agent_dev.supervisor import open_files

_OPAQUE = "user.overlay.opaque"
_ABSENT = "user.agent-dev.absent"  # no file has it: replacing it copies up the file, then fails
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_BATCH, _MIN_FOR_THREADS, _THREADS = 256, 16, 8  # files per batch, minimum for threads, number of threads
_PASSES, _TRIES = 4, 4
_PAUSE = 0.005  # seconds between attempts while another process uses the directory
_MAX_PATH = 1 << 16  # bytes of a path
_GONE = (errno.ENOENT, errno.ESTALE, errno.ENODATA)
_NS_GET_USERNS = 0xB701

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_dev.supervisor.overlay_directory import OverlayDirectory
    from agent_dev.supervisor.protocol import SupervisedSandbox

    Node = tuple[int, bytes, bool]  # open directory, name in it, whether it is a regular file


def open_root(order: "SupervisedSandbox", number: int) -> tuple[int, int]:
    """Return a process of the sandbox and the root of one of its overlays, as that process sees it; -1 if there is none."""
    target = order.overlays[number][0]
    for pid in (process.first_child(order.init_pid), order.init_pid):
        fd = overlay_root.open_overlay(pid, target) if pid else -1
        if fd >= 0:
            return pid, fd
    return 0, -1


def make_independent(order: "SupervisedSandbox", directories: "list[OverlayDirectory]") -> int:
    """Make directories independent; return 0 or the errno of a failure."""
    syscalls.die_with_parent()
    for directory in directories:
        pid, root = open_root(order, directory.overlay)
        if root < 0:
            return errno.ENOENT
        target, upper = order.overlays[directory.overlay]
        code = _make_independent(pid, root, target, upper, directory)
        os.close(root)
        if code:
            return code
    return 0


def _make_independent(pid: int, root: int, target: str, upper: str, directory: "OverlayDirectory") -> int:
    upper_root = os.open(upper, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    user_namespace = fcntl.ioctl(mounts, _NS_GET_USERNS)
    os.close(mounts)
    try:
        code = _run_in_namespace(user_namespace, lambda: _copy_up_and_mark(root, upper_root, directory))
        if code:
            return code
        inside = os.fsencode(target) + b"/" + directory.path
        for _ in range(_TRIES):
            if not overlay_refresh.refresh_overlays(pid, (target,)):
                break
            if _run_in_namespace(user_namespace, lambda: _remove_whiteouts_if_pure(root, upper_root, directory)) == 0:
                return 0
            names = open_files.open_files_below(inside)
            if names:
                _run_in_namespace(user_namespace, lambda names=names: open_files.relink(root, directory.path, names))  # type: ignore[misc]
            else:
                time.sleep(_PAUSE)
        return _run_in_namespace(user_namespace, lambda: _remove_mark(upper_root, directory)) or errno.EBUSY
    finally:
        os.close(user_namespace)
        os.close(upper_root)


def _run_in_namespace(user_namespace: int, work: "Callable[[], None]") -> int:
    """Run a function in a child in a user namespace; return 0 or the errno of its failure."""
    child = os.fork()
    if child == 0:
        code = errno.EIO
        try:
            syscalls.die_with_parent()
            syscalls.setns(user_namespace, syscalls.NEWUSER)
            syscalls.die_with_parent()  # entering resets the setting
            work()
            code = 0
        except OSError as error:
            code = error.errno or errno.EIO
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return errno.EIO if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


# run in the user namespace


def _copy_up_and_mark(root: int, upper_root: int, directory: "OverlayDirectory") -> None:
    """Copy up the directory with all its content and mark it opaque. Raises OSError."""
    merged = syscalls.open_below(root, directory.path, _FOLDER)
    _check_identity(merged, directory)
    os.fchown(merged, -1, -1)  # copies it up without a change
    upper = syscalls.open_below(upper_root, directory.path, _FOLDER)
    for _ in range(_PASSES):  # later passes copy entries added to the lower directory since
        if not _copy_missing(merged, upper):
            break
    again = syscalls.open_below(root, directory.path, _FOLDER)
    _check_identity(again, directory)
    os.setxattr(upper, _OPAQUE, b"y")


def _check_identity(fd: int, directory: "OverlayDirectory") -> None:
    status = os.fstat(fd)
    if (status.st_dev, status.st_ino) != directory.identity:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


def _copy_missing(merged: int, upper: int) -> int:
    """Copy up all entries that the upper directory lacks; return their number."""
    batch: list[Node] = []
    folders: list[int] = []
    count = 0
    for fd, nodes in _missing(merged, upper):
        batch += nodes
        folders.append(fd)
        if len(batch) >= _BATCH or len(folders) >= _BATCH:
            count += _copy_batch(batch, folders)
    return count + _copy_batch(batch, folders)


def _missing(merged: int, upper: int) -> "Iterator[tuple[int, list[Node]]]":
    """Yield each directory, open, with its entries that the upper layer lacks; subdirectories are copied up first."""
    waiting = [b"."]
    while waiting:
        path = waiting.pop()
        try:
            fd = syscalls.open_below(merged, path, _FOLDER)
            upper_directory = syscalls.open_below(upper, path, _FOLDER)
        except FileNotFoundError:
            continue  # removed since
        present = set(map(os.fsencode, os.listdir(upper_directory)))
        os.close(upper_directory)
        missing: list[Node] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                is_directory = entry.is_dir(follow_symlinks=False)
                node = (fd, name, entry.is_file(follow_symlinks=False))
                if is_directory:
                    if name not in present:
                        _copy(node)
                    waiting.append(path + b"/" + name)
                    if len(waiting[-1]) > _MAX_PATH:
                        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
                elif name not in present:
                    missing.append(node)
        yield fd, missing


def _copy_batch(batch: "list[Node]", folders: list[int]) -> int:
    """Copy up files, many in parallel: the kernel syncs each one, so parallel copies cost little more."""
    if len(batch) < _MIN_FOR_THREADS:
        for node in batch:
            _copy(node)
    else:
        from concurrent.futures import ThreadPoolExecutor  # only for many

        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(_copy, batch):
                pass
    for fd in folders:
        os.close(fd)
    count = len(batch)
    batch.clear()
    folders.clear()
    return count


def _copy(node: "Node") -> None:
    """Make the overlay copy one file up by an operation without effect; a file that is gone is skipped."""
    fd, name, is_file = node
    try:
        if is_file:  # chown, even to the same owner, would clear its setuid bit
            os.setxattr(b"/proc/self/fd/%d/%b" % (fd, name), _ABSENT, b"", os.XATTR_REPLACE, follow_symlinks=False)
        else:
            os.chown(name, -1, -1, dir_fd=fd, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _GONE:
            raise


def _remove_whiteouts_if_pure(root: int, upper_root: int, directory: "OverlayDirectory") -> None:
    """Remove the whiteouts below a directory. Raises OSError while the kernel still sees its lower part."""
    fd = syscalls.open_below(root, directory.path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    is_pure = os.fstat(fd).st_ino != directory.identity[1]
    os.close(fd)
    if not is_pure:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    upper = syscalls.open_below(upper_root, directory.path, _FOLDER)
    waiting = [b"."]
    while waiting:
        path = waiting.pop()
        try:
            fd = syscalls.open_below(upper, path, _FOLDER)
        except FileNotFoundError:
            continue
        waiting += [path + b"/" + name for name in _remove_whiteouts(fd)]
        os.close(fd)


def _remove_whiteouts(fd: int) -> list[bytes]:
    """Remove the whiteouts in an open upper directory and keep its times; return its subdirectories."""
    status = os.fstat(fd)
    folders, is_changed = [], False
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(os.fsencode(entry.name))
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                status_of_entry = entry.stat(follow_symlinks=False)
                if stat.S_ISCHR(status_of_entry.st_mode) and status_of_entry.st_rdev == 0:
                    os.unlink(entry.name, dir_fd=fd)
                    is_changed = True
    if is_changed:
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
    return folders


def _remove_mark(upper_root: int, directory: "OverlayDirectory") -> None:
    """Remove the mark from a directory that the kernel still sees with its lower part. Raises OSError."""
    upper = syscalls.open_below(upper_root, directory.path, _FOLDER)
    os.removexattr(upper, _OPAQUE)
