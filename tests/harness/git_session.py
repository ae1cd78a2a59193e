"""An ended session in a git repository, made without a sandbox: what the agent did is done in a copy, and becomes an upper."""

import os
import shutil
import time
from pathlib import Path
from typing import Any, Self

from agent_dev.commits import bring as bringing
from agent_dev.commits import report as found
from agent_dev.commits.agent_git import refs
from agent_dev.commits.bring import Brought
from agent_dev.commits.report import Looked
from agent_dev.commits.targets import Wish
from agent_dev.git import private_copy as private_git
from agent_dev.git import repository as repo
from agent_dev.merge import undo as undoing
from agent_dev.merge.review import Review, open_review
from agent_dev.merge.undo import Undone
from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.session import store
from agent_dev.session.sessions import Here
from tests.harness import trees
from tests.harness.repository import ENVIRON, git


class GitSession:
    """A root that is a repository; `agent` is the work tree as the agent sees it, `git_dir` its private git dir."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root, self.store = folder, root, store.Store(str(folder / "state"))
        self.session = store.create(self.store)
        self.upper = Path(store.add_root(self.session, 0, str(root)).upper)
        os.mkdir(f"{self.session.folder}/git")
        found_git = repo.find(str(root)).git
        assert found_git is not None
        copy = f"{self.upper}/.git" if found_git.inside else f"{self.session.folder}/git/0"
        linked = found_git.folder if found_git.is_linked else ""
        wish = private_git.Wish(found_git.common, copy, f"{self.session.folder}/objects", "0", linked)
        made = private_git.make(wish, "" if found_git.inside else found_git.common)
        self._stores = made.stores
        self.common = Path(copy)
        self.git_dir = Path(copy, "worktrees", os.path.basename(found_git.folder)) if linked else self.common
        self.record: store.Record = {
            **store.BLANK,
            "state": store.WAITING,
            "name": "",
            "root": str(root),
            "roots": [str(root)],
            "agent_home": str(folder / "aihome"),
            "git": {"folder": found_git.folder, "common": found_git.common, "inside": found_git.inside},
            "stores": [list(pair) for pair in made.stores],
            "command": ["claude"],
            "profile": "claude",
            "started": time.time_ns(),
            "launched": time.time_ns(),
        }
        refs.remember(self.session, self.record)
        program = shutil.which("git") or ""
        base_take.take(
            self.session.base, base_take.Wish(roots=(str(root),), git=found_git.folder, program=program, environ=ENVIRON)
        )
        self.agent = folder / "agent"
        shutil.copytree(root, self.agent, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        self._before = trees.read(root)
        store.write(self.session, self.record)
        self.said: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        store.let_go(self.session)

    def let_agent(self, *words: str) -> str:
        """Run git as the agent does, with the stores where the agent sees them."""
        alternates = self.common / "objects/info/alternates"
        text = alternates.read_text()
        alternates.write_text("".join(f"{outside}\n" for outside, _ in self._stores))
        said = git(self.agent, "--git-dir", str(self.git_dir), "--work-tree", str(self.agent), *words)
        alternates.write_text(text)
        return said

    def write(self, path: str, text: str) -> None:
        """Write a file as the agent does."""
        place = self.agent / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def commit(self, subject: str, **files: str) -> str:
        """Commit files as the agent does (`a__txt` is `a.txt`, with nothing: what there is); return the id."""
        for name, text in files.items():
            self.write(name.replace("___", "/").replace("__", "."), text)
        self.let_agent("add", "-A")
        self.let_agent("commit", "-q", "--allow-empty", "-m", subject)
        return self.let_agent("rev-parse", "HEAD").strip()

    def end(self) -> None:
        """Let what the agent's work tree holds become the upper."""
        before = {path: node for path, node in self._before.items() if not (path + b"/").startswith(b".git/")}
        trees.write_upper(self.upper, trees.upper_of(before, trees.read(self.agent)))

    def review(self) -> Review:
        """Open it; the caller closes."""
        return open_review(self.session, ENVIRON)

    def look(self) -> Looked:
        """Return what came of its git dir."""
        review = self.review()
        try:
            return found.look(review)
        finally:
            review.close()

    def bring(self, *words: str, name: str = "", **wish: Any) -> Brought:
        """Bring commits home, as flags would."""
        trailers = wish.pop("with_trailers", False)
        review = self.review()
        try:
            wanted = Wish(words or ("",), name, **wish)
            return bringing.bring(review, wanted, self.store, self.said.append, with_trailers=trailers)
        finally:
            review.close()

    def undo(self, *, is_three_way: bool = False) -> Undone:
        """Take the last merge back; the lock is given up for it, as another command's would be."""
        store.let_go(self.session)
        try:
            return undoing.undo(self.here, "", self.said.append, is_three_way=is_three_way)
        finally:
            self.session = store.hold(self.session)

    def redo(self) -> Undone:
        """Do it again."""
        store.let_go(self.session)
        try:
            return undoing.redo(self.here, "", self.said.append)
        finally:
            self.session = store.hold(self.session)

    def files(self) -> dict[str, bytes]:
        """Return what the real tree holds."""
        return {os.fsdecode(path): node.content for path, node in trees.read(self.root).items() if not path.startswith(b".git")}

    @property
    def here(self) -> Here:
        """Where commands work."""
        return Here(self.store, str(self.root), str(self.root), ENVIRON)
