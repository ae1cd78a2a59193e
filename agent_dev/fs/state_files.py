"""Files and folders of our own in the state directory: names in a folder, and files that are replaced as a whole."""

import os

from agent_dev.linux import streams


def list_names(folder: str) -> list[str]:
    """Return the names in a folder, none if it is missing."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def replace_file(path: str, data: bytes, *, is_durable: bool = False) -> None:
    """Replace a file atomically. Raises OSError.

    `is_durable`: sync it first, so that a power cut cannot lose both versions; the caller syncs the folder.
    """
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        streams.write_all(fd, data)
        if is_durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(f"{path}.new", path)
