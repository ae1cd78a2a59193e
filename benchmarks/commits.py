"""Commits: find and import 200 commits in a history of 1,000 and a tree of 50,000 files."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Subject
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "Commits"
FIND_LIMIT, IMPORT_LIMIT = 300.0, 1000.0  # ms
_FILES, _COMMITS, _AGENT = measure.size((50_000, 1_000, 200), (10_000, 5, 20))
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


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Let an agent commit once; then list, import and undo the commits, round by round."""
    repo = repository(workdir.folder / "commits", workdir.env, {"README.md": b"# History\n"})
    _grow(repo, workdir.env)
    clone = _Clone(workdir, repo)
    with contextlib.chdir(repo):
        process.elapsed_time((workdir.program, "--no-merge", "--name", "bench", "--", "/bin/sh", "-c", _AGENTS_WORK), workdir.env)
        found = measure.in_turns([Subject("agent-dev", lambda: _round(workdir, repo, clone))], measure.rounds(6), 1)["agent-dev"]
    rows = (
        Row("agent-dev commits", measure.spread(found["found"]), limit=FIND_LIMIT),
        Row(
            "agent-dev merge --commits",
            measure.spread(found["imported"]),
            "git fetch, git merge --ff-only",
            measure.ratio(found["imported"], found["git"]),
            limit=IMPORT_LIMIT,
        ),
        Row("its undo", measure.spread(found["undone"])),
        Row("agent-dev merge --commits one --as NAME", measure.spread(found["branch"]), limit=IMPORT_LIMIT),
        Row("git fetch of the same, git merge --ff-only", measure.spread(found["git"])),
    )
    about = (
        f"A repository of {_FILES:,} files and {_COMMITS:,} commits, in which an agent made {_AGENT} commits on three branches. "
        "`commits` lists them with authors, files and uncommitted changes. `merge --commits` checks them in a quarantine and "
        "updates the checked-out branch, its files and its index, durably. For comparison, a clone fetches the same commits, "
        "with checks of objects, and fast-forwards to them; git does not make its files and its index durable."
    )
    remarks = (f"The machine's load before was {workdir.load:.1f} on {os.cpu_count()} cores.",)
    return (Section(TITLE, about, rows, remarks),)


class _Clone:
    """A clone of the repository from before the agent's commits, into which git alone imports them."""

    def __init__(self, workdir: WorkingDirectory, repo: Path) -> None:
        self._env, self._repo, self._folder = workdir.env, repo, repo.with_name("clone")
        process.output(("git", "clone", "-q", "--no-local", str(repo), str(self._folder)), self._env)
        self._start = process.output(("git", "-C", str(self._folder), "rev-parse", "HEAD"), self._env).strip()
        self._objects = self._folder / ".git/objects"
        self._known = set(self._objects.rglob("*"))

    def run_import(self) -> float:
        """Fetch and fast-forward; return the milliseconds, and restore the clone."""
        git = (
            shutil.which("git", path=self._env["PATH"]) or "git",
            "-C",
            str(self._folder),
            "-c",
            "gc.auto=0",
            "-c",
            "maintenance.auto=false",
            "-c",
            "transfer.fsckObjects=true",
        )
        process.elapsed_time(("/usr/bin/sync", "-f", str(self._folder)), self._env)
        took = process.elapsed_time((*git, "fetch", "-q", str(self._repo), "main"), self._env)
        took += process.elapsed_time((*git, "merge", "-q", "--ff-only", "FETCH_HEAD"), self._env)
        process.output((*git, "reset", "-q", "--hard", self._start), self._env)
        process.output((*git, "reflog", "expire", "--expire=now", "--all"), self._env)
        for path in set(self._objects.rglob("*")) - self._known:
            if path.is_file():
                path.unlink()
        for name in ("FETCH_HEAD", "ORIG_HEAD"):
            (self._folder / ".git" / name).unlink(missing_ok=True)
        return took


def _round(workdir: WorkingDirectory, repo: Path, clone: _Clone) -> dict[str, float]:
    took = {"found": process.elapsed_time((workdir.program, "commits", "bench", "--json"), workdir.env)}
    for name, arguments in (
        ("imported", ("merge", "bench", "--commits")),
        ("undone", ("undo",)),
        ("branch", ("merge", "bench", "--commits", "one", "--as", "theirs")),
    ):
        process.elapsed_time(("/usr/bin/sync", "-f", str(repo)), workdir.env)
        took[name] = process.elapsed_time((workdir.program, *arguments), workdir.env)
        if process.output(("git", "status", "--porcelain"), workdir.env):
            raise process.ProgramFailed(f"the work tree is not clean after: {' '.join(arguments)}")
        if name == "imported":
            took["git"] = clone.run_import()
    process.elapsed_time((workdir.program, "undo"), workdir.env)
    return took


def _grow(repo: Path, env: dict[str, str]) -> None:
    """Create the files and the history of a repository."""
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
