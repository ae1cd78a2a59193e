"""Starting programs: with the clock around them, or just for what they do."""

import os
import subprocess
import time

_NULL = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]


class ProgramFailed(Exception):
    """A program that is measured did not do what it should."""


def timed(words: tuple[str, ...], env: dict[str, str]) -> float:
    """Return milliseconds from the start of a program to its end. Raises ProgramFailed unless it exits with 0."""
    start = time.perf_counter_ns()
    pid = os.posix_spawn(words[0], words, env, file_actions=_NULL)
    _, status = os.waitpid(pid, 0)
    took = (time.perf_counter_ns() - start) / 1e6
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise ProgramFailed(f"exit code {code} of: {' '.join(words)}")
    return took


def output(words: tuple[str, ...], env: dict[str, str], *, errors: bool = False) -> str:
    """Return what a program says on stdout (or, with `errors`, on stderr). Raises ProgramFailed unless it exits with 0."""
    done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProgramFailed(f"exit code {done.returncode} of: {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stderr if errors else done.stdout


def busy(words: tuple[str, ...], env: dict[str, str]) -> float:
    """Return milliseconds of the processor's time that a program took, with those that it started and waited for.

    Raises ProgramFailed unless it exits with 0, or 1 for a part that was left.
    """
    pid = os.posix_spawn(words[0], words, env, file_actions=_NULL)
    _, status, used = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        raise ProgramFailed(f"exit code {code} of: {' '.join(words)}")
    return (used.ru_utime + used.ru_stime) * 1000
