"""Bring new files into a repository as one would without agent-dev: by `cp -a`, by rsync, or by a git work tree and a merge."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks import process
from benchmarks.measure import Subject
from benchmarks.working_directory import WorkingDirectory, remove

_GIT = "git -c gc.auto=0 -c maintenance.auto=false -c user.name=b -c user.email=b@example.invalid"
_ADD = f'{_GIT} -C "$0" worktree add -q -b job "$1" && cp -a "$2/new" "$1/"'
_MERGE = f'{_GIT} -C "$1" add -A && {_GIT} -C "$1" commit -q -m job && {_GIT} -C "$0" merge -q job'
_REMOVE = f"""
{_GIT} -C "$0" reset -q --hard job^ && {_GIT} -C "$0" worktree remove --force "$1" && {_GIT} -C "$0" branch -q -D job &&
{_GIT} -C "$0" reflog expire --expire=now --all && {_GIT} -C "$0" prune --expire=now
"""
GIT = "git worktree: commit, merge"


@dataclass(frozen=True, slots=True)
class Copying:
    """New files in the directory `new` of `source`, which are to be in the repository, too."""

    workdir: WorkingDirectory
    source: Path
    repo: Path
    count: int

    def subjects(self, *, is_durable: bool) -> list[Subject]:
        """Return the ways that are installed, without agent-dev. `is_durable`: each ends when all is on the disk."""
        after, suffix = (' && sync -f "$0"', ", sync -f") if is_durable else ("", "")
        found = [Subject(f"cp -a{suffix}", lambda: self._copied(f'cp -a "$2/new" "$0/"{after}'))]
        if shutil.which("rsync", path=self.workdir.env["PATH"]):
            found.append(Subject(f"rsync -a{suffix}", lambda: self._copied(f'rsync -a "$2/new" "$0/"{after}')))
        return [*found, Subject(f"{GIT}{suffix}", lambda: self._merged(after))]

    def expect(self, count: int) -> None:
        """Raise ProgramFailed unless so many files are in the repository's `new`."""
        present = sum(1 for _ in (self.repo / "new").rglob("*.txt"))
        if present != count:
            raise process.ProgramFailed(f"{present} files instead of {count} are in {self.repo / 'new'}")

    def wait_for_disk(self) -> None:
        """Wait until pending writes have completed, so that they do not slow down what comes next."""
        process.elapsed_time(("/usr/bin/sync", "-f", str(self.repo)), self.workdir.env)

    def _copied(self, script: str) -> dict[str, float]:
        took = self._timed(script)
        remove(self.repo / "new")
        return {"copy": took}

    def _merged(self, after: str) -> dict[str, float]:
        self._run(_ADD)
        took = self._timed(f"{_MERGE}{after}")
        self._run(_REMOVE)
        return {"copy": took}

    def _timed(self, script: str) -> float:
        self.wait_for_disk()
        took = self._run(script)
        self.expect(self.count)
        return took

    def _run(self, script: str) -> float:
        folders = (str(self.repo), f"{self.repo}-worktree", str(self.source))
        return process.elapsed_time(("/bin/sh", "-c", script, *folders), self.workdir.env)
