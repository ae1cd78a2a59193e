"""System calls that Python 3.11 lacks, each as a small function that raises OSError.

On `_ctypes`, the C half of ctypes: the Python half costs 2.3 ms at every start (docs/decisions/0002-launch-path-imports.md).
"""

import _ctypes
import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWNS, NEWUSER, NEWPID = 0x00020000, 0x10000000, 0x20000000
NEWCGROUP, NEWUTS, NEWIPC, NEWNET = 0x02000000, 0x04000000, 0x08000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, REC, SLAVE, RELATIME = 0x1, 0x2, 0x4, 0x8, 0x20, 0x4000, 0x80000, 0x200000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 0x1, 0x2, 0x4
NOREPLACE, EXCHANGE = 1, 2

_SET_PDEATHSIG, _SET_DUMPABLE, _DROP_BOUNDING, _SET_NO_NEW_PRIVS = 1, 4, 24, 38
_CAPABILITY_VERSION, _MAX_CAPABILITIES = 0x20080522, 64
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE, _CLONE_TREE, _CLOEXEC = -100, 0x1000, 0x8000, 1, 0x80000
_MOVE_FROM_EMPTY, _MOVE_TO_EMPTY = 0x4, 0x40
# The same numbers on every architecture: system calls added since 5.1 share one table.
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_LISTXATTRAT, _NO_FOLLOW, _NAMES_SIZE = 465, 0x100, 256
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2  # LANDLOCK_SCOPE_*
_SCOPES_SINCE = 6  # ABI of Landlock: Linux 6.12
_IN_ROOT, _BENEATH = 0x02 | 0x10, 0x02 | 0x08  # NO_MAGICLINKS | IN_ROOT, NO_MAGICLINKS | BENEATH
_NO_XDEV = 0x01
_RESOLVE = _NO_XDEV | 0x02 | 0x04 | 0x08  # NO_XDEV | NO_MAGICLINKS | NO_SYMLINKS | BENEATH


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001  what ctypes.c_int is; no generic at run time
    _type_ = "i"


