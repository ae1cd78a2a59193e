"""Bases that are taken beside a repository, and read back."""

import os
import shutil
from pathlib import Path

from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.overlay.lower_snapshot import Base
from agent_dev.overlay.lower_snapshot_take import Wish
from tests.harness.repository import ENVIRON, make_old, repository

GIT = shutil.which("git") or "git"


def wish_of(root: Path, **more: object) -> Wish:
    values: dict[str, object] = {"roots": (str(root),), "git": f"{root}/.git", "program": GIT, "environ": ENVIRON}
    return Wish(**{**values, **more})  # type: ignore[arg-type]


def taken(root: Path, **more: object) -> Base:
    """Take a base beside the root and read it back."""
    folder = root.parent / "base"
    base_take.take(str(folder), wish_of(root, **more))
    return Base(str(folder))


def stored(one: Base, path: str) -> bytes | None:
    """Return the bytes that a base has of its own."""
    place = one.stored(0, os.fsencode(path))
    return Path(place).read_bytes() if place else None


def old_repository(place: Path) -> Path:
    """Make a repository whose files are older than its index."""
    root = repository(place)
    make_old(root)
    return root
