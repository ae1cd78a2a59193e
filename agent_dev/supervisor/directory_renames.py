"""Supervise renames of directories: find those that the overlay would refuse, and let workers prepare them.

An unprivileged overlay fails the rename of a directory that has a lower part (EXDEV). A worker first makes such a directory
independent of its lower layers, in place and without a visible change (`supervisor/copy_up.py`). Then, as for every other
rename, the kernel performs the caller's own call. Nothing is done on behalf of the caller, so a race can only make a worker
prepare a directory in vain (docs/decisions/0032-directory-renames.md).
"""

import errno
import os

from agent_dev.linux import signals, syscalls
from agent_dev.supervisor.notify import AT_FDCWD
from agent_dev.supervisor.overlay_directory import OverlayDirectory
from agent_dev.supervisor.protocol import CONTROL, REPORT

_MAX_WORKERS = 4  # concurrent workers
_MAX_PATH, _USUAL_PATH = 4096, 512  # bytes
_MAX_DEPTH = 4096  # levels
_KIND, _IS_DIRECTORY = 0o170000, 0o040000
_OPEN_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_OPEN_PATH = os.O_PATH | os.O_CLOEXEC
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select

    from agent_dev.supervisor.notify import Listener, RenameCall
    from agent_dev.supervisor.protocol import SupervisedSandbox


