"""Lower snapshots that are taken next to a repository, and read back."""

import os
import shutil
from pathlib import Path

from agent_dev.overlay import lower_snapshot_take
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.overlay.lower_snapshot_request import SnapshotRequest
from tests.harness.repository import ENVIRON, age_index_entries, repository

GIT = shutil.which("git") or "git"


def request_of(root: Path, **more: object) -> SnapshotRequest:
    values: dict[str, object] = {"roots": (str(root),), "git": f"{root}/.git", "program": GIT, "environ": ENVIRON}
    return SnapshotRequest(**{**values, **more})  # type: ignore[arg-type]


def taken(root: Path, **more: object) -> LowerSnapshot:
    """Take a lower snapshot next to the root and read it back."""
    folder = root.parent / "base"
    lower_snapshot_take.take_snapshot(str(folder), request_of(root, **more))
    return LowerSnapshot(str(folder))


def stored(one: LowerSnapshot, path: str) -> bytes | None:
    """Return the content that a lower snapshot stores itself."""
    place = one.stored_path(0, os.fsencode(path))
    return Path(place).read_bytes() if place else None


def is_in_index(one: LowerSnapshot, root: int, path: bytes) -> bool:
    """Return whether the content of a path is a blob that git's index identifies."""
    return one._content_location(root, path).startswith("@")


def old_repository(place: Path) -> Path:
    """Create a repository whose files are older than its index."""
    root = repository(place)
    age_index_entries(root)
    return root
