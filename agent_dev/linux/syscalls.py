"""System calls that Python 3.11 has no words for, each a tiny named function that raises OSError.

On `_ctypes`, the C half of ctypes: the Python half costs 2.3 ms at every start (docs/decisions/0002-start-up.md).
"""

import _ctypes
import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWNS, NEWUSER, NEWPID = 0x00020000, 0x10000000, 0x20000000
RDONLY, NOSUID, NODEV, REMOUNT, REC, SLAVE, RELATIME = 0x1, 0x2, 0x4, 0x20, 0x4000, 0x80000, 0x200000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 0x1, 0x2, 0x4
NOREPLACE, EXCHANGE = 1, 2

_SET_PDEATHSIG, _SET_NO_NEW_PRIVS = 1, 38
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE, _CLONE_TREE, _CLOEXEC = -100, 0x1000, 0x8000, 1, 0x80000
_MOVE_FROM_EMPTY, _MOVE_TO_EMPTY = 0x4, 0x40
# The same numbers on every architecture: system calls added since 5.1 share one table.
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2  # LANDLOCK_SCOPE_*
_SCOPES_SINCE = 6  # ABI of Landlock: Linux 6.12
_IN_ROOT = 0x02 | 0x10  # NO_MAGICLINKS | IN_ROOT
_NO_XDEV = 0x01
_RESOLVE = _NO_XDEV | 0x02 | 0x04 | 0x08  # NO_XDEV | NO_MAGICLINKS | NO_SYMLINKS | BENEATH


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001  what ctypes.c_int is; no generic at run time
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


def _libc(name: str) -> _Function:
    return _Function(_ctypes.dlsym(_LIBRARY, name))


_LIBRARY = _ctypes.dlopen("", os.RTLD_NOW)
_unshare, _setns, _prctl, _mount, _renameat2, _syncfs, _syscall, _setrlimit = map(
    _libc, ("unshare", "setns", "prctl", "mount", "renameat2", "syncfs", "syscall", "setrlimit")
)


def _checked(result: int, what: str | bytes) -> int:
    if result < 0:
        number = _ctypes.get_errno()
        raise OSError(number, f"{os.fsdecode(what)}: {os.strerror(number)}")
    return result


def _numbers(*values: int) -> bytes:
    """Return the struct of __u64 that some system calls take."""
    return b"".join(value.to_bytes(8, sys.byteorder) for value in values)