class RenameHandler:
    """Answers renames; `workers` maps the descriptors of running workers, for the caller's poll."""

    def __init__(self, listener: "Listener", poll: "select.poll", sandbox: "SupervisedSandbox") -> None:
        self.workers: dict[int, tuple[int, RenameCall]] = {}
        self._waiting: list[tuple[RenameCall, list[OverlayDirectory]]] = []
        self._listener, self._poll, self._sandbox = listener, poll, sandbox
        self._memory = syscalls.ProcessMemory()
        self._overlays: dict[tuple[int, int], int] = {}  # overlay numbers by device and inode of the root
        self._devices: set[int] = set()
        self._uppers: list[int] = []

    def handle(self, call: "RenameCall") -> None:
        """Allow a rename, now or once its directories are prepared."""
        try:
            directories = self._directories_to_prepare(call)
        except OSError:
            directories = []  # the kernel will return the error
        if not directories:
            self._listener.allow(call.id)
        elif len(self.workers) < _MAX_WORKERS:
            self._start_worker(call, directories)
        else:
            self._waiting.append((call, directories))

    def finish(self, fd: int) -> None:
        """Answer a call whose worker has exited."""
        pid, call = self.workers.pop(fd)
        self._poll.unregister(fd)
        os.close(fd)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code in _DISK_FULL:
            self._listener.refuse(call.id, code)
        else:
            self._listener.allow(call.id)
        while self._waiting and len(self.workers) < _MAX_WORKERS:
            call, directories = self._waiting.pop(0)
            if self._listener.is_valid(call.id):
                self._start_worker(call, directories)

    def end(self) -> None:
        """Kill all workers and wait until they have exited, since they would keep the overlay in use."""
        for fd, (pid, _) in self.workers.items():
            os.killpg(pid, signals.KILL)
            while os.read(fd, 1):
                pass
            os.waitpid(pid, 0)
        self.workers.clear()

    def _start_worker(self, call: "RenameCall", directories: list[OverlayDirectory]) -> None:
        from agent_dev.supervisor import copy_up  # only if a directory is renamed

        pipe_r, pipe_w = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = errno.EIO
            try:
                os.setpgid(0, 0)
                for fd in (self._listener.fd, CONTROL, REPORT, pipe_r):
                    os.close(fd)
                code = copy_up.make_independent(self._sandbox, directories)
            except OSError as error:
                code = error.errno or errno.EIO
            finally:
                os._exit(code)
        os.close(pipe_w)
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass  # the child has set it itself, and may have exited
        self.workers[pipe_r] = (pid, call)
        self._poll.register(pipe_r)

    # the arguments of a rename

    def _directories_to_prepare(self, call: "RenameCall") -> list[OverlayDirectory]:
        """Return the directories to prepare; empty if the call can continue now. Raises OSError."""
        old = self._read_path(call.pid, call.old)
        if not self._is_directory(call.pid, call.old_folder, old):
            if not call.flags & syscalls.EXCHANGE:
                return []
            source = None
        else:
            source = self._locate(call.pid, call.old_folder, old)
        return self._unless_refused(call, source, self._read_path(call.pid, call.new))

    def _unless_refused(self, call: "RenameCall", source: OverlayDirectory | None, new: bytes) -> list[OverlayDirectory]:
        """Return the directories to prepare, unless the kernel refuses the call before it reaches the overlay."""
        is_exchange = bool(call.flags & syscalls.EXCHANGE)
        if source is None and not is_exchange:
            return []
        folder, name = _split(new)
        parent = self._open(call.pid, call.new_folder, folder)
        try:
            if os.fstat(parent).st_dev not in self._known_devices():
                return []  # another mount
            target = _status(parent, name)
            location = self._locate_open(parent)
        finally:
            os.close(parent)
        is_directory = target is not None and target.st_mode & _KIND == _IS_DIRECTORY
        if source is not None and (location == source or (location and location.path.startswith(source.path + b"/"))):
            return []  # into itself
        if is_exchange:
            other = self._locate(call.pid, call.new_folder, new) if is_directory else None
            return [directory for directory in (source, other) if directory and not self._is_pure(directory)] if target else []
        if target is not None and (call.flags & syscalls.NOREPLACE or not is_directory):
            return []
        return [source] if source and not self._is_pure(source) else []

    def _read_path(self, pid: int, address: int) -> bytes:
        text = self._memory.read_short_string(pid, address, _USUAL_PATH)
        return self._memory.read_string(pid, address, _MAX_PATH) if text is None else text

    def _is_directory(self, pid: int, folder: int, path: bytes) -> bool:
        """Return whether a path is a directory. Most are files and the caller waits, so this is optimized."""
        if b"/" not in path:
            return os.lstat(_base(pid, folder) + b"/" + path).st_mode & _KIND == _IS_DIRECTORY
        is_absolute = path.startswith(b"/")
        start = os.open(b"/proc/%d/root" % pid if is_absolute else _base(pid, folder), _OPEN_PATH)
        can_be = syscalls.can_be_directory(start, path, in_root=is_absolute)
        os.close(start)
        if not can_be:
            return False
        try:
            os.close(self._open(pid, folder, path.rstrip(b"/") or b"/", os.O_NOFOLLOW))
        except NotADirectoryError:
            return False
        return True

    def _open(self, pid: int, folder: int, path: bytes, flags: int = 0) -> int:
        """Open a directory as the process would, with its root and its links. Raises OSError."""
        flags |= os.O_PATH | os.O_DIRECTORY
        is_absolute = path.startswith(b"/")
        start = os.open(b"/proc/%d/root" % pid if is_absolute else _base(pid, folder), _OPEN_PATH)
        try:
            if is_absolute:
                return syscalls.open_in_root(start, path, flags)
            try:
                return syscalls.open_beneath(start, path, flags)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
        finally:
            os.close(start)
        return self._open(pid, folder, _absolute(pid, folder, path), flags)  # the path leaves the directory by .. or a link

    def _locate(self, pid: int, folder: int, path: bytes) -> OverlayDirectory | None:
        """Return a directory's overlay and its path there; None if it is in no overlay. Raises OSError."""
        parent_path, name = _split(path)
        if name in (b"", b".", b".."):
            return None
        parent = self._open(pid, folder, parent_path)
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if status.st_dev not in self._known_devices():
                return None
            location = self._locate_open(parent)
        finally:
            os.close(parent)
        if location is None:
            return None
        return OverlayDirectory(location.overlay, (location.path + b"/" + name).lstrip(b"/"), (status.st_dev, status.st_ino))

    def _locate_open(self, folder: int) -> OverlayDirectory | None:
        """Return where an open directory is in an overlay, by walking up to the overlay's root."""
        status = os.fstat(folder)
        identity = here = (status.st_dev, status.st_ino)
        fd, levels = os.dup(folder), 0
        try:
            while here not in self._overlays:
                above = os.open("..", _OPEN_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
                os.close(fd)
                fd, previous = above, here
                status = os.fstat(fd)
                here = (status.st_dev, status.st_ino)
                levels += 1
                if here == previous or levels > _MAX_DEPTH:
                    return None
        finally:
            os.close(fd)
        names = os.readlink(b"/proc/self/fd/%d" % folder).split(b"/")
        return OverlayDirectory(self._overlays[here], b"/".join(names[len(names) - levels :]), identity)

    def _known_devices(self) -> set[int]:
        """Return the overlays' devices; the overlays are opened at the first rename of a directory."""
        if not self._uppers:
            self._uppers = [os.open(upper, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for _, upper in self._sandbox.overlays]
        if not self._devices:
            from agent_dev.supervisor import copy_up  # only if a directory is renamed

            for number in range(len(self._uppers)):
                _, fd = copy_up.open_root(self._sandbox, number)
                if fd >= 0:
                    status = os.fstat(fd)
                    os.close(fd)
                    self._overlays[status.st_dev, status.st_ino] = number
                    self._devices.add(status.st_dev)
        return self._devices

    def _is_pure(self, directory: OverlayDirectory) -> bool:
        """Return whether a directory has no visible lower part, so that the kernel can rename it."""
        try:
            fd = syscalls.open_below(self._uppers[directory.overlay], directory.path, _OPEN_DIRECTORY)
        except OSError:
            return False
        try:
            if os.fstat(fd).st_ino == directory.identity[1]:
                return True
            return os.getxattr(b"/proc/self/fd/%d" % fd, "user.overlay.opaque") == b"y"
        except OSError:
            return False
        finally:
            os.close(fd)


def _base(pid: int, folder: int) -> bytes:
    return b"/proc/%d/cwd" % pid if folder == AT_FDCWD else b"/proc/%d/fd/%d" % (pid, folder)


def _split(path: bytes) -> tuple[bytes, bytes]:
    """Return a path's directory and its last component."""
    folder, slash, name = path.rstrip(b"/").rpartition(b"/")
    return folder or slash or b".", name


def _absolute(pid: int, folder: int, path: bytes) -> bytes:
    """Return a relative path as an absolute one in the process's root. Raises OSError if it leaves that root."""
    root = os.readlink(b"/proc/%d/root" % pid).rstrip(b"/")
    base = os.readlink(_base(pid, folder))
    if base != root and not base.startswith(root + b"/"):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return base[len(root) :] + b"/" + path


def _status(folder: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
