"""Files and folders of our own: list a folder, replace a file atomically, lock a directory."""

import fcntl
import os

from agent_dev.linux import streams

_PIECE = 1 << 16  # bytes; a regular file returns fewer only at its end


class DirectoryLock:
    """An exclusive lock on a directory (flock(2)), held for a `with` block, which waits for it. Raises OSError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def list_names(folder: str) -> list[str]:
    """Return the names in a folder, none if it is missing."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_file(path: str) -> bytes:
    """Return the content of a file by three system calls; a start may read a hundred. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, _PIECE)
        while len(data) % _PIECE == 0 and (more := os.read(fd, _PIECE)):
            data += more
    finally:
        os.close(fd)
    return data


def replace_file(path: str, data: bytes, *, is_durable: bool = False) -> None:
    """Replace a file atomically. Raises OSError.

    `is_durable`: sync the file first, so that a power cut cannot lose both versions; the caller syncs the folder.
    """
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        streams.write_all(fd, data)
        if is_durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(f"{path}.new", path)
