"""How long it takes to find 200 commits in a history of 1,000 and a tree of 50,000 files, and to bring them home."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from benchmarks import measure, process
from benchmarks.ground import Ground, repository
from benchmarks.measure import Row, Section, Subject

TITLE = "Commits"
FOUND, BROUGHT = 300.0, 1000.0  # ms
_FILES, _COMMITS, _AGENT = 50_000, 1_000, 200
_AGENTS_WORK = f"""
git checkout -q -b one; git checkout -q -b two; git checkout -q main
n=0
while [ $n -lt {_AGENT} ]; do
    case $((n % 10)) in 8) git checkout -q one ;; 9) git checkout -q two ;; 0) git checkout -q main ;; esac
    echo "commit $n" >>src/$((n % 7))/file$((n * 31 % {_FILES // 100})).txt
    echo "commit $n" >agent$n.txt
    git add src/$((n % 7)) agent$n.txt
    git commit -q -m "Agent's commit $n"
    n=$((n + 1))
done
git checkout -q main
"""


def run(ground: Ground) -> tuple[Section, ...]:
    """Let an agent commit once; then look, bring home and undo, round by round."""
    repo = repository(ground.folder / "commits", ground.env, {"README.md": b"# History\n"})
    _grow(repo, ground.env)
    twin = _Twin(ground, repo)
    with contextlib.chdir(repo):
        process.timed((ground.program, "--no-merge", "--name", "bench", "--", "/bin/sh", "-c", _AGENTS_WORK), ground.env)
        found = measure.in_turns([Subject("agent-dev", lambda: _round(ground, repo, twin))], measure.rounds(6), 1)["agent-dev"]
    rows = (
        Row("agent-dev commits", measure.spread(found["found"]), limit=FOUND),
        Row(
            "agent-dev merge --commits",
            measure.spread(found["brought"]),
            "git fetch, git merge --ff-only",
            measure.ratio(found["brought"], found["by git"]),
            limit=BROUGHT,
        ),
        Row("its undo", measure.spread(found["undone"])),
        Row("agent-dev merge --commits one --as NAME", measure.spread(found["branch"]), limit=BROUGHT),
        Row("git fetch of the same, git merge --ff-only", measure.spread(found["by git"])),
    )
    about = (
        f"A repository of {_FILES:,} files and {_COMMITS:,} commits, in which an agent made {_AGENT} commits on three branches. "
        "Found: told with authors, files and what is in no commit. Brought home: checked in a quarantine, the branch that is "
        "checked out moved with its files and its index, all of it durable. Beside it a clone that fetches the same commits, "
        "with their objects checked too, and goes forward to them: neither its files nor its index are made durable."
    )
    remarks = (f"The machine's load before was {ground.load:.1f} on {os.cpu_count()} cores.",)
    return (Section(TITLE, about, rows, remarks),)


class _Twin:
    """A clone of the repository as it was before the agent, into which git alone brings the same commits."""

    def __init__(self, ground: Ground, repo: Path) -> None:
        self._env, self._repo, self._place = ground.env, repo, repo.with_name("twin")
        process.output(("git", "clone", "-q", "--no-local", str(repo), str(self._place)), self._env)
        self._start = process.output(("git", "-C", str(self._place), "rev-parse", "HEAD"), self._env).strip()
        self._objects = self._place / ".git/objects"
        self._known = set(self._objects.rglob("*"))

    def bring(self) -> float:
        """Fetch and go forward; return how many milliseconds that took, and be as before."""
        git = (
            shutil.which("git", path=self._env["PATH"]) or "git",
            "-C",
            str(self._place),
            "-c",
            "gc.auto=0",
            "-c",
            "maintenance.auto=false",
            "-c",
            "transfer.fsckObjects=true",
        )
        process.timed(("/usr/bin/sync", "-f", str(self._place)), self._env)
        took = process.timed((*git, "fetch", "-q", str(self._repo), "main"), self._env)
        took += process.timed((*git, "merge", "-q", "--ff-only", "FETCH_HEAD"), self._env)
        process.output((*git, "reset", "-q", "--hard", self._start), self._env)
        process.output((*git, "reflog", "expire", "--expire=now", "--all"), self._env)
        for path in set(self._objects.rglob("*")) - self._known:
            if path.is_file():
                path.unlink()
        for name in ("FETCH_HEAD", "ORIG_HEAD"):
            (self._place / ".git" / name).unlink(missing_ok=True)
        return took


def _round(ground: Ground, repo: Path, twin: _Twin) -> dict[str, float]:
    took = {"found": process.timed((ground.program, "commits", "bench", "--json"), ground.env)}
    for name, words in (
        ("brought", ("merge", "bench", "--commits")),
        ("undone", ("undo",)),
        ("branch", ("merge", "bench", "--commits", "one", "--as", "theirs")),
    ):
        process.timed(("/usr/bin/sync", "-f", str(repo)), ground.env)
        took[name] = process.timed((ground.program, *words), ground.env)
        if process.output(("git", "status", "--porcelain"), ground.env):
            raise process.ProgramFailed(f"the work tree is not clean after: {' '.join(words)}")
        if name == "brought":
            took["by git"] = twin.bring()
    process.timed((ground.program, "undo"), ground.env)
    return took


def _grow(repo: Path, env: dict[str, str]) -> None:
    """Give a repository its files and its history."""
    lines = [b"blob\nmark :1\ndata 40\n" + b"the quick brown fox jumps over the dog.\n"]
    for number in range(_COMMITS):
        lines.append(b"commit refs/heads/main\ncommitter Ada <ada@example.invalid> %d +0000\ndata 4\nmore\n" % (10**9 + number))
        if not number:
            lines.append(b"from refs/heads/main^0\n")
            count = _FILES // 100
            lines += [b"M 100644 :1 src/%d/file%d.txt\n" % (folder, name) for folder in range(100) for name in range(count)]
        lines.append(b"M 100644 inline src/%d/file%d.txt\ndata 8\n%07d\n" % (number % 100, number % 97, number))
    subprocess.run(["git", "fast-import", "--quiet"], cwd=repo, env=env, input=b"".join(lines), check=True)
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=repo, env=env, check=True)
    subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=repo, env=env, check=True)
