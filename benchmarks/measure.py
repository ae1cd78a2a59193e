"""Measurements in turns (A, B, A, B …), summarized as median and spread, compared as ratios within one run."""

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks import process

T = TypeVar("T")

QUICK = "AGENT_DEV_BENCH_QUICK"  # the environment variable that `--quick` sets
_FEWEST = 2  # rounds: two figures show a spread
WARM_UP = 3  # rounds that are not counted: they fill caches
REST = 0.02  # seconds before a program starts: a child of the previous agent-dev still cleans up, which must not slow it down


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of a measurement; `run` runs it once and returns milliseconds by label."""

    name: str
    run: Callable[[], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the range of eight out of ten figures (p10 to p90)."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: figures in the unit of the section, and their ratio to those of `against`, at most `target` if given."""

    label: str
    time: Spread
    against: str = ""
    ratio: Spread | None = None
    target: float | None = None  # of the ratio
    limit: float | None = None  # of the figure, in the unit of the section

    @property
    def is_met(self) -> bool | None:
        """Return whether the target is met; None without one."""
        if self.target is not None and self.ratio is not None:
            return self.ratio.median <= self.target
        return None if self.limit is None else self.time.median <= self.limit


@dataclass(frozen=True, slots=True)
class Section:
    """A benchmark: a description, its rows, remarks, and the unit of its figures."""

    title: str
    about: str
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()
    unit: str = "ms"


Figures = dict[str, list[float]]


def program(name: str, argv: tuple[str, ...], env: dict[str, str]) -> Subject:
    """Return the subject that measures a program's time from exec to exit, after a pause."""

    def run_once() -> dict[str, float]:
        time.sleep(REST)
        return {"start": process.elapsed_time(argv, env)}

    return Subject(name, run_once)


def rounds(share: int = 1) -> int:
    """Return the rounds: AGENT_DEV_BENCH_ROUNDS (60), divided by `share` for slow ones, at least 5; 1 with `--quick`."""
    return 1 if is_quick() else max(5, int(os.environ.get("AGENT_DEV_BENCH_ROUNDS", "60")) // share)


def is_quick() -> bool:
    """Return whether this run only checks that the benchmarks work, as the tests do."""
    return os.environ.get(QUICK) == "1"


def size(full: T, quick: T) -> T:
    """Return the size of what is measured: `full`, or `quick` with `--quick`."""
    return quick if is_quick() else full


def in_turns(
    subjects: Sequence[Subject], count: int, warm_up: int = WARM_UP, *, in_order: bool = True, within: float = math.inf
) -> dict[str, Figures]:
    """Run all subjects in turns; return the figures of all rounds by subject and label.

    Unless `in_order`, each round begins with the next subject, because a subject that writes much slows down the one after it. No
    round begins after `within` seconds, except the first two: a busy machine runs fewer rounds, not a longer benchmark.
    """
    found: dict[str, Figures] = {subject.name: {} for subject in subjects}
    count, warm_up = (1, 0) if is_quick() else (count, warm_up)
    until = time.monotonic() + within
    for number in range(-warm_up, count):
        if number >= _FEWEST and time.monotonic() > until:
            break
        _progress(number + 1, count)
        first = 0 if in_order else number % len(subjects)
        for subject in (*subjects[first:], *subjects[:first]):
            for label, figure in subject.run().items():
                if number >= 0:
                    found[subject.name].setdefault(label, []).append(figure)
    return found


def spread(figures: Sequence[float]) -> Spread:
    """Return median, p10 and p90 of at least one figure."""
    if len(figures) == 1:
        return Spread(figures[0], figures[0], figures[0])
    tenths = statistics.quantiles(figures, n=10, method="inclusive")
    return Spread(statistics.median(figures), tenths[0], tenths[-1])


def ratio(figures: Sequence[float], against: Sequence[float]) -> Spread:
    """Return the ratio of the medians, and the range of the ratios of pairs measured in the same round."""
    pairs = spread([one / other for one, other in zip(figures, against, strict=True)])
    return Spread(statistics.median(figures) / statistics.median(against), pairs.low, pairs.high)


def fastest(figures: Figures, against: str) -> str:
    """Return a remark on the fastest rounds, which are the least disturbed ones."""
    best = min(figures[against])
    texts = [f"{name} {min(times):.1f} ms ({min(times) / best:.2f} times {against})" for name, times in figures.items()]
    return f"The fastest round of each: {', '.join(texts)}."


def _progress(number: int, count: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if number == count else ""
        sys.stderr.write(f"\r\x1b[Kround {max(number, 0)} of {count}{end}")
        sys.stderr.flush()
