"""The lock of the user's index, taken as git takes it: while `index.lock` stands, no git writes the index.

It is moved there whole, so that after a crash everybody can read whose it is.
"""

import errno
import os

from agent_dev.commits.agent_git import refs
from agent_dev.fs import durable as disk
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay.changes import Entry, FileType

_NAME = b"index.lock"
_LONGEST = 4096


def _text(merge_id: str) -> bytes:
    return f"agent-dev merge {merge_id}\n".encode()


def take(folder: int, stage: Stage, merge_id: str) -> None:
    """Take the lock of an open git dir. Raises FileExistsError when a git holds it, OSError."""
    if refs.regular(f"{stage.path}/lock", _LONGEST) != _text(merge_id):
        if stage.look("lock") is not None:
            disk.unlink(b"lock", stage.fd)  # half of one, by a drive that was killed: nobody would know it as ours
        stage.put("lock", _text(merge_id), Entry(FileType.FILE, 0o644))
    try:
        disk.move(stage.fd, b"lock", folder, _NAME)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _make(folder, merge_id)


def _make(folder: int, merge_id: str) -> None:
    """Make the lock where no rename from the stage reaches."""
    fd = disk.create(_NAME, folder, 0o644)
    try:
        disk.write(fd, _text(merge_id))
    finally:
        os.close(fd)


def release(folder: str, merge_id: str) -> None:
    """Remove the lock where it is this merge's. Raises OSError."""
    if refs.regular(f"{folder}/index.lock", _LONGEST) != _text(merge_id):
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.unlink(_NAME, fd)
    finally:
        os.close(fd)
