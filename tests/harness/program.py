"""A user's computer in a folder: a home, repositories, and `agent-dev` run there as a program of its own."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

PROGRAM = Path(os.environ.get("AGENT_DEV_TEST_PROGRAM") or Path(sys.executable).with_name("agent-dev"))
PYTHON = "/usr/bin/python3"  # the one that is there inside, too
PATIENCE = 20.0  # seconds for what should come at once, on a busy machine
PASSED_ON = ("AGENT_DEV_BWRAP", "AGENT_DEV_OVERLAY", "AGENT_DEV_TEST_MUTATION")

Env = Mapping[str, str | None]
T = TypeVar("T")


def wait_until(look: Callable[[], T], what: str, patience: float = PATIENCE, pause: float = 0.01) -> T:
    """Look again and again, every `pause` seconds, until something true is found, and return it."""
    deadline = time.monotonic() + patience
    while not (found := look()):
        assert time.monotonic() < deadline, f"in {patience} s not: {what}"
        time.sleep(pause)
    return found


def tree(folder: Path) -> dict[str, str]:
    """Return what a folder holds: path → type, mode and content, itself as `.`; two equal trees are equal bit for bit."""
    found = {".": _entry(os.fsencode(folder))}
    for place, folders, files in os.walk(os.fsencode(folder)):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            found[os.fsdecode(os.path.relpath(path, os.fsencode(folder)))] = _entry(path)
    return found


def _entry(path: bytes) -> str:
    status = os.lstat(path)
    if os.path.islink(path):
        return f"{status.st_mode:o} -> {os.fsdecode(os.readlink(path))}"
    if not os.path.isfile(path):
        return f"{status.st_mode:o}"
    with open(path, "rb") as file:
        return f"{status.st_mode:o} {hashlib.sha256(file.read()).hexdigest()}"


def processes(marker: str) -> list[int]:
    """Return the processes, but this one, that have a word in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read()
            except OSError:
                continue  # it has ended
            if marker.encode() in words:
                found.append(int(name))
    return found


def inside(marker: str) -> list[int]:
    """Return those of them in a PID namespace below this one: what agent-dev forks to tidy up has its words, but is none."""
    return [pid for pid in processes(marker) if _depth(pid) > _depth(os.getpid())]


def children(pid: int) -> list[int]:
    """Return the processes that one started and has not waited for."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def opened(pid: int) -> dict[int, str]:
    """Return what a process has open: number → what the kernel calls it; nothing when it is over or keeps it to itself."""
    found: dict[int, str] = {}
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            found[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    except (FileNotFoundError, PermissionError):
        return found
    return found


def watcher(launcher: int) -> int:
    """Return the launcher's child that the kernel tells of each command; 0 while there is none."""
    return next((pid for pid in children(launcher) if "anon_inode:seccomp notify" in opened(pid).values()), 0)


def _depth(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return next(len(line.split()) for line in lines if line.startswith("NSpid:"))


class AgentDev:
    """`agent-dev` as the user of one home runs it, in one repository unless told otherwise."""

    def __init__(self, home: Path, repo: Path) -> None:
        self.home, self.repo = home, repo
        self.agent_home = home / "aihome"
        self.state = home.parent / "state" / "agent-dev"
        self.env = {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home.parent / "state"),
            "XDG_CACHE_HOME": str(home.parent / "cache"),
            "XDG_CONFIG_HOME": str(home.parent / "config"),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        } | {name: os.environ[name] for name in PASSED_ON if name in os.environ}

    def environment(self, env: Env | None = None) -> dict[str, str]:
        """Return the user's environment with some variables set and, where None, taken out."""
        return {name: value for name, value in {**self.env, **(env or {})}.items() if value is not None}

    def terminal_environment(self, env: Env | None = None) -> Env:
        """Return the same for a terminal that adds it to this process's own."""
        return {**dict.fromkeys(os.environ), **self.environment(env)}

    def __call__(
        self,
        *words: str | Path,
        cwd: Path | None = None,
        env: Env | None = None,
        input: str | None = None,  # noqa: A002  (as subprocess.run calls it)
        before: tuple[str, ...] = (),
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run `agent-dev WORDS` to its end. `before` is a command that runs it: its words come first."""
        return subprocess.run(
            [*before, PROGRAM, *words],
            cwd=cwd or self.repo,
            env=self.environment(env),
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=timeout,
            check=False,
        )

    @contextmanager
    def started(
        self, *words: str | Path, cwd: Path | None = None, env: Env | None = None, before: tuple[str, ...] = (), **more: Any
    ) -> Iterator[subprocess.Popen[str]]:
        """Start `agent-dev WORDS` with pipes; at the end it is stopped if it still runs, and waited for."""
        pipe = subprocess.PIPE
        keywords: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **more}
        with subprocess.Popen(
            [*before, PROGRAM, *words],
            cwd=cwd or self.repo,
            env=self.environment(env),
            encoding="utf-8",
            errors="surrogateescape",
            **keywords,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.terminate()
                    try:
                        process.wait(PATIENCE)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        raise

    def show_inside(self, code: str, *options: str | Path, **keywords: Any) -> Any:
        """Run Python inside; return what it printed as JSON."""
        done = self(*options, "--", PYTHON, "-I", "-c", code, **keywords)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def sessions(self, *, everywhere: bool = False, cwd: Path | None = None) -> list[dict[str, Any]]:
        """Return the sessions that `agent-dev sessions` lists."""
        done = self("sessions", "--json", *(["--all"] if everywhere else []), cwd=cwd)
        assert done.returncode == 0, done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)["sessions"]
        return rows

    def status(self, session: str = "", cwd: Path | None = None) -> dict[str, Any]:
        """Return what `agent-dev status --json` says of a session."""
        done = self("status", *([session] if session else []), "--json", cwd=cwd)
        assert done.returncode == 0, done.stderr
        value: dict[str, Any] = json.loads(done.stdout)
        return value

    def changes(self, session: str = "", cwd: Path | None = None) -> dict[str, str]:
        """Return path → kind of a session's changes."""
        return {change["path"]: change["kind"] for change in self.status(session, cwd)["changes"]}

    def leavings(self) -> list[str]:
        """Return what the state directory holds of sessions: running, waiting, or being taken apart."""
        return [
            f"{place}/{name}"
            for place in ("sessions", "gone", "trash")
            if (self.state / place).is_dir()
            for name in os.listdir(self.state / place)
        ]

    def git(self, *words: str | Path, cwd: Path | None = None) -> str:
        """Run the user's git, outside; return what it printed."""
        done = subprocess.run(
            ["git", *words],
            cwd=cwd or self.repo,
            env=self.environment(),
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
