"""Unlock unreadable directories of the real tree while the end of a direct run, or a restore, reads them.

They are recorded in the snapshot's folder: if the command is killed, the next restore or direct run in the root restores
their modes.
"""

import os
from functools import partial

from agent_dev.fs import dir_tree, unlocked_modes
from agent_dev.fs.unlocked_directories import UnlockedDirectories


def allow_unlocking(tree: dir_tree.Tree, folder: str) -> UnlockedDirectories:
    """Let a real tree unlock directories, each recorded durably in a snapshot's folder first; return those of the tree."""
    record = partial(_record, folder, tree.path, os.fstat(tree.fd).st_ino)
    tree.unlocked = UnlockedDirectories(tree.fd, record, with_files=False)  # a new ctime would count as a change by the user
    return tree.unlocked


def lock_again(tree: dir_tree.Tree, folder: str) -> None:
    """Restore the modes of the directories that a tree unlocked, and forget them; it unlocks no more. Raises OSError."""
    if tree.unlocked:
        tree.restore_modes()
        unlocked_modes.remove(folder)
    tree.unlocked = None


def restore_modes(folder: str) -> None:
    """Restore the modes of the directories that a killed command unlocked. Raises OSError."""
    if notes := unlocked_modes.read(folder):
        unlocked_modes.restore(folder, notes)


def _record(folder: str, root: str, root_inode: int, path: bytes, inode: int, mode: int) -> None:
    unlocked_modes.add(folder, unlocked_modes.Note(root, root_inode, path, inode, mode))
