"""Run programs, with or without timing them."""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peak

PYTHON = "/usr/bin/python3"
_NULL = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]


class ProgramFailed(Exception):
    """A measured program failed or had an unexpected result."""


def elapsed_time(argv: tuple[str, ...], env: dict[str, str]) -> float:
    """Return the milliseconds from the start of a program to its exit. Raises ProgramFailed unless it exits with status 0."""
    start = time.perf_counter_ns()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=_NULL)
    _, status = os.waitpid(pid, 0)
    took = (time.perf_counter_ns() - start) / 1e6
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise ProgramFailed(f"exit code {code} of: {' '.join(argv)}")
    return took


def output(argv: tuple[str, ...], env: dict[str, str], *, errors: bool = False, cwd: Path | None = None) -> str:
    """Return a program's stdout (or, with `errors`, stderr). Raises ProgramFailed unless it exits with status 0."""
    done = subprocess.run(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProgramFailed(f"exit code {done.returncode} of: {' '.join(argv)}\n{done.stdout}{done.stderr}")
    return done.stderr if errors else done.stdout


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time of a program and of the children it waited for, and the time from its start to its exit, in milliseconds."""

    milliseconds: float
    elapsed: float


@dataclass(frozen=True, slots=True)
class Footprint:
    """A program's processor time with that of its children, the peak memory of the largest of them in MiB, and its exit code."""

    milliseconds: float
    peak: float
    code: int


def processor_time(argv: tuple[str, ...], env: dict[str, str]) -> float:
    """Return the milliseconds of processor time of a program and of the children it waited for. Raises as `usage`."""
    return usage(argv, env).milliseconds


def usage(argv: tuple[str, ...], env: dict[str, str]) -> Usage:
    """Run a program and return what it used.

    Raises ProgramFailed unless it exits with status 0, or with 1 because a part was left out.
    """
    start = time.perf_counter_ns()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=_NULL)
    _, status, used = os.wait4(pid, 0)
    elapsed = (time.perf_counter_ns() - start) / 1e6
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        raise ProgramFailed(f"exit code {code} of: {' '.join(argv)}")
    return Usage((used.ru_utime + used.ru_stime) * 1000, elapsed)


def footprint(argv: tuple[str, ...], env: dict[str, str], keys: Sequence[str] = ()) -> Footprint:
    """Return what a program uses, with `keys` on a terminal on which they are pressed."""
    script = (PYTHON, "-I", "-S", str(Path(peak.__file__)), json.dumps(keys) if keys else "", *argv)
    code, milliseconds, mebibytes = json.loads(output(script, env))
    return Footprint(milliseconds, mebibytes, code)
