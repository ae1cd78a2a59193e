"""Helpers for all output: lines, JSON documents, names of paths and changes."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent_dev.cli.console import is_quiet
from agent_dev.cli.render.colour import PLAIN, Palette, Tone
from agent_dev.fs.entry import FileType
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Resolution
from agent_dev.overlay.labels import BLOCKED_SIGN, RISK_SIGN, SIGNS, display_path, kind_name, origin_name, outcome_of, type_name
from agent_dev.sanitize import visible
from agent_dev.session.store import Record

if TYPE_CHECKING:
    from agent_dev.merge_engine.merge_plan import SkippedChange  # imports all of merging

_TONES = {ChangeKind.ADDED: Tone.ADDED, ChangeKind.DELETED: Tone.REMOVED}
MAX_ROWS = 30  # rows shown; the others are counted
_FEW = 3  # ignored changes that are shown anyway


def print_line(text: str) -> None:
    """Write one line to stdout."""
    sys.stdout.write(text + "\n")


def print_outcome(text: str) -> None:
    """Write one line about what a command has done to stdout, unless the user asked for quiet."""
    if not is_quiet():
        print_line(text)


def print_wrapped(text: str, palette: Palette = PLAIN, tone: Tone | None = None) -> None:
    """Write one row of a list to stdout in a tone, wrapped at words if a terminal is too narrow."""
    for part in _wrapped(text) if sys.stdout.isatty() else (text,):
        print_line(palette.paint(part, tone))


def _wrapped(text: str) -> Sequence[str]:
    import shutil  # only on a terminal

    width = shutil.get_terminal_size().columns
    if len(text) <= width:
        return (text,)
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)


def format_table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield a line per row with aligned columns; empty columns are omitted."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True) if width]
        yield "  ".join(padded).rstrip()


def print_json(value: Mapping[str, object]) -> None:
    """Print a value as one JSON document with one line per key and per list item.

    The `indent` of json.dumps is slow: 200 commits took 25 ms.
    """
    print_line("{\n " + ",\n ".join(f"{json.dumps(key)}: {_part(part)}" for key, part in value.items()) + "\n}")


def _part(value: object) -> str:
    if not (isinstance(value, list) and value):
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"


def roots_of(record: Record) -> list[str]:
    """Return the roots of a session; paths of the first one are shown relative."""
    return record["roots"]


def change_rows(changes: ChangeSet, roots: Sequence[str], max_rows: int = sys.maxsize, palette: Palette = PLAIN) -> Iterable[str]:
    """Yield a line for each change; many ignored ones are summed up in one line.

    Beyond `max_rows` rows, risky and conflicting changes come first and the others are counted.
    """
    hidden = sum(_is_hidden(change) for change in changes.changes)
    shown = [change for change in changes.changes if hidden <= _FEW or not _is_hidden(change)]
    parts = [(shown, "")]
    if len(shown) > max_rows:
        parts = [([change for change in shown if _needs_review(change)], " of these")]
        parts += [([change for change in shown if not _needs_review(change)], "")]
    for part, qualifier in parts:
        yield from (change_row(change, roots, palette) for change in part[:max_rows])
        if len(part) > max_rows:
            suffix = "" if all(change.is_assessed for change in part) else ", risks not checked yet"
            yield f"{len(part) - max_rows} more{qualifier}{suffix} (agent-dev status)"
    if hidden > _FEW:
        yield f"{hidden} more, ignored by git (agent-dev status --json lists them)"
    for problem in changes.problems:
        yield f"unreadable: {visible(problem)}"
    for note in changes.notes:
        yield f"note: {visible(note)}"


def _is_hidden(change: Change) -> bool:
    return change.is_ignored and not change.known_risks


def _needs_review(change: Change) -> bool:
    return bool(change.known_risks or change.conflict or change.obstacle)


def change_row(change: Change, roots: Sequence[str], palette: Palette = PLAIN) -> str:
    """Return the line of one change."""
    tone = _TONES.get(change.kind, Tone.CHANGED)
    parts = [palette.paint(f"{SIGNS[change.kind]} {kind_name(change):<8}", tone), visible(display_path(change.key, roots))]
    if origin := origin_name(change):
        parts.append(palette.paint(f"(from {visible(origin)})", Tone.DIM))
    if change.type is not FileType.FILE:
        parts.append(f"({type_name(change.type)})")
    if change.insertions is not None and (change.insertions or change.deletions or not change.renamed_from):
        parts.append(f"+{change.insertions} -{change.deletions}")
    if change.is_ignored:
        parts.append("[ignored]")
    if change.is_combined:
        parts.append(f"({outcome_of(change, is_agents=change.resolution is Resolution.AGENT)})")
    if change.known_risks:
        parts.append(palette.paint(f"{RISK_SIGN} " + ", ".join(risk.rule for risk in change.known_risks), Tone.RISK))
    if change.conflict or change.obstacle:
        parts.append(palette.paint(f"{BLOCKED_SIGN} {visible(change.conflict or change.obstacle or '')}", Tone.REMOVED))
    return " ".join(parts)


def print_limited(rows: Sequence[str], rest: str, emit: Callable[[str], None] = print_line) -> None:
    """Print the first rows and a line with the number of the others, formatted by `rest`."""
    for row in limit_rows(rows, rest):
        emit(row)


def limit_rows(rows: Sequence[str], rest: str) -> tuple[str, ...]:
    """Return the first rows and a line with the number of the others, formatted by `rest`."""
    return (*rows[:MAX_ROWS], *([rest.format(len(rows) - MAX_ROWS)] if len(rows) > MAX_ROWS else ()))


def skipped_as_json(left: "Iterable[SkippedChange]", roots: Sequence[str]) -> list[dict[str, str]]:
    """Return skipped changes as JSON data."""
    return [{"path": display_path(one.key, roots), "reason": one.reason} for one in left]
