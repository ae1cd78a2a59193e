"""Figures: measured in turns (A, B, A, B …), told as median and spread, compared as ratios within one run."""

import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WARM_UP = 3  # rounds that nobody counts: caches, the profile cache, the page cache


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to measure; `run` does it once and returns milliseconds for each thing it measured."""

    name: str
    run: Callable[[], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the range in which eight of ten figures lie (p10 to p90)."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: milliseconds, and how many times those of `against`, which should be at most `target`."""

    what: str
    time: Spread
    against: str = ""
    ratio: Spread | None = None
    target: float | None = None  # of the ratio
    limit: float | None = None  # of the time, in milliseconds

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None when there is none."""
        if self.target is not None and self.ratio is not None:
            return self.ratio.median <= self.target
        return None if self.limit is None else self.time.median <= self.limit


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark: what was done, its rows, and remarks."""

    title: str
    about: str
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()


Figures = dict[str, list[float]]


def rounds(share: int = 1) -> int:
    """Return how many rounds to run: AGENT_DEV_BENCH_ROUNDS (60), a `share`-th of it for what takes long, at least 5."""
    return max(5, int(os.environ.get("AGENT_DEV_BENCH_ROUNDS", "60")) // share)


def in_turns(subjects: Sequence[Subject], count: int, warm_up: int = WARM_UP, *, in_order: bool = True) -> dict[str, Figures]:
    """Run all subjects in turns; return by subject and by what it measured the figures, round by round.

    Not `in_order`: each round begins with the next one, since who follows one that wrote much pays for its writing.
    """
    found: dict[str, Figures] = {subject.name: {} for subject in subjects}
    for number in range(-warm_up, count):
        _progress(number + 1, count)
        first = 0 if in_order else number % len(subjects)
        for subject in (*subjects[first:], *subjects[:first]):
            for what, figure in subject.run().items():
                if number >= 0:
                    found[subject.name].setdefault(what, []).append(figure)
    return found


def spread(figures: Sequence[float]) -> Spread:
    """Return median, p10 and p90 of at least two figures."""
    tenths = statistics.quantiles(figures, n=10, method="inclusive")
    return Spread(statistics.median(figures), tenths[0], tenths[-1])


def ratio(figures: Sequence[float], against: Sequence[float]) -> Spread:
    """Return the ratio of the medians, and the range of the ratios of pairs that were measured in the same round."""
    pairs = spread([one / other for one, other in zip(figures, against, strict=True)])
    return Spread(statistics.median(figures) / statistics.median(against), pairs.low, pairs.high)


def fastest(figures: Figures, against: str) -> str:
    """Return a remark on the fastest rounds, which say what remains when nothing else runs on the machine."""
    best = min(figures[against])
    said = [f"{name} {min(times):.1f} ms ({min(times) / best:.2f} times {against})" for name, times in figures.items()]
    return f"The fastest round of each: {', '.join(said)}."


def _progress(number: int, count: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if number == count else ""
        sys.stderr.write(f"\r\x1b[Kround {max(number, 0)} of {count}{end}")
        sys.stderr.flush()
