"""Let agents make real commits' changes: patch, merge and undo must be exact. Count the changes that are marked as risky.

    python -m tests.histories.real_commits REPOSITORY [--count N] [--span N] [--seed S]

REPOSITORY is a git repository that you have. Run it as an ordinary user; it changes nothing but its own clone.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.program import PROGRAM

_AGENT = """
find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +
find "$0" -mindepth 1 -maxdepth 1 ! -name .git -exec cp -a {} . ';'
"""


@dataclass
class Figures:
    """What was seen. `marked`: changes by the name of a risk; `paths`: by the name of a file."""

    changes: int = 0
    risky: int = 0
    marked: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


class Clone:
    """A clone with three work trees: the user's, one for the patch, and one with the tree that the agent makes."""

    def __init__(self, folder: Path, repository: str) -> None:
        home = folder / "home"
        home.mkdir()
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}
        self.user, self.patched, self.made = folder / "user", folder / "patched", folder / "made"
        self._run("git", "clone", "-q", repository, str(self.user))
        for other in (self.patched, self.made):
            self.git(self.user, "worktree", "add", "-q", "--detach", str(other))
        self.commits = self.git(self.user, "rev-list", "--no-merges", "--first-parent", "HEAD").split()

    def _run(self, *command: str, data: bytes | None = None, is_checked: bool = True) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, env=self.env, input=data or b"", capture_output=True, check=is_checked)

    def git(self, folder: Path, *words: str) -> str:
        return self._run("git", "-C", str(folder), *words).stdout.decode().strip()

    def agent_dev(self, *words: str, is_checked: bool = True) -> bytes:
        return self._run(str(PROGRAM), "-C", str(self.user), *words, is_checked=is_checked).stdout

    def check_out(self, folder: Path, commit: str) -> str:
        """Check out a commit without anything else; return its tree."""
        self.git(folder, "checkout", "-qf", "--detach", commit)
        self.git(folder, "clean", "-qfdx")
        return self.git(folder, "rev-parse", "HEAD^{tree}")

    def tree(self, folder: Path) -> str:
        """Return the tree of all files, also of ignored ones."""
        self.git(folder, "add", "-A", "-f")
        tree = self.git(folder, "write-tree")
        self.git(folder, "reset", "-q")
        return tree

    def apply(self, patch: bytes) -> str:
        """Apply a patch by git; return its errors."""
        command = ("git", "-C", str(self.patched), "apply", "--whitespace=nowarn", "-")
        return self._run(*command, data=patch, is_checked=False).stderr.decode("utf-8", "replace")


def play(clone: Clone, old: str, new: str, figures: Figures) -> None:
    """Let an agent turn the tree of one commit into that of another; check patch, merge and undo."""
    before, wanted = clone.check_out(clone.user, old), clone.check_out(clone.made, new)
    clone.check_out(clone.patched, old)
    if before == wanted:
        return
    clone.agent_dev("--no-merge", "--name", "real", "--ro", str(clone.made), "--", "sh", "-ec", _AGENT, str(clone.made))
    rows = json.loads(clone.agent_dev("status", "--json"))["changes"]
    figures.changes += len(rows)
    figures.risky += sum(bool(row["risks"]) for row in rows)
    figures.marked.update(risk if isinstance(risk, str) else risk["rule"] for row in rows for risk in row["risks"])
    figures.paths.update(os.path.basename(row["path"]) for row in rows if row["risks"])
    errors = clone.apply(clone.agent_dev("diff"))
    results = {"patch": (clone.tree(clone.patched), wanted)}
    ignored = (word for row in rows if row["ignored"] for word in ("--take", row["path"]))
    clone.agent_dev("merge", "--all", "--include-risky", "--yes-delete-many", *ignored, is_checked=False)
    results["merge"] = (clone.tree(clone.user), wanted)
    clone.agent_dev("undo", is_checked=False)
    results["undo"] = (clone.tree(clone.user), before)
    figures.violations += [f"{what} of {old}..{new}: {errors}" for what, (found, right) in results.items() if found != right]
    clone.agent_dev("discard", "real", is_checked=False)
    clone.agent_dev("clean", "--all")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories.real_commits", description=__doc__)
    parser.add_argument("repository")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--span", type=int, default=1, help="commits that an agent makes at once")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chance, figures = random.Random(args.seed), Figures()  # noqa: S311
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        clone = Clone(Path(folder), args.repository)
        for number in range(args.count):
            at = chance.randrange(len(clone.commits) - args.span)
            known = len(figures.violations)
            play(clone, clone.commits[at + args.span], clone.commits[at], figures)
            for text in figures.violations[known:]:
                sys.stdout.write(f"{number}: {text}\n")
    sys.stdout.write(
        f"{args.count} times {args.span} commits from seed {args.seed}: {len(figures.violations)} violations; "
        f"{figures.risky} of {figures.changes} changes marked: {dict(figures.marked.most_common())}, most in "
        f"{', '.join(f'{name} ({count})' for name, count in figures.paths.most_common(12))}\n"
    )
    return 1 if figures.violations else 0


if __name__ == "__main__":
    sys.exit(main())
