"""Read regular files from a directory that is not trusted."""

import os
import stat

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_regular_file(path: str, limit: int) -> bytes:
    """Return the content of a regular file, empty for anything else: a FIFO would block, a device might have side effects."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b""
        fd = os.open(path, _OPEN)
    except OSError:
        return b""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return b""
        data = b""
        while piece := os.read(fd, 1 << 16):
            data += piece
        return data
    finally:
        os.close(fd)


def are_real_directories(folder: str, *names: str) -> bool:
    """Return whether a directory and the named ones below it are real directories, not symlinks."""
    return all(stat.S_ISDIR(_mode(path)) for path in (folder, *(f"{folder}/{name}" for name in names)))


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0
