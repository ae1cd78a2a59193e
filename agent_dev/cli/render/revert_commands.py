"""The commands that undo a merge and apply it again, as they can be typed where the program runs, and its repository."""

import os
from collections.abc import Sequence

from agent_dev.errors import Refused
from agent_dev.git.repository import find_location
from agent_dev.sanitize import visible


def undo_command(roots: Sequence[str], merge_id: str) -> str:
    """Return the command that undoes the newest merge of a session with these roots: with its id, if they are not here."""
    return "agent-dev undo" if _is_here(roots) else f"agent-dev undo {merge_id}"


def redo_command(roots: Sequence[str], merge_id: str) -> str:
    """Return the command that applies the merge that was undone again: with its id, if its roots are not here."""
    return "agent-dev redo" if _is_here(roots) else f"agent-dev redo {merge_id}"


def describe_place(roots: Sequence[str]) -> str:
    """Return ` in ROOT` for a merge of another repository than the current one, else ""."""
    return "" if _is_here(roots) else f" in {visible(roots[0])}"


def _is_here(roots: Sequence[str]) -> bool:
    """Return whether a command that is typed in the current directory is about one of the roots."""
    try:
        return find_location(os.getcwd()).root in roots
    except (Refused, OSError):
        return False  # in a bare repository, or a directory that was removed
