"""A repository and its private copy, as an agent would find it, and what the git of the user may do meanwhile."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent_dev.git import private_copy as private_git
from agent_dev.git.private_copy import Wish
from tests.harness.repository import commit, git

if TYPE_CHECKING:
    from agent_dev.sandbox.plan import GitDir


class Twin:
    """A repository, its private copy, and a work tree in which git uses that copy, as inside the sandbox."""

    def __init__(self, root: Path, linked: str = "") -> None:
        self.root = root
        self.session = root.parent / "session"
        self.session.mkdir()
        common = Path(git(root, "rev-parse", "--git-common-dir").strip())
        self.source = common if common.is_absolute() else root / common
        self.copy, self.farm = self.session / "copy", self.session / "objects"
        wish = Wish(str(self.source), str(self.copy), str(self.farm), "0", linked, roots=(str(root),))
        self.made: GitDir = private_git.make(wish, "")

    def enter(self) -> Path:
        """Put the copy where the agent sees it: in a twin of the work tree, its stores where they are on the host."""
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


HOST_DEEDS: dict[str, Callable[[Path], object]] = {
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
