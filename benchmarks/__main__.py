"""Run benchmarks: `python -m benchmarks [--write | --quick] [NAME…]`. Without arguments, run all and write the page.

`--quick` runs one round of small sizes, with the agent-dev of this interpreter, and writes nothing: the tests use it.
"""

import os
import signal
import sys
from collections.abc import Callable

from benchmarks import (
    bundles,
    checkpoints,
    commands,
    commits,
    fleet,
    inside,
    large,
    many_files,
    measure,
    merging,
    renames,
    report,
    reviews,
    screen,
    startup,
    terminal,
    transactions,
)
from benchmarks.comparison import peers, sandboxes, tools
from benchmarks.measure import Section
from benchmarks.net import credentials, gateway
from benchmarks.process import ProgramFailed
from benchmarks.scaling import curves, growth, scale
from benchmarks.working_directory import PROJECT, WorkingDirectory, working_directory

BENCHMARKS: dict[str, Callable[[WorkingDirectory], tuple[Section, ...]]] = {
    "startup": startup.run,
    "busy": startup.run_busy,
    "steps": startup.run_steps,
    "first": startup.run_first_commands,
    "large": large.run,
    "inside": inside.run,
    "merging": merging.run,
    "much": many_files.run,
    "scale": scale.run,
    "growth": growth.run,
    "curves": curves.run,
    "commits": commits.run,
    "bundles": bundles.run,
    "reviews": reviews.run,
    "tools": tools.run,
    "transactions": transactions.run,
    "fleet": fleet.run,
    "commands": commands.run,
    "renames": renames.run,
    "checkpoints": checkpoints.run,
    "screen": screen.run,
    "terminal": terminal.run,
    "network": gateway.run,
    "credentials": credentials.run,
    "peers": peers.run,
    "sandboxes": sandboxes.run,
    "imports": startup.run_imports,
}
PAGE = PROJECT / "docs/benchmarks.md"


def main(argv: list[str]) -> int:
    """Run the named benchmarks; return 0, 1 if a measured program failed, 2 for an unknown name."""
    if argv[:1] == ["--quick"]:  # start again: sizes are constants of the modules
        os.execve(sys.executable, (sys.executable, "-m", "benchmarks", *argv[1:]), os.environ | {measure.QUICK: "1"})
    is_written = argv[:1] == ["--write"]
    names = argv[is_written:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"benchmarks: unknown benchmark {unknown[0]}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # so that the working directory is removed
    try:
        with working_directory() as workdir:
            print(report.machine_table(workdir), flush=True)
            sections = [section for name in names for section in _one(name, workdir)]
            text = report.renew(PAGE.read_text("utf-8"), workdir, sections) if is_written else report.page(workdir, sections)
    except ProgramFailed as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if not measure.is_quick() and (is_written or not argv):
        PAGE.write_text(text, encoding="utf-8")
        print("written to docs/benchmarks.md")
    return 0


def _one(name: str, workdir: WorkingDirectory) -> tuple[Section, ...]:
    sections = BENCHMARKS[name](workdir)
    for section in sections:
        print(report.section_text(section), flush=True)
    return sections


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
