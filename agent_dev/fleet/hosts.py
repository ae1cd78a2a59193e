"""Prepare all hosts at the same time: greet the worker of each, and send the commit to those that lack it."""

import os
import select
import subprocess
import time
from collections.abc import Callable

from agent_dev import debug
from agent_dev.errors import AgentDevError, CommandFailed, Refused, WorkerRefused
from agent_dev.fleet.answer import MAX_GREETING, WorkerGreeting, agree_on_protocol, parse_greeting
from agent_dev.fleet.places import Places, place_names, remote_argv
from agent_dev.git import repository
from agent_dev.linux import programs
from agent_dev.quick_dataclass import dataclass
from agent_dev.sanitize import visible
from agent_dev.session.sessions import CommandContext

_PATIENCE = 30.0  # seconds for a greeting
_PREFIX = "agent-dev: "  # of messages
_SEND_PATIENCE = 1800.0  # seconds for the commit, for all hosts together
_END_PATIENCE = 30.0  # seconds for the end of a worker that has the commit


@dataclass(slots=True)
class _Connection:
    process: "subprocess.Popen[bytes]"
    greeting: WorkerGreeting | None = None
    packing: "subprocess.Popen[bytes] | None" = None


class SourceRepository:
    """The user's repository, from which commits are sent."""

    def __init__(self, context: CommandContext) -> None:
        """Raise Refused if tasks cannot be sent from it."""
        git, program = repository.find_git_dir(context.root), programs.find_program("git", context.environ, (context.root,))
        if git is None or program is None:
            raise Refused(message="tx --on needs a git repository", hint="git init, and commit")
        if os.path.exists(f"{git.common}/shallow"):
            raise Refused(message="tx --on cannot send a shallow clone", hint="git fetch --unshallow")
        self._root, self._program, self._environ = context.root, program, context.environ

    def head(self) -> tuple[str, str]:
        """Return the commit and the branch of HEAD, "" if it is detached. Raises Refused before the first commit."""
        code, commit = self._run("rev-parse", "-q", "--verify", "HEAD^{commit}")
        if code:
            raise Refused(message="tx --on needs a commit", hint="git commit")
        code, branch = self._run("symbolic-ref", "-q", "--short", "HEAD")
        return commit.decode().strip(), "" if code else branch.decode("utf-8", "surrogateescape").strip()

    def count_uncommitted(self) -> int:
        """Return how many files differ from HEAD, untracked ones included; an untracked directory counts as one."""
        # Not diff-index, which takes a file for changed if the index has another time of it.
        _, output = self._run("--no-optional-locks", "status", "--porcelain", "--no-renames", "-z")
        return output.count(b"\0")

    def start_pack(self, commit: str, known: tuple[str, ...], target: int) -> "subprocess.Popen[bytes]":
        """Start writing a pack of a commit without what known commits have; those that are not here are ignored."""
        found = known and self._run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin="\n".join(known).encode())[1]
        wanted = (
            [commit, *(f"^{row.split()[0]}" for row in found.decode().splitlines() if row.endswith(" commit"))]
            if found
            else [commit]
        )
        argv = (self._program, "-C", self._root, *repository.SAFE_OPTIONS, "pack-objects", "--revs", "--stdout", "-q", "--thin")
        debug.print_command(argv)
        process = subprocess.Popen(
            (*argv, "--delta-base-offset"),
            env=repository.git_environment(self._environ),
            stdin=subprocess.PIPE,
            stdout=target,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None  # noqa: S101  (for mypy: it is a pipe)
        with process.stdin:
            process.stdin.write("".join(f"{one}\n" for one in wanted).encode())
        return process

    def write_pack(self, commit: str, path: str) -> None:
        """Write a pack of a whole commit to a new file. Raises CommandFailed."""
        with open(path, "xb") as file:
            if self.start_pack(commit, (), file.fileno()).wait():
                raise CommandFailed(program="git", reason="the commit cannot be packed")

    def _run(self, *args: str, stdin: bytes = b"") -> tuple[int, bytes]:
        return repository.run_git(self._program, self._root, args, stdin, self._environ)


def prepare_places(
    places: Places, commit: str, source: SourceRepository, context: CommandContext, warn: Callable[[str], None]
) -> dict[str, WorkerGreeting]:
    """Greet every place and send it the commit; return the greetings of those that can be used. Raises the last error if none."""
    worker = context.profile.worker
    connections = {
        name: _connect(remote_argv(places, name, worker, ("work", "--prepare", commit)), context) for name in place_names(places)
    }
    failures: dict[str, AgentDevError] = {}
    try:
        for name, connection in connections.items():
            try:
                _greet(name, connection, commit, source)
            except WorkerRefused as error:
                failures[name] = error
        deadline = time.monotonic() + _SEND_PATIENCE
        for name, connection in connections.items():
            if name not in failures and (problem := _finish(name, connection, deadline)):
                failures[name] = problem
    finally:
        for connection in connections.values():
            _close(connection)
    greetings = {name: one.greeting for name, one in connections.items() if name not in failures and one.greeting is not None}
    failures |= agree_on_protocol(greetings)[1]
    if len(failures) == len(connections):
        raise next(reversed(failures.values()))
    for failure in failures.values():
        warn(failure.message)
    return {name: greeting for name, greeting in greetings.items() if name not in failures}


def greet_place(places: Places, name: str, context: CommandContext) -> WorkerGreeting:
    """Return the greeting of a place without sending anything. Raises WorkerRefused."""
    argv = remote_argv(places, name, context.profile.worker, ("work", "--prepare", "0" * 40))
    connection = _connect(argv, context)
    try:
        line = _read_line(name, connection)
        return parse_greeting(line, name)
    finally:
        _close(connection)


def _connect(argv: tuple[str, ...], context: CommandContext) -> _Connection:
    program = programs.find_program(argv[0], context.environ, (context.root,))
    if program is None:
        raise CommandFailed(program=argv[0], reason="it is not installed")
    debug.print_command(argv)
    return _Connection(
        subprocess.Popen(
            (program, *argv[1:]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=context.environ,
            cwd="/",
            start_new_session=True,
        )
    )


def _greet(name: str, connection: _Connection, commit: str, source: SourceRepository) -> None:
    connection.greeting = parse_greeting(_read_line(name, connection), name)
    assert connection.process.stdin is not None  # noqa: S101  (for mypy: it is a pipe)
    with connection.process.stdin as stdin:
        if not connection.greeting.has_commit:
            connection.packing = source.start_pack(commit, connection.greeting.known, stdin.fileno())


def _read_line(name: str, connection: _Connection) -> bytes:
    """Read the greeting's line. Raises WorkerRefused with the last error message if there is none."""
    assert connection.process.stdout is not None  # noqa: S101  (for mypy: it is a pipe)
    line = read_bounded(connection.process.stdout.fileno(), MAX_GREETING, _PATIENCE, until=b"\n")
    if line is None:
        raise WorkerRefused(host=name, reason=f"no answer within {_PATIENCE:.0f} s")
    if len(line) > MAX_GREETING:
        raise WorkerRefused(host=name, reason=f"its greeting is longer than {MAX_GREETING >> 10} KiB")
    if b"\n" not in line:
        raise WorkerRefused(host=name, reason=_last_error(connection), hint=f"agent-dev doctor --on {name}")
    return line.partition(b"\n")[0]


def read_bounded(fd: int, limit: int, patience: float, until: bytes = b"") -> bytes | None:
    """Return what a worker writes, up to its end, `until` or `limit` bytes; None if that takes longer than `patience` seconds."""
    data, deadline = b"", time.monotonic() + patience
    while len(data) <= limit and not (until and until in data):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return None
        piece = os.read(fd, 1 << 16)
        if not piece:
            break
        data += piece
    return data


def _finish(name: str, connection: _Connection, deadline: float) -> WorkerRefused | None:
    """Wait until the commit is stored; return the problem if it is not."""
    try:
        patience = max(deadline - time.monotonic(), 0.0)
        code = connection.process.wait(patience if connection.packing else min(patience, _END_PATIENCE))
    except subprocess.TimeoutExpired:
        if connection.packing is None:
            return WorkerRefused(host=name, reason=f"its worker did not end within {_END_PATIENCE:.0f} s")
        return WorkerRefused(host=name, reason=f"the commit was not stored within {_SEND_PATIENCE:.0f} s")
    if connection.packing is not None and connection.packing.wait() and not code:
        return WorkerRefused(host=name, reason="the commit cannot be packed")
    return WorkerRefused(host=name, reason=_last_error(connection)) if code else None


def _last_error(connection: _Connection) -> str:
    """Return the last message of a worker that ended, without agent-dev's own prefix; else the last line, of another program."""
    assert connection.process.stderr is not None  # noqa: S101  (for mypy: it is a pipe)
    fd = connection.process.stderr.fileno()
    os.set_blocking(fd, False)
    try:
        text = os.read(fd, 1 << 16)
    except BlockingIOError:
        text = b""
    lines = [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    own = [line.removeprefix(_PREFIX) for line in lines if line.startswith(_PREFIX)]
    found = [line for line in own if not line.startswith("hint: ")] or lines
    return visible(found[-1][:300]) if found else "it ended without an answer"


def _close(connection: _Connection) -> None:
    for process in filter(None, (connection.packing, connection.process)):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    for stream in (connection.process.stdin, connection.process.stdout, connection.process.stderr):
        if stream is not None:
            stream.close()
