"""An ended session in git repositories, created without a sandbox: the agent works in a copy, which becomes the upper layer."""

import os
import shutil
import time
from pathlib import Path
from typing import Any, Self

from agent_dev.agent_git import refs
from agent_dev.commits import importer as bringing
from agent_dev.commits import report
from agent_dev.commits.import_result import ImportResult
from agent_dev.commits.report import CommitReport
from agent_dev.commits.targets import ImportOptions
from agent_dev.git import private_copy, repository
from agent_dev.merge import undo as undoing
from agent_dev.merge.review import Review, open_review
from agent_dev.merge.undo import UndoResult
from agent_dev.overlay import lower_snapshot_request, lower_snapshot_take
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext
from tests.harness import trees
from tests.harness.repository import ENVIRON, git


class AgentRoot:
    """A root of a session that is a repository; `agent` is the agent's work tree, `git_dir` its private git directory."""

    def __init__(self, folder: Path, session: store.Session, number: int, root: Path) -> None:
        self.root = root
        self.upper = Path(store.add_root(session, number, str(root)).upper)
        found_git = repository.find_location(str(root)).git
        assert found_git is not None
        copy = f"{self.upper}/.git" if found_git.inside else f"{session.folder}/git/{number}"
        linked = found_git.folder if found_git.is_linked else ""
        request = private_copy.CopyRequest(found_git.common, copy, f"{session.folder}/objects", str(number), linked)
        created = private_copy.create_private_copy(request, "" if found_git.inside else found_git.common)
        self.stores = created.stores
        self.common = Path(copy)
        self.git_dir = Path(copy, "worktrees", os.path.basename(found_git.folder)) if linked else self.common
        self.record: store.GitRecord = {
            "root": number,
            "folder": found_git.folder,
            "common": found_git.common,
            "inside": found_git.inside,
        }
        self.agent = folder / ("agent" if number == 0 else f"agent-{number}")
        shutil.copytree(root, self.agent, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        self._before = trees.read(root)

    def run_git(self, *words: str) -> str:
        """Run git as the agent does, with the object stores at the agent's paths."""
        alternates = self.common / "objects/info/alternates"
        text = alternates.read_text()
        alternates.write_text("".join(f"{outside}\n" for outside, _ in self.stores))
        output = git(self.agent, "--git-dir", str(self.git_dir), "--work-tree", str(self.agent), *words)
        alternates.write_text(text)
        return output

    def write(self, path: str, text: str) -> None:
        """Write a file as the agent."""
        place = self.agent / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def commit(self, subject: str, **files: str) -> str:
        """Commit files as the agent (`a__txt` is `a.txt`; without files: everything); return the id."""
        for name, text in files.items():
            self.write(name.replace("___", "/").replace("__", "."), text)
        self.run_git("add", "-A")
        self.run_git("commit", "-q", "--allow-empty", "-m", subject)
        return self.run_git("rev-parse", "HEAD").strip()

    def end(self) -> None:
        """Turn the agent's work tree into the upper layer."""
        before = {path: node for path, node in self._before.items() if not (path + b"/").startswith(b".git/")}
        trees.write_upper(self.upper, trees.upper_of(before, trees.read(self.agent)))


class GitSession:
    """A session whose roots are repositories; `agent` and `git_dir` are those of the first one.

    Without `with_risks`, its review assesses none: the rules would be parsed for each review, which takes 0.2 s.
    """

    with_risks = True

    def __init__(self, folder: Path, root: Path, *others: Path) -> None:
        self.folder, self.root, self.store = folder, root, store.Store(str(folder / "state"))
        self.session = store.create_session(self.store)
        os.mkdir(f"{self.session.folder}/git")
        self.agent_roots = [AgentRoot(folder, self.session, number, path) for number, path in enumerate((root, *others))]
        first = self.agent_roots[0]
        self.upper, self.common, self.git_dir, self.agent = first.upper, first.common, first.git_dir, first.agent
        self.record: store.Record = {
            **store.BLANK,
            "state": store.WAITING,
            "name": "",
            "root": str(root),
            "roots": [str(one.root) for one in self.agent_roots],
            "agent_home": str(folder / "aihome"),
            "git": [one.record for one in self.agent_roots],
            "stores": [list(pair) for one in self.agent_roots for pair in one.stores],
            "command": ["claude"],
            "profile": "claude",
            "started": time.time_ns(),
            "launched": time.time_ns(),
        }
        refs.record_initial_refs(self.session, self.record)
        program = shutil.which("git") or ""
        lower_snapshot_take.take_snapshot(
            self.session.lower_snapshot,
            lower_snapshot_request.SnapshotRequest(
                roots=tuple(self.record["roots"]), git=first.record["folder"], program=program, environ=ENVIRON
            ),
        )
        store.write_record(self.session, self.record)
        self.printed: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        store.unlock_session(self.session)

    def run_agent_git(self, *words: str) -> str:
        """Run git as the agent does in the first root."""
        return self.agent_roots[0].run_git(*words)

    def write(self, path: str, text: str) -> None:
        """Write a file as the agent in the first root."""
        self.agent_roots[0].write(path, text)

    def commit(self, subject: str, **files: str) -> str:
        """Commit files as the agent in the first root, as `AgentRoot.commit`."""
        return self.agent_roots[0].commit(subject, **files)

    def end(self) -> None:
        """Turn the agent's work trees into the upper layers."""
        for one in self.agent_roots:
            one.end()

    def review(self) -> Review:
        """Open the session; the caller closes it."""
        return open_review(self.session, ENVIRON, with_risks=self.with_risks)

    def inspect(self) -> CommitReport:
        """Return the report on the agent's git directory."""
        review = self.review()
        try:
            return report.create_reports(review)[0]
        finally:
            review.close()

    def import_commits(self, *words: str, name: str = "", **asked: Any) -> ImportResult:
        """Import commits according to options; risky ones are included by default."""
        asked.setdefault("include_risky", True)
        trailers = asked.pop("with_trailers", False)
        review = self.review()
        try:
            wanted = ImportOptions(words or ("",), name, **asked)
            return bringing.import_commits(review, wanted, self.store, self.printed.append, with_trailers=trailers)
        finally:
            review.close()

    def undo(self, *, is_three_way: bool = False) -> UndoResult:
        """Undo the last merge; the session is unlocked in the meantime, as for another command."""
        store.unlock_session(self.session)
        try:
            return undoing.undo(self.here, "", self.printed.append, is_three_way=is_three_way)
        finally:
            self.session = store.lock_session(self.session)

    def redo(self) -> UndoResult:
        """Redo the last undone merge."""
        store.unlock_session(self.session)
        try:
            return undoing.redo(self.here, "", self.printed.append)
        finally:
            self.session = store.lock_session(self.session)

    def files(self) -> dict[str, bytes]:
        """Return the files of the real tree."""
        return {os.fsdecode(path): node.content for path, node in trees.read(self.root).items() if not path.startswith(b".git")}

    @property
    def here(self) -> CommandContext:
        """Return the context of commands in this repository."""
        return CommandContext(self.store, str(self.root), str(self.root), ENVIRON)
