"""A second record of the modes of directories that a merge unlocked, next to its journal: they survive a damaged journal."""

import os
from collections.abc import Iterable
from typing import NamedTuple

from agent_dev.fs import checksummed_json, durable
from agent_dev.fs.unlocked_directories import UnlockedDirectories

NAME = "opened"


class Note(NamedTuple):
    """A directory: the path and inode of its root, its path below the root, its inode, and its own mode."""

    root: str
    root_inode: int
    path: bytes
    inode: int
    mode: int


def add(folder: str, note: Note) -> None:
    """Record a directory before it is unlocked; durable on return. Raises OSError."""
    line = checksummed_json.dumps({**note._asdict(), "path": os.fsdecode(note.path)})
    # The line break first: an incomplete line from a crash stays separate and is skipped.
    durable.append(f"{folder}/{NAME}", b"\n%b\n" % line)


def read(folder: str) -> tuple[Note, ...]:
    """Return the records in a merge's directory, in order; damaged lines are skipped."""
    try:
        with open(f"{folder}/{NAME}", "rb") as file:
            lines = file.read().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(note for note in map(_note, lines) if note is not None)


def _note(line: bytes) -> Note | None:
    try:
        row = checksummed_json.loads(line)
        path = os.fsencode(row["path"])
        return Note(str(row["root"]), int(row["root_inode"]), path, int(row["inode"]), int(row["mode"]))
    except (ValueError, LookupError, TypeError):
        return None


def remove(folder: str) -> None:
    """Remove the records once every directory has its own mode; durable on return. Raises OSError."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        durable.unlink(NAME.encode(), place)
        durable.fsync(place)
    except FileNotFoundError:
        return
    finally:
        os.close(place)


def restore(folder: str, notes: Iterable[Note]) -> None:
    """Restore the directories' own modes if the journal lost its records, and remove these records. Raises OSError."""
    by_root: dict[tuple[str, int], list[Note]] = {}
    for note in notes:
        by_root.setdefault((note.root, note.root_inode), []).append(note)
    for (root, inode), some in by_root.items():
        try:
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            if os.fstat(fd).st_ino == inode:
                unlocked = UnlockedDirectories(fd, lambda *one, root=root, inode=inode: add(folder, Note(root, inode, *one)))
                unlocked.restore([(note.path, note.inode, note.mode) for note in some])
        finally:
            os.close(fd)
    remove(folder)
