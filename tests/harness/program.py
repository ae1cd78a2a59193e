"""A user's computer in a directory: a home, repositories, and `agent-dev` run there as a separate program."""

import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.harness import preloaded
from tests.harness.json_documents import check_document

PROGRAM = Path(os.environ.get("AGENT_DEV_TEST_PROGRAM") or Path(sys.executable).with_name("agent-dev"))
PYTHON = "/usr/bin/python3"  # also exists in the sandbox
PATIENCE = 20.0  # seconds for something that should happen immediately, on a busy machine
PASSED_THROUGH = ("AGENT_DEV_BWRAP", "AGENT_DEV_OVERLAY", "AGENT_DEV_TEST_MUTATION")

Env = Mapping[str, str | None]
T = TypeVar("T")


def wait_until(look: Callable[[], T], what: str, patience: float = PATIENCE, pause: float = 0.01) -> T:
    """Call `look` every `pause` seconds until it returns a true value, and return that."""
    deadline = time.monotonic() + patience
    while not (found := look()):
        assert time.monotonic() < deadline, f"timed out after {patience} s: {what}"
        time.sleep(pause)
    return found


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the contents of the regular files below a directory; files that vanish meanwhile are left out."""
    found = {}
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            with suppress(FileNotFoundError):
                if stat.S_ISREG(path.lstat().st_mode):
                    found[path] = path.read_bytes()
    return found


def tree(folder: Path) -> dict[str, str]:
    """Return the content of a directory: path → type, mode and content, itself as `.`; equal trees are equal byte for byte."""
    found = {".": _entry(os.fsencode(folder))}
    for parent, folders, files in os.walk(os.fsencode(folder)):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
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
    """Return the processes, except this one, whose command line contains a text."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    argv = file.read()
            except OSError:
                continue  # it has exited
            if marker.encode() in argv:
                found.append(int(name))
    return found


def processes_inside(marker: str) -> list[int]:
    """Return those of `processes` in a nested PID namespace, which excludes agent-dev's own child processes."""
    return [pid for pid in processes(marker) if _depth(pid) > _depth(os.getpid())]


def children(pid: int) -> list[int]:
    """Return the children of a process that it has not waited for."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def open_descriptors(pid: int) -> dict[int, str]:
    """Return the open descriptors of a process: number → link target; empty if it has exited or is not readable."""
    found: dict[int, str] = {}
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            found[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    except (FileNotFoundError, PermissionError):
        return found
    return found


def descriptors_of_sleep(pid: int) -> dict[int, str]:
    """Return the open descriptors of a process that runs sleep(1), once it sleeps: the loader opens libraries for a moment."""
    wait_until(lambda: "nanosleep" in Path(f"/proc/{pid}/wchan").read_text(), "sleep to sleep")
    return open_descriptors(pid)


def supervisor_of(launcher: int) -> int:
    """Return the launcher's child that supervises commands; 0 if there is none."""
    return next((pid for pid in children(launcher) if "anon_inode:seccomp notify" in open_descriptors(pid).values()), 0)


def _depth(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0  # it has exited
    return next(len(line.split()) for line in lines if line.startswith("NSpid:"))


class AgentDev:
    """`agent-dev` as one user runs it, in one repository by default."""

    may_fork = True  # whether a command may be forked from a process that has imported the program

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
            "PAGER": "cat",
        } | {name: os.environ[name] for name in PASSED_THROUGH if name in os.environ}

    def environment(self, env: Env | None = None) -> dict[str, str]:
        """Return the user's environment with some variables set and those that are None removed."""
        return {name: value for name, value in {**self.env, **(env or {})}.items() if value is not None}

    def terminal_environment(self, env: Env | None = None) -> Env:
        """Return `environment` as changes to this process's environment, for a terminal."""
        return {**dict.fromkeys(os.environ), **self.environment(env)}

    def __call__(
        self,
        *words: str | Path,
        cwd: Path | None = None,
        env: Env | None = None,
        input: str | None = None,  # noqa: A002  (the name in subprocess.run)
        before: tuple[str, ...] = (),
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run `agent-dev WORDS` to the end; check a JSON document against its schema. `before`: a command that runs it."""
        place, environment = cwd or self.repo, self.environment(env)
        if not before and self.may_fork and preloaded.can_run(environment, input):
            done = preloaded.run([*map(str, words)], str(place), environment, input, timeout)
        else:
            done = self._execute([*before, PROGRAM, *words], place, environment, input, timeout)
        if "--json" in words:
            check_document(words, done.stdout)
        return done

    @staticmethod
    def _execute(
        argv: list[str | Path], cwd: Path, env: Mapping[str, str], typed: str | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            input=typed,
            stdin=subprocess.DEVNULL if typed is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=timeout,
            check=False,
        )

    @contextmanager
    def start(
        self, *words: str | Path, cwd: Path | None = None, env: Env | None = None, before: tuple[str, ...] = (), **more: Any
    ) -> Iterator[subprocess.Popen[str]]:
        """Start `agent-dev WORDS` with pipes; at the end stop it if it still runs, and wait for it."""
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

    def run_python_inside(self, code: str, *options: str | Path, **keywords: Any) -> Any:
        """Run Python inside; return its output parsed as JSON."""
        done = self(*options, "--", PYTHON, "-I", "-c", code, **keywords)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def do(self, *words: str | Path) -> str:
        """Run `agent-dev WORDS`, which must succeed; return its output."""
        done = self(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ended_session(self, script: str, *options: str) -> str:
        """Run a shell script as an agent, without a merge; return the session."""
        self.do("--no-merge", *options, "--", "sh", "-ec", script)
        return str(self.sessions()[-1]["session"])

    def sessions(self, *, everywhere: bool = False, cwd: Path | None = None) -> list[dict[str, Any]]:
        """Return the sessions listed by `agent-dev sessions`."""
        done = self("sessions", "--json", *(["--all"] if everywhere else []), cwd=cwd)
        assert done.returncode == 0, done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)["sessions"]
        return rows

    def status(self, session: str = "", cwd: Path | None = None) -> dict[str, Any]:
        """Return the output of `agent-dev status --json` for a session."""
        done = self("status", *([session] if session else []), "--json", cwd=cwd)
        assert done.returncode == 0, done.stderr
        value: dict[str, Any] = json.loads(done.stdout)
        return value

    def changes(self, session: str = "", cwd: Path | None = None) -> dict[str, str]:
        """Return path → kind of a session's changes."""
        return {change["path"]: change["kind"] for change in self.status(session, cwd)["changes"]}

    def session_directories(self) -> list[str]:
        """Return the directories of sessions in the state: running, waiting, or being removed."""
        return [
            f"{parent}/{name}"
            for parent in ("sessions", "gone", "trash")
            if (self.state / parent).is_dir()
            for name in os.listdir(self.state / parent)
        ]

    def git(self, *words: str | Path, cwd: Path | None = None) -> str:
        """Run the user's git outside; return its output."""
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
