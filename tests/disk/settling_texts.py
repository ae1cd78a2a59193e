"""Texts that commits and the user's edits conflict in, and a repository that begins with them."""

from collections.abc import Callable
from pathlib import Path

from tests.harness import repository as made
from tests.harness.repository import git
from tests.harness.settling import users

LINES = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
MINE, AGENT = LINES.replace("two", "MINE"), LINES.replace("two", "AGENT").replace("seven", "SEVEN")


def commit(place: Path, subject: str, **files: str) -> str:
    """Commit files as the user does."""
    for name, text in files.items():
        (place / name).write_text(text)
    return made.commit(place, subject)


def users_repository(place: Path) -> Path:
    """Make a repository of the user's with a text, a file that is none, and one that will go."""
    return users(place, text=LINES, bin="\0a", gone="g\n")


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def renamed(name: str) -> Callable[[Path], object]:
    return lambda place: (place / "text").rename(place / name)
