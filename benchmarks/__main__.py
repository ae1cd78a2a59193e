"""`python -m benchmarks [[--write] NAME…]`: all benchmarks and docs/benchmarks.md, or some, printed (or that part renewed)."""

import signal
import sys
from collections.abc import Callable

from benchmarks import (
    checkpoints,
    commands,
    commits,
    growth,
    imports,
    inside,
    large,
    merging,
    much,
    report,
    screen,
    startup,
    transactions,
)
from benchmarks.ground import PROJECT, Ground, laid_out
from benchmarks.measure import Section
from benchmarks.process import ProgramFailed

BENCHMARKS: dict[str, Callable[[Ground], tuple[Section, ...]]] = {
    "startup": startup.run,
    "large": large.run,
    "inside": inside.run,
    "merging": merging.run,
    "much": much.run,
    "growth": growth.run,
    "commits": commits.run,
    "transactions": transactions.run,
    "commands": commands.run,
    "checkpoints": checkpoints.run,
    "screen": screen.run,
    "imports": imports.run,
}
PAGE = PROJECT / "docs/benchmarks.md"


def main(words: list[str]) -> int:
    """Run what is asked for; return 0, 1 when a measured program failed, 2 for a name that is none."""
    is_kept = words[:1] == ["--write"]
    names = words[is_kept:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"benchmarks: no {unknown[0]}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # so that the ground is removed
    try:
        with laid_out() as ground:
            print(report.facts(ground), flush=True)
            sections = [section for name in names for section in _one(name, ground)]
            text = report.renewed(PAGE.read_text("utf-8"), ground, sections) if is_kept else report.page(ground, sections)
    except ProgramFailed as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if is_kept or not words:
        PAGE.write_text(text, encoding="utf-8")
        print("written to docs/benchmarks.md")
    return 0


def _one(name: str, ground: Ground) -> tuple[Section, ...]:
    sections = BENCHMARKS[name](ground)
    for section in sections:
        print(report.section_text(section), flush=True)
    return sections


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
