"""Git's lock of the user's index: while `index.lock` exists, no git writes the index.

It is created with its content by one rename, so that its owner is known after a crash.
"""

import errno
import os

from agent_dev.fs import durable, read_regular
from agent_dev.fs.entry import Entry, FileType
from agent_dev.merge_engine.slots import Stage

_NAME = b"index.lock"
_MAX_LENGTH = 4096


def _text(merge_id: str) -> bytes:
    return f"agent-dev merge {merge_id}\n".encode()


def acquire(folder: int, stage: Stage, merge_id: str) -> None:
    """Acquire the index lock of an open git directory. Raises FileExistsError if git holds it, OSError."""
    if read_regular.read_regular_file(f"{stage.path}/lock", _MAX_LENGTH) != _text(merge_id):
        if stage.entry_in("lock") is not None:
            durable.unlink(b"lock", stage.fd)  # incomplete, from a killed run: recovery would not recognize it as ours
        stage.write("lock", _text(merge_id), Entry(FileType.FILE, 0o644))
    try:
        durable.rename_new(stage.fd, b"lock", folder, _NAME)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _make(folder, merge_id)


def _make(folder: int, merge_id: str) -> None:
    """Create the lock directly, if no rename from the stage reaches the git directory."""
    fd = durable.create(_NAME, folder, 0o644)
    try:
        durable.write(fd, _text(merge_id))
    finally:
        os.close(fd)


def release(folder: str, merge_id: str) -> None:
    """Remove the lock if it is this merge's. Raises OSError."""
    if read_regular.read_regular_file(f"{folder}/index.lock", _MAX_LENGTH) != _text(merge_id):
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        durable.unlink(_NAME, fd)
    finally:
        os.close(fd)
