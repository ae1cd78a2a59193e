"""A user's repository into which commits are imported."""

from pathlib import Path

from tests.harness.repository import git, repository


def graces_repository(place: Path) -> Path:
    """Create a repository whose user has a name and an e-mail address."""
    repository(place)
    git(place, "config", "user.name", "Grace")
    git(place, "config", "user.email", "grace@example.invalid")
    return place


def status(root: Path) -> str:
    return git(root, "status", "--porcelain")


def head(root: Path, name: str = "HEAD") -> str:
    return git(root, "rev-parse", name).strip()


def fsck(root: Path) -> str:
    return git(root, "fsck", "--strict", "--no-dangling")


def refs(root: Path) -> str:
    return git(root, "for-each-ref", "--format=%(objectname) %(refname)")
