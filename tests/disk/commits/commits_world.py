"""An ended session with a private git directory, from which commits are listed."""

import os
import time
from pathlib import Path

from agent_dev.agent_git import commits, refs
from agent_dev.git import bare, private_copy
from agent_dev.git.formats.commit_format import Commit
from agent_dev.session import store
from tests.harness.repository import ENVIRON, git

LONGEST = bare.TIMEOUT_SECONDS + 10


class Session:
    """An ended session with a private git directory in its upper; the agent works in `inside`."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.root, self.store = root, store.Store(str(folder / "state"))
        self.session = store.create_session(self.store)
        upper = Path(store.add_root(self.session, 0, str(root)).upper)
        self.git, self.inside = upper / ".git", upper
        os.mkdir(f"{self.session.folder}/git")
        made = private_copy.create_private_copy(
            private_copy.CopyRequest(f"{root}/.git", str(self.git), f"{self.session.folder}/git/farm", "0"), ""
        )
        self._stores = made.stores
        self.record: store.Record = {
            **store.BLANK,
            "root": str(root),
            "roots": [str(root)],
            "agent_home": str(folder / "aihome"),
            "git": [{"root": 0, "folder": f"{root}/.git", "common": f"{root}/.git", "inside": True}],
            "stores": [list(pair) for pair in made.stores],
        }
        refs.record_initial_refs(self.session, self.record)

    def let_agent(self, *words: str) -> str:
        """Run git as the agent does, with its alternates set to the paths of the object stores on the host."""
        alternates = self.git / "objects/info/alternates"
        text = alternates.read_text()
        alternates.write_text("".join(f"{outside}\n" for outside, _ in self._stores))
        printed = git(self.inside, *words)
        alternates.write_text(text)
        return printed

    def let_commit(self, subject: str) -> str:
        self.let_agent("commit", "-q", "--allow-empty", "-m", subject)
        return self.let_agent("rev-parse", "HEAD").strip()

    def made(self) -> tuple[Commit, ...]:
        """Return the listed commits; fail if that takes too long or leaves a temporary directory."""
        start = time.monotonic()
        try:
            return commits.list_session_commits(self.session, self.record, ENVIRON)
        finally:
            assert time.monotonic() - start < LONGEST
            assert not list(Path(self.session.folder).glob("skeleton-*"))

    def has_moved(self) -> bool:
        return refs.have_refs_changed(self.session, self.record)
