"""A repository and its private copy, with a working tree in which the copy is used as inside the sandbox."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent_dev.git import private_copy
from agent_dev.git.private_copy import CopyRequest
from tests.harness.repository import commit, git

if TYPE_CHECKING:
    from agent_dev.git.git_dir import PrivateGitDir


class PrivateClone:
    """A repository, its private copy, and a working tree in which git uses that copy, as inside the sandbox."""

    def __init__(self, root: Path, linked: str = "") -> None:
        self.root = root
        self.session = root.parent / "session"
        self.session.mkdir()
        common = Path(git(root, "rev-parse", "--git-common-dir").strip())
        self.source = common if common.is_absolute() else root / common
        self.copy, self.object_store = self.session / "copy", self.session / "objects"
        wanted = CopyRequest(str(self.source), str(self.copy), str(self.object_store), "0", linked, roots=(str(root),))
        self.made: PrivateGitDir = private_copy.create_private_copy(wanted, "")

    def enter(self) -> Path:
        """Move the copy into a copy of the working tree, with alternates set to paths on the host; return that working tree."""
        inside = self.session / "inside"
        shutil.copytree(self.root, inside, symlinks=True, ignore=lambda place, _: [".git"] if Path(place) == self.root else [])
        self.copy.rename(inside / ".git")
        for path in (inside / ".git").rglob("alternates"):
            text = path.read_text()
            for outside, shown in sorted(self.made.stores, key=lambda store: -len(store[1])):
                text = text.replace(f"{shown}\n", f"{outside}\n")
            path.write_text(text)
        return inside


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def refs_of(place: Path) -> str:
    return git(place, "for-each-ref", "--format=%(refname) %(objectname) %(symref)") + git(place, "rev-parse", "HEAD")


HOST_ACTIONS: dict[str, Callable[[Path], object]] = {
    "gc": lambda root: git(root, "gc", "-q", "--prune=now", "--aggressive"),
    "repack": lambda root: git(root, "repack", "-qad"),
    "a reset that loses commits": lambda root: (
        git(root, "reset", "-q", "--hard", "HEAD~1"),
        git(root, "reflog", "expire", "--expire=now", "--all"),
        git(root, "gc", "-q", "--prune=now"),
    ),
    "a commit": lambda root: commit(root, "meanwhile"),
    "all objects gone": lambda root: shutil.rmtree(root / ".git/objects"),
}
