"""Texts for conflicts between commits and edits of the user, and a repository that contains the base version."""

from collections.abc import Callable
from pathlib import Path

from tests.harness import repository as made
from tests.harness.commit_conflicts import make_users_repository
from tests.harness.repository import git

LINES = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
USER_SIDE, AGENT = LINES.replace("two", "MINE"), LINES.replace("two", "AGENT").replace("seven", "SEVEN")


def commit(place: Path, subject: str, **files: str) -> str:
    """Commit files as the user."""
    for name, text in files.items():
        (place / name).write_text(text)
    return made.commit(place, subject)


def users_repository(place: Path) -> Path:
    """Create a user's repository with a text file, a binary file, and a file that a side deletes."""
    return make_users_repository(place, text=LINES, bin="\0a", gone="g\n")


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def renamed(name: str) -> Callable[[Path], object]:
    return lambda place: (place / "text").rename(place / name)