class _Char(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001  what ctypes.c_char is
    _type_ = "c"


def _buffer_type(size: int) -> "Any":
    return type("_Buffer", (_ctypes.Array,), {"_type_": _Char, "_length_": size})


def _buffer(size: int) -> "Any":
    return _buffer_type(size)()


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


def _libc(name: str) -> _Function:
    return _Function(_ctypes.dlsym(_LIBRARY, name))


_Names = _buffer_type(_NAMES_SIZE)
_LIBRARY = _ctypes.dlopen("", os.RTLD_NOW)
_unshare, _setns, _prctl, _mount, _renameat2, _syncfs, _syscall, _setrlimit, _getrlimit, _capset = map(
    _libc, ("unshare", "setns", "prctl", "mount", "renameat2", "syncfs", "syscall", "setrlimit", "getrlimit", "capset")
)


def _checked(result: int, name: str | bytes) -> int:
    if result < 0:
        number = _ctypes.get_errno()
        raise OSError(number, f"{os.fsdecode(name)}: {os.strerror(number)}")
    return result


def _u64s(*values: int) -> bytes:
    """Return values as the array of __u64 that some system calls take."""
    return b"".join(value.to_bytes(8, sys.byteorder) for value in values)


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _checked(_unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter a namespace."""
    _checked(_setns(fd, kind), "setns")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    _checked(_prctl(_SET_PDEATHSIG, 9, 0, 0, 0), "prctl")


def hide_process() -> None:
    """Refuse other processes of this user access to this one (ptrace, `/proc/PID/mem`, `fd`, …), until it execs."""
    _checked(_prctl(_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def drop_capabilities() -> None:
    """Drop all capabilities of this process, also from its bounding set."""
    for number in range(_MAX_CAPABILITIES):
        if _prctl(_DROP_BOUNDING, number, 0, 0, 0) < 0:
            break  # the kernel has no more
    _checked(_capset(_CAPABILITY_VERSION.to_bytes(4, sys.byteorder) + bytes(4), bytes(24)), "capset")


_INFINITY = (1 << 64) - 1
FILE_SIZE, DATA, CORE, PROCESSES, OPEN_FILES = 1, 2, 4, 6, 7  # RLIMIT_*


def set_limit(resource: int, value: int) -> None:
    """Set a resource limit, soft and hard, of this process and its children; a lower hard limit stays."""
    if _setrlimit(resource, _u64s(value, value)) < 0 and _ctypes.get_errno() != errno.EPERM:
        _checked(-1, "setrlimit")


PER_USER_LIMITS = (8, 11, 12)  # MEMLOCK, SIGPENDING, MSGQUEUE: counted for all processes of a user


def halve_limit(resource: int) -> None:
    """Set a resource limit of this process and its children to half of the hard limit; an infinite one stays."""
    found = _buffer(16)
    _checked(_getrlimit(resource, found), "getrlimit")
    hard = int.from_bytes(memoryview(found).cast("B")[8:16], sys.byteorder)
    if hard < _INFINITY:
        set_limit(resource, hard // 2)


def landlock_abi() -> int:
    """Return Landlock's ABI version; 0 if the kernel has no Landlock."""
    version: int = _syscall(_CREATE_RULESET, None, 0, 1)
    return max(version, 0)


def has_landlock_scopes() -> bool:
    """Return whether Landlock can scope signals and abstract sockets."""
    return landlock_abi() >= _SCOPES_SINCE


def restrict_scopes() -> None:
    """Prevent this process and its children from signalling other processes and from connecting to their abstract sockets."""
    ruleset = _checked(_syscall(_CREATE_RULESET, _u64s(0, 0, _ABSTRACT_SOCKETS | _SIGNALS), 24, 0), "landlock")
    _checked(_prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _checked(_syscall(_RESTRICT_SELF, ruleset, 0), "landlock")
    os.close(ruleset)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount a file system or change an existing mount, with the parameters of the system call."""
    arguments = [None if argument is None else os.fsencode(argument) for argument in (source, target, kind, data)]
    _checked(_mount(arguments[0], arguments[1], arguments[2], flags, arguments[3]), f"mount {kind or ''} {target}")


def clone_mount(path: str) -> int:
    """Return a descriptor of a detached, recursive copy of the mount at `path`."""
    flags = _CLONE_TREE | _CLOEXEC | _AT_RECURSIVE
    return _checked(_syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags), f"open_tree {path}")


def restrict_mount(fd: int, attributes: int) -> None:
    """Set attributes on a detached mount and all below it."""
    wanted = _u64s(attributes, 0, 0, 0)
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    _checked(_syscall(_MOUNT_SETATTR, fd, b"", flags, wanted, 32), "mount_setattr")


def attach_mount(fd: int, target: int) -> None:
    """Attach a detached mount at an open directory or file."""
    flags = _MOVE_FROM_EMPTY | _MOVE_TO_EMPTY
    _checked(_syscall(_MOVE_MOUNT, fd, b"", target, b"", flags), "move_mount")


_MAX_PATH = 2000  # bytes of a path in one call: PATH_MAX is 4096
_open_hows: dict[int, bytes] = {}  # struct open_how by its flags


def open_below(folder: int, path: bytes, flags: int) -> int:
    """Open `path` below a directory; openat2 refuses symlinks, magic links, `..` out of it and mount points."""
    here = -1
    try:
        while len(path) > _MAX_PATH:
            cut = path.rfind(b"/", 0, _MAX_PATH)
            step = _open_below(folder if here < 0 else here, path[:cut], os.O_PATH | os.O_DIRECTORY)
            if here >= 0:
                os.close(here)
            here, path = step, path[cut + 1 :]
        return _open_below(folder if here < 0 else here, path, flags)
    finally:
        if here >= 0:
            os.close(here)


def open_across(folder: int, path: bytes, flags: int) -> int:
    """Open `path` below a directory as `open_below` does, but across mount points, for mounts that the launcher made."""
    how = _u64s(flags | os.O_CLOEXEC, 0, _RESOLVE & ~_NO_XDEV)
    return _checked(_syscall(_OPENAT2, folder, path, how, 24), os.fsdecode(path))


def _open_below(folder: int, path: bytes, flags: int) -> int:
    how = _open_hows.get(flags)
    if how is None:  # cached: a merge opens every file it applies
        how = _open_hows[flags] = _u64s(flags | os.O_CLOEXEC, 0, _RESOLVE)
    return _checked(_syscall(_OPENAT2, folder, path, how, 24), path)


def list_attributes(folder: int, name: bytes) -> bytes:
    """Return the names of the extended attributes of a directory's entry, each with a NUL; a link is not followed.

    Since Linux 6.13. Raises OSError, with ERANGE for more than 256 bytes.
    """
    names = _Names()
    size = _checked(_syscall(_LISTXATTRAT, folder, name, _NO_FOLLOW, names, _NAMES_SIZE), name)
    found: bytes = names.raw[:size]
    return found


def exists_in_root(root: int, path: bytes) -> bool:
    """Return whether a path exists for a process with this root directory; links are resolved inside the root."""
    try:
        os.close(open_in_root(root, path, os.O_PATH))
    except OSError:
        return False
    return True


def open_in_root(root: int, path: bytes, flags: int) -> int:
    """Open `path` as a process with this root directory would."""
    how = _u64s(flags | os.O_CLOEXEC, 0, _IN_ROOT)
    return _checked(_syscall(_OPENAT2, root, path, how, 24), "openat2")


def open_beneath(folder: int, path: bytes, flags: int) -> int:
    """Open `path` below a directory, across mount points and links that stay below it (EXDEV if one does not)."""
    how = _u64s(flags | os.O_CLOEXEC, 0, _BENEATH)
    return _checked(_syscall(_OPENAT2, folder, path, how, 24), "openat2")


_FOLDER_ITSELF = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IS_ABSENT, _IS_FILE = errno.ENOENT, errno.ENOTDIR
_ITSELF_BENEATH, _ITSELF_IN_ROOT = _u64s(_FOLDER_ITSELF, 0, _BENEATH), _u64s(_FOLDER_ITSELF, 0, _IN_ROOT)


def can_be_directory(folder: int, path: bytes, *, in_root: bool) -> bool:
    """Return whether `path` may be a directory, not a link; False only if it certainly is not.

    Looks it up like `open_in_root` or `open_beneath`, but raises no error for a file: most paths are files, and a process waits
    for the result.
    """
    fd = _syscall(_OPENAT2, folder, path, _ITSELF_IN_ROOT if in_root else _ITSELF_BENEATH, 24)
    if fd >= 0:
        os.close(fd)
        return True
    return _ctypes.get_errno() not in (_IS_FILE, _IS_ABSENT)


def rename(old_folder: int, old: bytes, new_folder: int, new: bytes, flags: int = 0) -> None:
    """Call renameat2(2) with NOREPLACE, EXCHANGE or neither."""
    _checked(_renameat2(old_folder, old, new_folder, new, flags), os.fsdecode(new))


def syncfs(fd: int) -> None:
    """Make everything written to the file system of `fd` durable."""
    _checked(_syncfs(fd), "syncfs")


# seccomp's user notification (seccomp(2), seccomp_unotify(2)), and another process's memory


_FILTER, _NEW_LISTENER, _WAIT_KILLABLE, _EINVAL = 1, 8, 32, 22
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PIDFD_GETFD = 438
_PAGE = 4096


def install_listener(program: bytes) -> int:
    """Install a filter on this process and its children; return the listener descriptor for its notifications."""
    found = _install(program, _NEW_LISTENER | _WAIT_KILLABLE)
    if found < 0 and _ctypes.get_errno() == _EINVAL:  # before Linux 5.19
        found = _install(program, _NEW_LISTENER)
    return _checked(found, "seccomp")


def install_filter(program: bytes) -> None:
    """Install a filter on this process and its children."""
    _checked(_install(program, 0), "seccomp")


def _install(program: bytes, flags: int) -> int:
    code = _buffer(len(program))
    memoryview(code).cast("B")[:] = program
    filter_program = (len(program) // 8).to_bytes(8, sys.byteorder) + _ctypes.addressof(code).to_bytes(8, sys.byteorder)
    _prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    found: int = _syscall(_SECCOMP[os.uname().machine], _FILTER, flags, filter_program)
    return found


def pidfd_getfd(pidfd: int, fd: int) -> int:
    """Return a copy of another process's descriptor (pidfd_getfd(2))."""
    return _checked(_syscall(_PIDFD_GETFD, pidfd, fd, 0), "pidfd_getfd")


_GET_INFO, _PID, _EXIT = 0xC040FF0B, 1 << 0, 1 << 3  # PIDFD_GET_INFO of 64 bytes, PIDFD_INFO_PID, PIDFD_INFO_EXIT


def pidfd_parent(pidfd: int) -> int:
    """Return a process's parent pid, 0 for one outside our pid namespace. Raises OSError if it is gone or before Linux 6.13."""
    import fcntl  # not on the launch path

    info = bytearray(64)
    info[:8] = _PID.to_bytes(8, sys.byteorder)
    fcntl.ioctl(pidfd, _GET_INFO, info)
    return int.from_bytes(info[24:28], sys.byteorder)


def pidfd_exit_code(pidfd: int) -> int | None:
    """Return the exit code of a reaped process (128 + n for a signal); None before Linux 6.15."""
    import fcntl  # not on the launch path

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


class ProcessMemory:
    """Reads other processes' memory, many segments per call; a segment with a missing page is not read."""

    MAX_SEGMENTS, MAX_BYTES = 256, 1 << 18  # segments per call, bytes in total

    def __init__(self) -> None:
        self._data = _buffer(self.MAX_BYTES)
        self._view = memoryview(self._data).cast("B")
        self._pieces = _buffer(16 + 16 * self.MAX_SEGMENTS)  # iovecs: ours, theirs
        self._bytes = memoryview(self._pieces).cast("B")
        self._piece = self._bytes.cast("Q")
        self._bytes[:16] = _u64s(_ctypes.addressof(self._data), self.MAX_BYTES)
        self._local = _Pointer(_ctypes.addressof(self._pieces))
        self._remote = _Pointer(_ctypes.addressof(self._pieces) + 16)
        self._read = _libc("process_vm_readv")

    def read_segments(self, pid: int, wanted: bytes) -> bytes:
        """Return segments concatenated, up to the first unreadable one. Raises OSError if that is the first.

        `wanted`: address and length of each, as two __u64.
        """
        self._bytes[16 : 16 + len(wanted)] = wanted
        got = _checked(self._read(pid, self._local, 1, self._remote, len(wanted) // 16, 0), "process_vm_readv")
        return bytes(self._view[:got])

    def read_short_string(self, pid: int, address: int, max_size: int) -> bytes | None:
        """Return the bytes up to a NUL within `max_size` bytes of one page; None if there is no NUL. Raises OSError.

        Optimized: a process waits for this at each of its renames.
        """
        self._piece[2], self._piece[3] = address, min(max_size, _PAGE - address % _PAGE)
        got = self._read(pid, self._local, 1, self._remote, 1, 0)
        if got <= 0:
            _checked(got, "process_vm_readv")
            return None
        self._view[got] = 0  # an earlier read left data behind it
        text: bytes = self._data.value
        return text if len(text) < got else None

    def read_string(self, pid: int, address: int, longest: int) -> bytes:
        """Return the bytes up to a NUL, at most `longest`. Raises OSError."""
        found = b""
        while len(found) < longest:
            start = address + len(found)
            piece = self.read_segments(pid, _u64s(start, min(longest - len(found), _PAGE - start % _PAGE)))
            end = piece.find(b"\0")
            if end >= 0:
                return found + piece[:end]
            found += piece
        return found


class _Pointer(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001  what ctypes.c_void_p is
    _type_ = "P"