def unshare(flags: int) -> None:
    """Leave namespaces for new ones."""
    _checked(_unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter a namespace."""
    _checked(_setns(fd, kind), "setns")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    _checked(_prctl(_SET_PDEATHSIG, 9, 0, 0, 0), "prctl")


FILE_SIZE, DATA, CORE, PROCESSES, OPEN_FILES = 1, 2, 4, 6, 7  # RLIMIT_*


def limit(resource: int, value: int) -> None:
    """Set a limit of this process and its children, for good; one that is lower already stays."""
    if _setrlimit(resource, _numbers(value, value)) < 0 and _ctypes.get_errno() != errno.EPERM:
        _checked(-1, "setrlimit")


def landlock() -> int:
    """Return the version of Landlock's ABI; 0 where the kernel has none."""
    version: int = _syscall(_CREATE_RULESET, None, 0, 1)
    return max(version, 0)


def has_scopes() -> bool:
    """Whether Landlock can scope signals and abstract sockets."""
    return landlock() >= _SCOPES_SINCE


def scope() -> None:
    """Keep this process and its children from signals to, and abstract sockets of, processes that are not of them."""
    ruleset = _checked(_syscall(_CREATE_RULESET, _numbers(0, 0, _ABSTRACT_SOCKETS | _SIGNALS), 24, 0), "landlock")
    _checked(_prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _checked(_syscall(_RESTRICT_SELF, ruleset, 0), "landlock")
    os.close(ruleset)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount a file system, or change a mount that there is; the words are those of the system call."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    _checked(_mount(words[0], words[1], words[2], flags, words[3]), f"mount {kind or ''} {target}")


def clone_mount(path: str) -> int:
    """Return a descriptor of a detached, recursive copy of the mount at `path`."""
    flags = _CLONE_TREE | _CLOEXEC | _AT_RECURSIVE
    return _checked(_syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags), f"open_tree {path}")


def restrict_mount(fd: int, attributes: int) -> None:
    """Set attributes on a detached mount and all below it."""
    wanted = _numbers(attributes, 0, 0, 0)
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    _checked(_syscall(_MOUNT_SETATTR, fd, b"", flags, wanted, 32), "mount_setattr")


def attach_mount(fd: int, target: int) -> None:
    """Attach a detached mount at an open directory or file."""
    flags = _MOVE_FROM_EMPTY | _MOVE_TO_EMPTY
    _checked(_syscall(_MOVE_MOUNT, fd, b"", target, b"", flags), "move_mount")


_LONGEST = 2000  # bytes of a path in one call: PATH_MAX is 4096
_hows: dict[int, bytes] = {}  # struct open_how by its flags


def open_below(folder: int, path: bytes, flags: int) -> int:
    """Open `path` below a directory: no symlink, magic link, `..` out of it or mount point is passed (openat2)."""
    here = -1
    try:
        while len(path) > _LONGEST:
            cut = path.rfind(b"/", 0, _LONGEST)
            step = _open_below(folder if here < 0 else here, path[:cut], os.O_PATH | os.O_DIRECTORY)
            if here >= 0:
                os.close(here)
            here, path = step, path[cut + 1 :]
        return _open_below(folder if here < 0 else here, path, flags)
    finally:
        if here >= 0:
            os.close(here)


def open_across(folder: int, path: bytes, flags: int) -> int:
    """Open `path` below a directory as `open_below` does, but across mount points: a place that the launcher mounted."""
    how = _numbers(flags | os.O_CLOEXEC, 0, _RESOLVE & ~_NO_XDEV)
    return _checked(_syscall(_OPENAT2, folder, path, how, 24), os.fsdecode(path))


def _open_below(folder: int, path: bytes, flags: int) -> int:
    how = _hows.get(flags)
    if how is None:  # made once: a merge opens as many files as it brings
        how = _hows[flags] = _numbers(flags | os.O_CLOEXEC, 0, _RESOLVE)
    return _checked(_syscall(_OPENAT2, folder, path, how, 24), path)


def is_in_root(root: int, path: bytes) -> bool:
    """Whether a path is there for a process whose root an open directory is: its links lead no further than that."""
    how = _numbers(os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT)
    try:
        os.close(_checked(_syscall(_OPENAT2, root, path, how, 24), "openat2"))
    except OSError:
        return False
    return True


def rename(old_folder: int, old: bytes, new_folder: int, new: bytes, flags: int = 0) -> None:
    """renameat2(2): NOREPLACE, EXCHANGE or neither."""
    _checked(_renameat2(old_folder, old, new_folder, new, flags), os.fsdecode(new))


def syncfs(fd: int) -> None:
    """Make all that was written to the file system of `fd` durable."""
    _checked(_syncfs(fd), "syncfs")


# seccomp's user notification (seccomp(2), seccomp_unotify(2)), and another process's memory


class _Char(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001  what ctypes.c_char is
    _type_ = "c"


def _buffer(size: int) -> "Any":
    return type("_Buffer", (_ctypes.Array,), {"_type_": _Char, "_length_": size})()


_FILTER, _NEW_LISTENER, _WAIT_KILLABLE, _EINVAL = 1, 8, 32, 22
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PIDFD_GETFD = 438
_PAGE = 4096


def listen(program: bytes) -> int:
    """Put a filter on this process and all it starts, and return the descriptor that tells of what it notifies."""
    code = _buffer(len(program))
    memoryview(code).cast("B")[:] = program
    words = (len(program) // 8).to_bytes(8, sys.byteorder) + _ctypes.addressof(code).to_bytes(8, sys.byteorder)
    _prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    number = _SECCOMP[os.uname().machine]
    found = _syscall(number, _FILTER, _NEW_LISTENER | _WAIT_KILLABLE, words)
    if found < 0 and _ctypes.get_errno() == _EINVAL:  # before Linux 5.19
        found = _syscall(number, _FILTER, _NEW_LISTENER, words)
    return _checked(found, "seccomp")


def borrow(pidfd: int, fd: int) -> int:
    """Return a copy of another process's descriptor (pidfd_getfd(2))."""
    return _checked(_syscall(_PIDFD_GETFD, pidfd, fd, 0), "pidfd_getfd")


_GET_INFO, _PID, _EXIT = 0xC040FF0B, 1 << 0, 1 << 3  # PIDFD_GET_INFO of 64 bytes, PIDFD_INFO_PID, PIDFD_INFO_EXIT


def parent(pidfd: int) -> int:
    """Return the pid of a process's parent, 0 for one that is none of ours. Raises OSError: before Linux 6.13, or it is gone."""
    import fcntl  # only where it is asked

    info = bytearray(64)
    info[:8] = _PID.to_bytes(8, sys.byteorder)
    fcntl.ioctl(pidfd, _GET_INFO, info)
    return int.from_bytes(info[24:28], sys.byteorder)


def exit_code(pidfd: int) -> int | None:
    """Return how a process ended that was waited for (128 + n for a signal); None before Linux 6.15, which does not tell."""
    import fcntl  # only where it is asked

    info = bytearray(64)
    info[:8] = _EXIT.to_bytes(8, sys.byteorder)
    try:
        fcntl.ioctl(pidfd, _GET_INFO, info)
    except OSError:
        return None
    if not int.from_bytes(info[:8], sys.byteorder) & _EXIT:
        return None
    status = int.from_bytes(info[60:64], sys.byteorder)
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8 & 0xFF


class Memory:
    """Reads the memory of other processes, many pieces by one call; a piece is not read where one of its pages is missing."""

    MOST, LONGEST = 256, 1 << 18  # pieces in one call, bytes of them all

    def __init__(self) -> None:
        self._data = _buffer(self.LONGEST)
        self._view = memoryview(self._data).cast("B")
        self._pieces = _buffer(16 + 16 * self.MOST)  # iovecs: ours, theirs
        self._bytes = memoryview(self._pieces).cast("B")
        self._bytes[:16] = _numbers(_ctypes.addressof(self._data), self.LONGEST)
        self._local = _Pointer(_ctypes.addressof(self._pieces))
        self._remote = _Pointer(_ctypes.addressof(self._pieces) + 16)
        self._read = _libc("process_vm_readv")

    def pieces(self, pid: int, wanted: bytes) -> bytes:
        """Return pieces one behind the other, those before the first that is missing. Raises OSError when that is the first.

        `wanted`: of each the address and the length, as two __u64.
        """
        self._bytes[16 : 16 + len(wanted)] = wanted
        got = _checked(self._read(pid, self._local, 1, self._remote, len(wanted) // 16, 0), "process_vm_readv")
        return bytes(self._view[:got])

    def text(self, pid: int, address: int, longest: int) -> bytes:
        """Return the bytes up to a NUL, `longest` at most. Raises OSError."""
        found = b""
        while len(found) < longest:
            start = address + len(found)
            piece = self.pieces(pid, _numbers(start, min(longest - len(found), _PAGE - start % _PAGE)))
            end = piece.find(b"\0")
            if end >= 0:
                return found + piece[:end]
            found += piece
        return found


class _Pointer(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001  what ctypes.c_void_p is
    _type_ = "P"
