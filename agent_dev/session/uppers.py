"""Open the uppers of an ended session; unreadable directories in them may be unlocked while they are open.

Unlocked directories are recorded in the session's folder: the next command that locks the session restores their modes first if
this one is killed.
"""

import os
from collections.abc import Iterable
from functools import partial

from agent_dev.fs import checksummed_json, dir_tree, durable, unlocked_directories
from agent_dev.session.store import UNLOCKED_FILE, Session


def open_trees(session: Session, count: int) -> tuple[dir_tree.Tree, ...]:
    """Open the uppers of a locked session. Raises OSError."""
    restore_modes(session, count)
    trees = tuple(dir_tree.Tree(session.root(number, "").upper, is_ours=True) for number in range(count))
    for number, tree in enumerate(trees):
        tree.unlocked = unlocked_directories.UnlockedDirectories(tree.fd, partial(_record_mode, session, number))
    return trees


def close_trees(session: Session, trees: Iterable[dir_tree.Tree]) -> None:
    """Close uppers and restore the modes of unlocked directories. Raises OSError."""
    for tree in trees:
        try:
            tree.restore_modes()
        finally:
            tree.close()
    _forget(session)


def restore_modes(session: Session, count: int) -> None:
    """Restore the modes of directories that a killed command had unlocked. Raises OSError."""
    try:
        with open(f"{session.folder}/{UNLOCKED_FILE}", "rb") as file:
            rows = [row for row in map(_parse_row, file.read().split(b"\n")) if row is not None]
    except FileNotFoundError:
        return
    for number in range(count):
        root = os.open(session.root(number, "").upper, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            unlocked = unlocked_directories.UnlockedDirectories(root, partial(_record_mode, session, number))
            unlocked.restore((path, inode, mode) for root_number, path, inode, mode in rows if root_number == number)
        finally:
            os.close(root)
    _forget(session)


def _record_mode(session: Session, number: int, path: bytes, inode: int, mode: int) -> None:
    row = {"root": number, "path": path.decode("utf-8", "surrogateescape"), "inode": inode, "mode": mode}
    # The line break first: an incomplete line from a crash stays separate and is skipped.
    durable.append(f"{session.folder}/{UNLOCKED_FILE}", b"\n%b\n" % checksummed_json.dumps(row))


def _parse_row(line: bytes) -> tuple[int, bytes, int, int] | None:
    """Parse a line; return None if it is damaged, or a crash truncated it, which was before its directory was unlocked."""
    try:
        row = checksummed_json.loads(line)
        return int(row["root"]), str(row["path"]).encode("utf-8", "surrogateescape"), int(row["inode"]), int(row["mode"])
    except (ValueError, TypeError, LookupError):
        return None


def _forget(session: Session) -> None:
    try:
        os.unlink(f"{session.folder}/{UNLOCKED_FILE}")
    except FileNotFoundError:
        return
