"""Format figures as Markdown, for a terminal and for docs/benchmarks.md."""

import os
import time
from collections.abc import Iterable, Sequence

from benchmarks.measure import Row, Section, Spread, rounds
from benchmarks.working_directory import WorkingDirectory

_HEAD = """\
# Benchmarks

Written by `python -m benchmarks`. Absolute times hold for one machine. Ratios are more portable, because alternatives were
measured in turns within one run (A, B, A, B …). Each median is followed by the range of eight out of ten rounds (p10
to p90), each ratio of medians by the same range of the ratios within one round.
"""
_TAIL = """\
## Run it yourself

    make bench                                     # run all benchmarks and write this page
    .venv/bin/python -m benchmarks startup         # run one and print it; others: large, inside, merging, much, commits, …
    .venv/bin/python -m benchmarks --write startup # run one and update its part of this page
    AGENT_DEV_BENCH_ROUNDS=200 make bench          # 200 rounds instead of 60
    AGENT_DEV_BENCH_BWRAP=/path/to/bwrap make bench    # also with this newer bubblewrap
    AGENT_DEV_BENCH_CLONES=/path make bench        # also compare with /path/try and /path/agent-dev-env
    AGENT_DEV_BENCH_FILES=10000 make bench         # 10,000 changes instead of 100,000
    .venv/bin/python -m benchmarks --quick         # small sizes, one round: check that they work

Without `AGENT_DEV_BENCH_BWRAP`, the newer bubblewrap is the one that `.ci/new-bwrap` downloaded, if any. Comparisons
with `bwrap --overlay` need bubblewrap 0.11 or newer.

PostgreSQL refuses to be run as root. If you are root, `.ci/as-user .venv/bin/python -m benchmarks --write tools` measures the
tools as an ordinary user, and updates the page of that user's copy of the checkout.

As on a user's machine, agent-dev is built as a wheel and installed, with bytecode, into a new virtual environment of
`/usr/bin/python3`. Home, state directory and repositories are new directories below `/var/tmp`, which are removed at the end.
Only the installation and `sandboxes` use the network: `sandboxes` installs Codex and sandbox-runtime from npm, in pinned
versions. It also compares with rsync, if installed, and with [try](https://github.com/binpash/try) and
[agent-dev-env](https://github.com/3scale-labs/agent-dev-env), if `AGENT_DEV_BENCH_CLONES` names a directory with clones of
both. sandbox-runtime needs socat and ripgrep.
"""
_MARK = "\n\n## "
_BUSY = """\
**Other programs were busy on this machine: the spread is wide, and this run cannot show whether the targets are met.**
"""
_TIMES = "\N{MULTIPLICATION SIGN}"
_QUIET = 0.4  # of the cores
_COLUMNS = ("what", "ms", "ratio", "target", "met")  # the second one is named after the unit


def page(workdir: WorkingDirectory, sections: Iterable[Section]) -> str:
    """Return the whole page."""
    busy = (_BUSY,) if workdir.load > _QUIET * (os.cpu_count() or 1) else ()
    return "\n".join((_HEAD, *busy, machine_table(workdir), *(section_text(section) for section in sections), _TAIL))


def renew(old: str, workdir: WorkingDirectory, sections: Iterable[Section]) -> str:
    """Return the page with some sections replaced by new measurements, which say when and how they were made."""
    head, *rest = old.split(_MARK)
    texts = {text.partition("\n")[0]: text for text in rest}
    texts.pop(_TAIL.partition("\n")[0].removeprefix("## "), None)
    when = f"Measured separately: {time.strftime('%Y-%m-%d')}, load before {workdir.load:.2f}, {rounds()} rounds, as {_user()}."
    for section in sections:
        text = section_text(section).removeprefix(_MARK.lstrip("\n"))
        texts[section.title] = f"{text.rstrip()}\n\n{when}\n"
    return _MARK.join((head.rstrip("\n"), *(text.strip("\n") + "\n" for text in texts.values()))) + "\n" + _TAIL


def machine_table(workdir: WorkingDirectory) -> str:
    """Return a table of the machine's properties that affect the figures."""
    name = os.uname()
    one = [f"bubblewrap {bwrap} ({'newer' if bwrap.is_replacement else 'of the distribution'})" for bwrap in workdir.bwraps]
    rows = (
        ("date", time.strftime("%Y-%m-%d")),
        ("kernel", f"{name.sysname} {name.release} {name.machine}"),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("load before", f"{workdir.load:.2f}"),
        ("distribution", _distribution()),
        ("sandbox", ", ".join(one)),
        ("user", _user()),
        ("rounds", str(rounds())),
    )
    return "\n".join(("| machine | |", "|---|---|", *(f"| {label} | {text} |" for label, text in rows), ""))


def section_text(section: Section) -> str:
    """Return a benchmark as a table."""
    lines = [f"## {section.title}", "", section.about, ""]
    if section.rows:
        head = (_COLUMNS[0], section.unit, *_COLUMNS[2:])
        lines += _table([head, *(_cells(row, section.unit) for row in section.rows)])
    return "\n".join((*lines, *section.remarks, "")) + ("\n" if section.remarks else "")


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:], ""]


def _cells(row: Row, unit: str) -> tuple[str, ...]:
    met = {None: "", True: "yes", False: "**no**"}[row.is_met]
    return (row.label, _figures(row.time), _times(row), _target(row, unit), met)


def _figures(time_taken: Spread) -> str:
    digits = 1 if time_taken.median >= 1 else 2
    return f"{time_taken.median:.{digits}f} ({time_taken.low:.{digits}f} to {time_taken.high:.{digits}f})"


def _times(row: Row) -> str:
    if row.ratio is None:
        return ""
    return f"{row.ratio.median:.2f} {_TIMES} {row.against} ({row.ratio.low:.2f} to {row.ratio.high:.2f})"


def _target(row: Row, unit: str) -> str:
    if row.target is not None:
        return f"≤ {row.target:g} {_TIMES} {row.against}"
    return "" if row.limit is None else f"≤ {row.limit:g} {unit}"


def _user() -> str:
    return "root" if os.getuid() == 0 else "an ordinary user"


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else os.uname().machine


def _distribution() -> str:
    with open("/etc/os-release", encoding="utf-8") as file:
        fields = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    return fields.get("PRETTY_NAME", "unknown").strip('"')
