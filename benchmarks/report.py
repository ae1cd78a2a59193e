"""Figures as Markdown: for a terminal, and for docs/benchmarks.md."""

import os
import time
from collections.abc import Iterable, Sequence

from benchmarks.ground import Ground
from benchmarks.measure import Row, Section, Spread, rounds

_HEAD = """\
# Benchmarks

Written by `python -m benchmarks`. Absolute times are those of one machine; the ratios travel better, because everything
that is compared was measured in turns within one run (A, B, A, B …). Behind a median stands the range of eight rounds out
of ten (p10 to p90); behind a ratio of medians the range of eight out of ten ratios of two neighbours.
"""
_TAIL = """\
## Run it yourself

    make bench                                     # everything, and writes this page
    .venv/bin/python -m benchmarks startup         # or large, inside, merging, much, commits, …; only prints
    .venv/bin/python -m benchmarks --write startup # and renews that part of this page
    AGENT_DEV_BENCH_ROUNDS=200 make bench          # more rounds than 60
    AGENT_DEV_BENCH_BWRAP=/path/to/bwrap make bench    # beside the distribution's bubblewrap, this newer one

Without `AGENT_DEV_BENCH_BWRAP` the newer bubblewrap is the one that `.ci/new-bwrap` fetched, if it did. What compares
with `bwrap --overlay` needs bubblewrap 0.11 or newer.

agent-dev is built as a wheel and installed with its byte code into a new virtual environment of `/usr/bin/python3`, as a
user has it. Home, state and repositories are new folders below `/var/tmp` and are removed at the end. Only the
installation uses the network.
"""
_MARK = "\n\n## "
_BUSY = """\
**Other programs were busy on this machine: the spread is wide, and whether a target is met cannot be told from this run.**
"""
_TIMES = "\N{MULTIPLICATION SIGN}"
_QUIET = 0.4  # of the cores
_COLUMNS = ("what", "ms", "ratio", "target", "met")


def page(ground: Ground, sections: Iterable[Section]) -> str:
    """Return the whole page."""
    busy = (_BUSY,) if ground.load > _QUIET * (os.cpu_count() or 1) else ()
    return "\n".join((_HEAD, *busy, facts(ground), *(section_text(section) for section in sections), _TAIL))


def renewed(old: str, ground: Ground, sections: Iterable[Section]) -> str:
    """Return the page with some sections measured again; each says when and how."""
    head, *rest = old.split(_MARK)
    told = {text.partition("\n")[0]: text for text in rest}
    told.pop(_TAIL.partition("\n")[0].removeprefix("## "), None)
    when = f"Measured again by itself: {time.strftime('%Y-%m-%d')}, load before {ground.load:.2f}, {rounds()} rounds."
    for section in sections:
        text = section_text(section).removeprefix(_MARK.lstrip("\n"))
        told[section.title] = f"{text.rstrip()}\n\n{when}\n"
    return _MARK.join((head.rstrip("\n"), *(text.strip("\n") + "\n" for text in told.values()))) + "\n" + _TAIL


def facts(ground: Ground) -> str:
    """Return what the figures depend on."""
    name = os.uname()
    one = [f"bubblewrap {bwrap} ({'newer' if bwrap.is_chosen else 'of the distribution'})" for bwrap in ground.bwraps]
    rows = (
        ("date", time.strftime("%Y-%m-%d")),
        ("kernel", f"{name.sysname} {name.release} {name.machine}"),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("load before", f"{ground.load:.2f}"),
        ("distribution", _distribution()),
        ("sandbox", ", ".join(one)),
        ("user", "root" if os.getuid() == 0 else "an ordinary user"),
        ("rounds", str(rounds())),
    )
    return "\n".join(("| machine | |", "|---|---|", *(f"| {label} | {text} |" for label, text in rows), ""))


def section_text(section: Section) -> str:
    """Return one benchmark as a table."""
    lines = [f"## {section.title}", "", section.about, ""]
    if section.rows:
        lines += _table([_COLUMNS, *(_cells(row) for row in section.rows)])
    return "\n".join((*lines, *section.remarks, "")) + ("\n" if section.remarks else "")


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:], ""]


def _cells(row: Row) -> tuple[str, ...]:
    met = {None: "", True: "yes", False: "**no**"}[row.is_met]
    return (row.what, _milliseconds(row.time), _times(row), _target(row), met)


def _milliseconds(time_taken: Spread) -> str:
    return f"{time_taken.median:.1f} ({time_taken.low:.1f} to {time_taken.high:.1f})"


def _times(row: Row) -> str:
    if row.ratio is None:
        return ""
    return f"{row.ratio.median:.2f} {_TIMES} {row.against} ({row.ratio.low:.2f} to {row.ratio.high:.2f})"


def _target(row: Row) -> str:
    if row.target is not None:
        return f"≤ {row.target:g} {_TIMES} {row.against}"
    return "" if row.limit is None else f"≤ {row.limit:g} ms"


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else os.uname().machine


def _distribution() -> str:
    with open("/etc/os-release", encoding="utf-8") as file:
        said = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    return said.get("PRETTY_NAME", "unknown").strip('"')
