"""What all output is made of: lines, JSON documents, paths and changes in words."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent_dev.overlay.changes import Change, ChangeSet, Key, Kind
from agent_dev.sanitize import visible
from agent_dev.session.store import Record

if TYPE_CHECKING:
    from agent_dev.merge_engine.merge_plan import Left  # with all of merging

MANY = 30  # rows: past that a number stands for the rest
_FEW = 3  # ignored ones that are shown all the same
_SIGNS = {Kind.ADDED: "+", Kind.EDITED: "~", Kind.DELETED: "-", Kind.RETYPED: "%", Kind.METADATA: "m"}


def line(text: str) -> None:
    """Write one line to stdout."""
    sys.stdout.write(text + "\n")


def fitted(text: str) -> None:
    """Write one row of a list to stdout; on a terminal that is too narrow for it, wrapped at words."""
    for part in _wrapped(text) if sys.stdout.isatty() else (text,):
        line(part)


def _wrapped(text: str) -> Sequence[str]:
    import shutil  # only at a terminal

    width = shutil.get_terminal_size().columns
    if len(text) <= width:
        return (text,)
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)


def table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield a line for each row of cells, the columns side by side; a column without any text is left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True) if width]
        yield "  ".join(padded).rstrip()


def as_document(value: Mapping[str, object]) -> None:
    """Print a value as one JSON document: a line for each key, and for each item of a list.

    Not by `indent`, for which Python has no quick way: 200 commits took 25 ms.
    """
    line("{\n " + ",\n ".join(f"{json.dumps(key)}: {_part(part)}" for key, part in value.items()) + "\n}")


def _part(value: object) -> str:
    if not (isinstance(value, list) and value):
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"


def size(count: int) -> str:
    """Return a number of bytes in words, of three figures at most where they are not few: 12 B, 1.5 KiB, 130 MiB."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1000:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"


def numbered(count: int, what: str) -> str:
    """Return a number of things: `1 file`, `2 files`."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def name(key: Key, roots: Sequence[str]) -> str:
    """Return how a path is called: relative in the first root, absolute in the others; not yet made visible."""
    path = os.fsdecode(key.path)
    return path if key.root == 0 else f"{roots[key.root]}/{path}"


def roots_of(record: Record) -> list[str]:
    """Return the roots of a session, the first one's paths are shown as they are."""
    return record["roots"]


def rows_of(changes: ChangeSet, roots: Sequence[str], most: int = sys.maxsize) -> Iterable[str]:
    """Return a line for each change; many ignored ones are one line.

    `most`: past so many, what is risky or in the way comes first, and of that as of all else a number stands for the rest.
    """
    hidden = sum(_is_hidden(change) for change in changes.changes)
    shown = [change for change in changes.changes if hidden <= _FEW or not _is_hidden(change)]
    parts = [(shown, "")]
    if len(shown) > most:
        parts = [([change for change in shown if _stands_out(change)], " of these")]
        parts += [([change for change in shown if not _stands_out(change)], "")]
    for part, of_which in parts:
        yield from (row_of(change, roots) for change in part[:most])
        if len(part) > most:
            yield f"{len(part) - most} more{of_which} (agent-dev status)"
    if hidden > _FEW:
        yield f"{hidden} more, ignored by git (agent-dev status --json lists them)"
    for problem in changes.problems:
        yield f"not read: {visible(problem)}"
    for note in changes.notes:
        yield f"note: {visible(note)}"


def _is_hidden(change: Change) -> bool:
    return change.ignored and not change.risks


def _stands_out(change: Change) -> bool:
    return bool(change.risks or change.conflict or change.obstacle)


def row_of(change: Change, roots: Sequence[str]) -> str:
    """Return the line of one change."""
    parts = [_SIGNS[change.kind], f"{change.kind:<8}", visible(name(change.key, roots))]
    if change.type != "file":
        parts.append(f"({change.type})")
    if change.insertions is not None:
        parts.append(f"+{change.insertions} -{change.deletions}")
    if change.ignored:
        parts.append("[ignored]")
    if change.has_yours:
        both = "(the agent's where both changed it)" if change.is_instead else "(with what you changed)"
        parts.append("(yours stays)" if change.is_dropped else both)
    if change.risks:
        parts.append("! " + ", ".join(risk.rule for risk in change.risks))
    if change.conflict or change.obstacle:
        parts.append(f"✗ {visible(change.conflict or change.obstacle or '')}")
    return " ".join(parts)


def few(rows: Sequence[str], rest: str) -> None:
    """Print rows, and past the first ones what `rest` says of their number."""
    for row in fewer(rows, rest):
        line(row)


def fewer(rows: Sequence[str], rest: str) -> tuple[str, ...]:
    """Return rows, and past the first ones what `rest` says of their number."""
    return (*rows[:MANY], *([rest.format(len(rows) - MANY)] if len(rows) > MANY else ()))


def left_rows(left: "Iterable[Left]", roots: Sequence[str]) -> list[dict[str, str]]:
    """Return what was left as JSON has it."""
    return [{"path": name(one.key, roots), "why": one.why} for one in left]
