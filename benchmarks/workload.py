"""Typical work of an agent, timed from within: a script that runs in a sandbox, in the repository of `inside`.

It is self-contained and prints one JSON object: for each kind of work the milliseconds of the fastest pass, the least
disturbed one.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

READ, STAT, SPAWN = 2000, 20_000, 300


def _files(folder: str, count: int) -> list[str]:
    found = [f"{above}/{name}" for above, _, names in sorted(os.walk(folder)) for name in sorted(names)]
    return found[:count]


def _read(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb", 0) as file:
            file.read()


def _stat(paths: list[str]) -> None:
    for path in paths:
        os.stat(path)


def _spawn(count: int) -> None:
    for _ in range(count):
        os.waitpid(os.posix_spawn("/usr/bin/true", ("true",), {}), 0)


def _git_status() -> None:
    subprocess.run(("/usr/bin/git", "status", "--porcelain"), check=True, stdout=subprocess.DEVNULL)


def _milliseconds(work: Callable[[], None]) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e6


def main(passes: int, kinds: list[str]) -> None:
    """Do everything, or the work of these kinds, once unmeasured, then `passes` times. A kind is the first word of its label."""
    to_read, to_stat = _files("src", READ), _files("many", STAT)
    if len(to_read) != READ or (len(to_stat) != STAT and not kinds):
        sys.exit("this is not the repository of benchmarks/inside.py")
    jobs: dict[str, Callable[[], None]] = {
        f"read {READ:,} files": lambda: _read(to_read),
        f"stat {STAT:,} files": lambda: _stat(to_stat),
        f"start {SPAWN} processes": lambda: _spawn(SPAWN),
        "git status, 5,000 files": _git_status,
    }
    jobs = {name: work for name, work in jobs.items() if not kinds or name.split()[0] in kinds}
    took: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(passes + 1):
        for name, work in jobs.items():
            milliseconds = _milliseconds(work)
            if number:
                took[name].append(milliseconds)
    json.dump({name: min(figures) for name, figures in took.items()}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
