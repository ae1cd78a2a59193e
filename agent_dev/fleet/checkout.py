"""Repositories of a worker: one object store for all tickets, and one checkout for all tasks on a commit, which no task changes.

They are in `$XDG_DATA_HOME/agent-dev-fleet`: `objects-sha1.git`, `checkouts/COMMIT-BRANCH/NAME`. A checkout borrows the objects
of the store (gitrepository-layout(5), alternates).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from agent_dev.errors import CommandFailed, RepositoryNeeded
from agent_dev.fleet.ticket import Ticket
from agent_dev.fs.rmtree import remove_tree
from agent_dev.git import repository
from agent_dev.linux import programs
from agent_dev.paths import worker_folder

_UNUSED_DAYS = 14  # after which a checkout is removed
_OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsmonitor=false")


class CommitStore:
    """The object store of a worker, for commits of one object format."""

    def __init__(self, commit: str, environ: dict[str, str]) -> None:
        """Create the store if it does not exist. Raises CommandFailed, OSError."""
        program = programs.find_program("git", environ)
        if program is None:
            raise CommandFailed(program="git", reason="it is not installed")
        self._git, self._environ = program, environ
        self.folder = worker_folder(environ)
        self._format = "sha1" if len(commit) == 40 else "sha256"
        self.objects = f"{self.folder}/objects-{self._format}.git"
        os.makedirs(f"{self.folder}/checkouts", 0o700, exist_ok=True)
        with locked(f"{self.objects}.lock"):
            if not os.path.exists(f"{self.objects}/HEAD"):
                remove_tree(self.objects)
                self._run("init", "-q", "--bare", "--template=", f"--object-format={self._format}", f"{self.objects}.new")
                os.rename(f"{self.objects}.new", self.objects)

    def commits(self) -> tuple[str, ...]:
        """Return the stored commits, the newest first."""
        names = self._run("-C", self.objects, "for-each-ref", "--sort=-creatordate", "--format=%(objectname)", "refs/commits/")
        return tuple(names.decode().split())

    def has(self, commit: str) -> bool:
        """Return whether a commit is stored, with everything that is reachable from it."""
        return self._call("-C", self.objects, "rev-parse", "-q", "--verify", f"refs/commits/{commit}").returncode == 0

    def add(self, commit: str, pack: BinaryIO) -> None:
        """Store a commit from a pack, which may be thin. Raises CommandFailed."""
        argv = (*_OPTIONS, "-C", self.objects, "index-pack", "--stdin", "--fix-thin")
        with self._start(*argv, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None  # noqa: S101  (for mypy: it is a pipe)
            try:
                shutil.copyfileobj(pack, process.stdin, 1 << 20)
                process.stdin.close()
            except BrokenPipeError:
                pass  # git says why
            error = process.stderr.read() if process.stderr else b""
            if process.wait():
                raise CommandFailed(program="git", reason=repository.last_error_line(error) or "the pack is damaged")
        self._run("-C", self.objects, "rev-list", "--quiet", "--objects", commit, "--not", "--all")
        self._run("-C", self.objects, "update-ref", f"refs/commits/{commit}", commit)

    @contextmanager
    def checkout(self, ticket: Ticket) -> Iterator[str]:
        """Yield the path of a checkout of a ticket's commit, which is kept while the body runs.

        Raises RepositoryNeeded if the commit is not stored, CommandFailed.
        """
        branch = hashlib.sha256(ticket.branch.encode()).hexdigest()[:8]
        place = f"{self.folder}/checkouts/{ticket.commit}-{branch}"
        path = f"{place}/{ticket.name}"
        with locked(f"{place}.lock", fcntl.LOCK_SH) as used:  # `prune` needs it alone
            os.utime(used)
            if not os.path.isdir(path):
                with locked(f"{self.objects}.lock"):
                    self._require_checkout(ticket, place, path)
            yield path

    def _require_checkout(self, ticket: Ticket, place: str, path: str) -> None:
        if os.path.isdir(path):
            return  # another task made it
        if not self.has(ticket.commit):
            raise RepositoryNeeded(commit=ticket.commit, hint="agent-dev tx --on sends it")
        self._make_checkout(ticket, place, path)

    def _make_checkout(self, ticket: Ticket, place: str, path: str) -> None:
        fresh = f"{place}/.new"
        os.makedirs(place, 0o700, exist_ok=True)
        remove_tree(fresh)
        self._run("init", "-q", "--template=", f"--object-format={self._format}", fresh)
        with open(f"{fresh}/.git/objects/info/alternates", "w", encoding="utf-8") as file:
            file.write(f"{self.objects}/objects\n")
        switch = ("-B", ticket.branch, ticket.commit) if ticket.branch else ("--detach", ticket.commit)
        self._run("-C", fresh, "checkout", "-q", *switch)
        os.rename(fresh, path)

    def prune(self, clean: Callable[[str], None]) -> None:
        """Call `clean` with the path of each checkout that no task uses now, and remove those unused for two weeks."""
        folder = f"{self.folder}/checkouts"
        for name in sorted(one.removesuffix(".lock") for one in os.listdir(folder) if one.endswith(".lock")):
            fd = os.open(f"{folder}/{name}.lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.isdir(f"{folder}/{name}"):  # otherwise it was removed, or its task was killed before it existed
                    clean(f"{folder}/{name}")
                if time.time() - os.fstat(fd).st_mtime > _UNUSED_DAYS * 86_400:
                    remove_tree(f"{folder}/{name}")
            except BlockingIOError:
                continue  # a task uses it
            finally:
                os.close(fd)

    def _run(self, *argv: str) -> bytes:
        done = self._call(*_OPTIONS, *argv)
        if done.returncode:
            raise CommandFailed(program="git", reason=repository.last_error_line(done.stderr))
        return done.stdout

    def _call(self, *argv: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            (self._git, *argv), env=self._variables(), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )

    def _start(self, *argv: str, stdin: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            (self._git, *argv),
            env=self._variables(),
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _variables(self) -> dict[str, str]:
        return repository.git_environment(self._environ) | {"GIT_LFS_SKIP_SMUDGE": "1"}


@contextmanager
def locked(path: str, operation: int = fcntl.LOCK_EX) -> Iterator[int]:
    """Hold a lock on a file, which is created; yield its descriptor."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, operation)
        yield fd
    finally:
        os.close(fd)
