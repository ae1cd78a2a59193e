"""The commands that undo a merge and apply it again, as they can be typed where the program runs."""

import os
from collections.abc import Sequence


def undo_command(roots: Sequence[str], merge_id: str) -> str:
    """Return the command that undoes the newest merge of a session with these roots: with its id, if they are not here."""
    return "agent-dev undo" if _is_here(roots) else f"agent-dev undo {merge_id}"


def redo_command(roots: Sequence[str], merge_id: str) -> str:
    """Return the command that applies the merge that was undone again: with its id, if its roots are not here."""
    return "agent-dev redo" if _is_here(roots) else f"agent-dev redo {merge_id}"


def _is_here(roots: Sequence[str]) -> bool:
    """Return whether the current directory belongs to one of the roots, and not to a repository in it."""
    try:
        folder = os.getcwd()
    except OSError:
        return False  # it was removed
    while folder not in roots:
        if os.path.lexists(f"{folder}/.git") or folder == "/":
            return False
        folder = os.path.dirname(folder)
    return True
