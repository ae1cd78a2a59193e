"""A home, a repository and the real program, for the regression tests of the defects that the forerunner of agent-dev had."""

import json
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

PROGRAM = str(Path(sys.executable).with_name("agent-dev"))
PATIENCE = 20.0  # seconds to wait on a busy machine for an event that is expected at once

_PASSED = ("PATH", "AGENT_DEV_BWRAP", "AGENT_DEV_OVERLAY")

Picture = dict[bytes, tuple[str, int, bytes]]  # relative path → type, permission bits, content or target


class Done:
    """A completed process: its exit code and its output as text."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code, self.bytes_out, self.bytes_err = code, out, err
        self.out, self.err = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


class World:
    """The home and the repository of a user below a directory, and agent-dev run there as a process."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home, self.repo, self.outside = place / "home", place / "shop", place / "outside"
        self.aihome, self.state = self.home / "aihome", place / "state" / "agent-dev"
        for folder in (self.home, self.repo, self.outside):
            folder.mkdir()
        self.env = {name: os.environ[name] for name in _PASSED if name in os.environ} | {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(place / "state"),
            "XDG_CACHE_HOME": str(place / "cache"),
            "XDG_CONFIG_HOME": str(place / "config"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        (self.home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n")
        self.new_repo(self.repo, {"README": "hello\n", "src/a": "a\n", "src/b": "b\n"})

    def new_repo(self, path: Path, files: Mapping[str, str]) -> Path:
        """Create a repository with one commit that contains the given files."""
        path.mkdir(exist_ok=True)
        self.git("init", "--quiet", cwd=path)
        self.put(files, path)
        self.commit("first", path)
        return path

    def put(self, files: Mapping[str, str], place: Path | None = None) -> None:
        """Write files as the user, below the repository by default."""
        for name, text in files.items():
            path = (place or self.repo) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """Run git as the user; return what it prints."""
        command = ("git", *words)
        done = subprocess.run(command, cwd=cwd or self.repo, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def commit(self, subject: str, cwd: Path | None = None) -> None:
        """Commit all files, as the user."""
        self.git("add", "--all", cwd=cwd)
        self.git("commit", "--quiet", "--allow-empty", "-m", subject, cwd=cwd)

    def run(
        self,
        *words: str | bytes,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        code: int | None = 0,
        before: Callable[[], None] | None = None,
        limit: float = PATIENCE,
    ) -> Done:
        """Run agent-dev without a terminal and with an empty stdin; check its exit code (None: any)."""
        done = subprocess.run(
            (PROGRAM, *words),
            cwd=cwd or self.repo,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
            start_new_session=True,
            preexec_fn=before,
            check=False,
        )
        ended = Done(done.returncode, done.stdout, done.stderr)
        assert code is None or ended.code == code, f"{words!r} ended with {ended.code}\n{ended.out}\n{ended.err}"
        return ended

    def agent(self, script: str, *options: str, cwd: Path | None = None, code: int = 0, **more: Any) -> Done:
        """Let an agent run a shell script up to its first failure; its changes then wait in a session."""
        return self.run(*options, "--", "sh", "-euc", script, cwd=cwd, code=code, **more)

    def inside(self, *options: str, cwd: Path | None = None) -> "Inside":
        """Start an agent that runs scripts one after the other, on request."""
        return Inside(self, options, cwd or self.repo)

    def status(self, session: str = "", cwd: Path | None = None) -> dict[str, Any]:
        """Return `status --json`."""
        found = json.loads(self.run("status", *_given(session), "--json", cwd=cwd).out)
        assert isinstance(found, dict)
        return found

    def changes(self, session: str = "", cwd: Path | None = None) -> dict[str, dict[str, Any]]:
        """Return the changes of `status --json` by path."""
        return {change["path"]: change for change in self.status(session, cwd)["changes"]}

    def kinds(self, session: str = "", cwd: Path | None = None) -> dict[str, tuple[str, str]]:
        """Return the kind and the type of each change by path."""
        return {path: (change["kind"], change["type"]) for path, change in self.changes(session, cwd).items()}

    def merge(self, *words: str | bytes, code: int | None = 0, cwd: Path | None = None, **more: Any) -> dict[str, Any]:
        """Merge with command-line flags; return `merge --json`."""
        found = json.loads(self.run("merge", *words, "--json", cwd=cwd, code=code, **more).out)
        assert isinstance(found, dict)
        return found

    def merge_all(self, *words: str, code: int = 0, cwd: Path | None = None) -> dict[str, Any]:
        """Merge all changes, including risky ones."""
        return self.merge(*words, "--all", "--include-risky", code=code, cwd=cwd)

    def sessions(self, *words: str, cwd: Path | None = None) -> list[dict[str, Any]]:
        """Return `sessions --json`."""
        found = json.loads(self.run("sessions", *words, "--json", cwd=cwd).out)["sessions"]
        assert isinstance(found, list)
        return found

    def read(self, name: str) -> str:
        """Return the text of a file in the real repository."""
        return (self.repo / name).read_text()

    def wait_tidy(self) -> None:
        """Wait for the removal of sessions without changes, which continues for a moment after the program has exited."""
        wait_until(lambda: not any(self.state.glob("gone/*")), "the removal of sessions that changed nothing")

    def leave(self) -> None:
        """Give access to all directories, so that pytest can remove them: the kernel creates work directories of mode 000."""
        for folder, names, _ in os.walk(self.place):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    if not os.path.islink(path) and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
                        os.chmod(path, 0o700)
                except FileNotFoundError:
                    continue  # agent-dev is still removing it


def _given(word: str) -> tuple[str, ...]:
    return (word,) if word else ()


class Inside:
    """An agent in its sandbox that runs scripts on request; at the end of the `with`, it exits."""

    def __init__(self, world: World, options: Sequence[str], cwd: Path) -> None:
        self._errors = (world.place / f"errors-{time.monotonic_ns()}").open("w+b")
        self.process = subprocess.Popen(
            (PROGRAM, *options, "--", "sh"),
            cwd=cwd,
            env=world.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._state = world.state
        self._count = 0

    def __enter__(self) -> Self:
        try:
            self.do("true")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.process.poll() is None:
                self.end()
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._close()

    def do(self, script: str, *, code: int = 0) -> str:
        """Let the agent run a shell script to its end; return its output."""
        self._count += 1
        mark = f"==={self._count}==="
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin
        assert stdout
        stdin.write(f"(set -eu\n{script}\n) </dev/null 2>&1; printf '{mark}%s.' $?\n".encode())
        stdin.flush()
        reported, deadline = b"", time.monotonic() + PATIENCE
        while not (mark.encode() in reported and reported.endswith(b".")):
            ready, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(stdout.fileno(), 1 << 16) if ready else b""
            assert piece, f"no answer to {script!r}: {reported!r} {self.errors()}"
            reported += piece
        text, _, ended = reported.decode("utf-8", "replace").partition(mark)
        assert ended == f"{code}.", f"{script!r} ended with {ended} {text}"
        return text

    def wait_for_clock(self) -> None:
        """Wait until the lower snapshot of the repository is recorded, which takes a moment while the agent runs."""
        wait_until(lambda: any(self._state.glob("sessions/*/base/manifest")), "a recorded base")

    def errors(self) -> str:
        """Return what agent-dev has printed on stderr so far."""
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")

    def end(self) -> int:
        """Let the agent exit by itself; return agent-dev's exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Kill only the launcher."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def _close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream:
                stream.close()


def picture(place: Path, *, without: str = ".git") -> Picture:
    """Return the entries below a directory, without following symlinks."""
    found: Picture = {}
    root = os.fsencode(place)
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != os.fsencode(without)]
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = _seen(path)
    return found


def _seen(path: bytes) -> tuple[str, int, bytes]:
    status = os.lstat(path)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return "symlink", 0, os.readlink(path)
    if stat.S_ISDIR(status.st_mode):
        return "dir", mode, b""
    if stat.S_ISREG(status.st_mode):
        return "file", mode, Path(os.fsdecode(path)).read_bytes()
    return "fifo" if stat.S_ISFIFO(status.st_mode) else "other", mode, b""


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Poll a condition; fail if it does not become true in time."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.01)


@contextmanager
def world_below(place: Path) -> Iterator[World]:
    """Yield a world, and make its directories removable afterwards."""
    world = World(place)
    try:
        yield world
    finally:
        world.leave()
