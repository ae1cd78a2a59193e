"""Jobs of GNU parallel: start it on tickets, and read which jobs started, what they say, and which ended."""

import os
import subprocess
import time
from collections.abc import Callable

from agent_dev import debug
from agent_dev.errors import CommandFailed
from agent_dev.fleet.guard import start_guard
from agent_dev.fleet.places import (
    MAX_SHARED,
    JobEnd,
    Places,
    SshHosts,
    connection_argv,
    job_script,
    parallel_argv,
    parse_job_end,
    parse_start,
)
from agent_dev.linux import programs
from agent_dev.quick_dataclass import dataclass, field
from agent_dev.session.sessions import CommandContext

_CONNECT_PATIENCE = 20.0  # seconds
_MESSAGES = 64 << 10  # bytes of a task's messages that are read at a time; the rest of a flood is skipped


@dataclass(slots=True)
class _TailedFile:
    """A file that grows: how far it was read, and its incomplete last line."""

    path: str
    offset: int = 0
    rest: bytes = b""

    def lines(self, limit: int = 1 << 30) -> list[str]:
        """Return the complete lines that were added, from at most the last `limit` bytes."""
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self.offset:
                    self.offset, self.rest = 0, b""  # the job was started again
                if size - self.offset > limit:
                    self.offset, self.rest = size - limit, b"... "
                file.seek(self.offset)
                data = file.read(size - self.offset)
        except FileNotFoundError:
            return []
        self.offset += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        if len(self.rest) > limit:
            lines, self.rest = [*lines, self.rest], b""
        return [line.decode("utf-8", "replace") for line in lines]


@dataclass(slots=True)
class ParallelJobs:
    """Running jobs. `numbers` are the tasks by the job's number, from 1."""

    process: "subprocess.Popen[bytes]"
    pidfd: int
    folder: str
    numbers: tuple[int, ...]
    end_guard: Callable[[], None]
    _starts: _TailedFile
    _ends: _TailedFile
    _messages: dict[int, _TailedFile] = field(default_factory=dict)

    def started(self) -> list[tuple[int, str]]:
        """Return the tasks that were started since the last call, and their hosts."""
        found = []
        for job, host in filter(None, map(parse_start, self._starts.lines())):
            if 1 <= job <= len(self.numbers):
                self._messages.setdefault(job, _TailedFile(f"{self.folder}/out/{job}.err"))
                found.append((self.numbers[job - 1], host))
        return found

    def ended(self) -> list[tuple[int, JobEnd]]:
        """Return the tasks whose jobs ended since the last call."""
        ends = filter(None, map(parse_job_end, self._ends.lines()))
        return [(self.numbers[end.number - 1], end) for end in ends if 1 <= end.number <= len(self.numbers)]

    def messages(self) -> list[tuple[int, str]]:
        """Return the lines that tasks have written to stderr since the last call."""
        return [(self.numbers[job - 1], line) for job, file in self._messages.items() for line in file.lines(_MESSAGES)]

    def stop(self) -> None:
        """End GNU parallel and its jobs. A worker ends when its connection does."""
        self.process.kill()  # so that it starts no more
        self.end_guard()
        self.process.wait()
        os.close(self.pidfd)

    def last_message(self, job: int) -> str:
        """Return the last line that a job wrote to stderr. It is untrusted."""
        lines = [line for line in _TailedFile(f"{self.folder}/out/{job}.err").lines(_MESSAGES) if line.strip()]
        return lines[-1][:300] if lines else ""

    def last_error(self) -> str:
        """Return the last message of GNU parallel."""
        lines = _TailedFile(f"{self.folder}/parallel.err").lines(_MESSAGES)
        return lines[-1] if lines else f"exited with status {self.process.returncode}"


@dataclass(frozen=True, slots=True)
class JobsRequest:
    """The jobs to start: tickets by task, the places, how many each takes at a time, how often a lost one is started again."""

    tickets: tuple[tuple[int, str], ...]
    places: Places
    jobs: dict[str, int]
    retries: int


def find_parallel(context: CommandContext) -> str:
    """Return the path of GNU parallel. Raises CommandFailed."""
    for name in ("parallel", "prlimit"):
        if programs.find_program(name, context.environ, (context.root,)) is None:
            package = "parallel" if name == "parallel" else "util-linux"
            raise CommandFailed(program=name, reason="it is not installed", hint=f"install the package {package}")
    program = programs.find_program("parallel", context.environ, (context.root,)) or ""
    shown = subprocess.run((program, "--version"), stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60).stdout
    if not shown.startswith(b"GNU parallel"):
        raise CommandFailed(program=program, reason="it is not GNU parallel", hint="install the package parallel")
    return program


def start_jobs(program: str, folder: str, request: JobsRequest, context: CommandContext) -> ParallelJobs:
    """Start GNU parallel in an attempt's directory. What a job writes is limited by its script, and by RLIMIT_FSIZE."""
    limit = context.profile.max_bundle_mib << 20
    _write(f"{folder}/tickets", "".join(f"{line}\n" for _, line in request.tickets))
    _write(f"{folder}/job", job_script(request.places, context.profile.worker, limit))
    os.chmod(f"{folder}/job", 0o700)
    argv = (
        *("prlimit", f"--fsize={limit}", "--core=0", "--", program),
        *parallel_argv(request.places, request.jobs, request.retries, context.profile.worker),
    )
    debug.print_command(argv)
    kept = {name: value for name, value in context.environ.items() if not name.startswith("PARALLEL")}
    end_guard = start_guard(folder)
    if isinstance(request.places, SshHosts):
        _connect([name for name, count in request.jobs.items() if count <= MAX_SHARED], folder, context)
    with open(f"{folder}/tickets", "rb") as tickets, open(f"{folder}/parallel.err", "wb") as errors:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=kept | {"PARALLEL_SHELL": "/bin/sh", "LC_ALL": "C"},
            stdin=tickets,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    numbers = tuple(number for number, _ in request.tickets)
    files = _TailedFile(f"{folder}/starts"), _TailedFile(f"{folder}/joblog")
    return ParallelJobs(process, os.pidfd_open(process.pid), folder, numbers, end_guard, *files)


def _connect(names: list[str], folder: str, context: CommandContext) -> None:
    """Open a connection to each host that its tasks use. Where that fails, each task makes its own, which says what is wrong."""
    program = programs.find_program("ssh", context.environ, (context.root,))
    if program is None:
        return
    running = []
    for name in names:
        argv = (program, *connection_argv(name)[1:])
        debug.print_command(argv)
        nothing = subprocess.DEVNULL
        running.append(
            subprocess.Popen(
                argv, cwd=folder, env=context.environ, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
            )
        )
    deadline = time.monotonic() + _CONNECT_PATIENCE
    for one in running:
        try:
            one.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def _write(path: str, text: str) -> None:
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
