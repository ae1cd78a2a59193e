"""An ended session whose agent did something in its git directory, asked for its commits."""

import os
import time
from pathlib import Path

from agent_dev.commits.agent_git import commits, refs
from agent_dev.git import bare
from agent_dev.git import private_copy as private_git
from agent_dev.git.formats.commit_format import Commit
from agent_dev.session import store
from tests.harness.repository import ENVIRON, git

LONGEST = bare.SECONDS + 10


class Session:
    """An ended session whose agent had a private git directory in its upper; what `inside` does is the agent's doing."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.root, self.store = root, store.Store(str(folder / "state"))
        self.session = store.create(self.store)
        upper = Path(store.add_root(self.session, 0, str(root)).upper)
        self.git, self.inside = upper / ".git", upper
        os.mkdir(f"{self.session.folder}/git")
        made = private_git.make(private_git.Wish(f"{root}/.git", str(self.git), f"{self.session.folder}/git/farm", "0"), "")
        self._stores = made.stores
        self.record: store.Record = {
            **store.BLANK,
            "root": str(root),
            "roots": [str(root)],
            "agent_home": str(folder / "aihome"),
            "git": {"folder": f"{root}/.git", "common": f"{root}/.git", "inside": True},
            "stores": [list(pair) for pair in made.stores],
        }
        refs.remember(self.session, self.record)

    def let_agent(self, *words: str) -> str:
        """Run git as the agent does, with the stores where the agent sees them."""
        alternates = self.git / "objects/info/alternates"
        text = alternates.read_text()
        alternates.write_text("".join(f"{outside}\n" for outside, _ in self._stores))
        said = git(self.inside, *words)
        alternates.write_text(text)
        return said

    def let_commit(self, subject: str) -> str:
        self.let_agent("commit", "-q", "--allow-empty", "-m", subject)
        return self.let_agent("rev-parse", "HEAD").strip()

    def made(self) -> tuple[Commit, ...]:
        """Ask for the commits; fail when the answer takes too long."""
        start = time.monotonic()
        try:
            return commits.made(self.session, self.record, ENVIRON)
        finally:
            assert time.monotonic() - start < LONGEST
            assert not list(Path(self.session.folder).glob("skeleton-*"))

    def has_moved(self) -> bool:
        return refs.has_moved(self.session, self.record)
