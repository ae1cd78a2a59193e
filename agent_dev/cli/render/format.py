"""Helpers for all output: lines, JSON documents, names of paths and changes."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agent_dev.cli.console import is_quiet
from agent_dev.cli.render.colour import PLAIN, OutputTone, Palette
from agent_dev.cli.wrapping import wrap_line
from agent_dev.fs.entry import FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Resolution
from agent_dev.overlay.labels import (
    BLOCKED_SIGN,
    RISK_SIGN,
    SIGNS,
    display_path,
    format_count,
    kind_name,
    origin_name,
    outcome_of,
    type_name,
)
from agent_dev.sanitize import visible
from agent_dev.session.origin import typed_words
from agent_dev.session.sessions import ListedSession
from agent_dev.session.store import KILLED, RUNNING, WAITING, Record

if TYPE_CHECKING:
    from agent_dev.merge_engine.merge_plan import SkippedChange  # imports all of merging

_TONES = {ChangeKind.ADDED: OutputTone.ADDED, ChangeKind.DELETED: OutputTone.REMOVED}
Item = TypeVar("Item")

MAX_ROWS = 30  # rows shown; the others are counted
STATE_TONES = {RUNNING: OutputTone.ADDED, WAITING: OutputTone.CHANGED, KILLED: OutputTone.REMOVED}
_FEW_NAMES = 3
_COLUMNS = 80
SHORTEST_COMMAND = 12  # characters that are shown even if the line becomes too long
_FEW = 3  # ignored changes that are shown anyway


class _RenamedDirectory(NamedTuple):
    """A directory that was renamed as a whole, without the files that need a review of their own."""

    new: Key
    old: Key
    files: list[Change]
    total: int


_Row = Change | _RenamedDirectory


def print_line(text: str) -> None:
    """Write one line to stdout."""
    sys.stdout.write(text + "\n")


def print_outcome(text: str) -> None:
    """Write one line about what a command has done to stdout, wrapped as rows are, unless the user asked for quiet."""
    if not is_quiet():
        print_wrapped(text)


def print_wrapped(text: str, palette: Palette = PLAIN, tone: OutputTone | None = None) -> None:
    """Write one row of a list to stdout in a tone, wrapped at words if a terminal is too narrow."""
    for part in _wrapped(text) if sys.stdout.isatty() else (text,):
        print_line(palette.paint(part, tone))


def _wrapped(text: str) -> Sequence[str]:
    width = terminal_width()
    return (text,) if len(text) <= width else wrap_line(text, width, " " * 6)


def command_rows(about: str, command: str) -> tuple[str, ...]:
    """Return a line with a command to copy, or two if it does not fit into 80 columns: a terminal breaks words at its edge."""
    row = f"{about}: {command}"
    return (row,) if len(row) <= _COLUMNS else (f"{about}:", f"  {command}")


def terminal_width() -> int:
    """Return the columns of the terminal that stdout is; without one, as many as any line has."""
    import shutil  # rarely needed

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def command_text(argv: Sequence[object], width: int = sys.maxsize) -> str:
    """Return the first line of a command, cut to `width` columns; … stands for the rest."""
    first, _, rest = shlex.join(str(word).strip() for word in argv).partition("\n")
    return cut_text(visible(first.rstrip()) + " …" * bool(rest), width)


def cut_text(text: str, width: int) -> str:
    """Return a text of at most `width` columns; … stands for what is cut off."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)].removesuffix(' ')}…"


def short_path(path: str) -> str:
    """Return a path for display, with `~` for the user's home directory."""
    home = os.path.realpath(os.path.expanduser("~"))
    return visible("~" + path.removeprefix(home) if f"{path}/".startswith(f"{home}/") else path)


def session_line(one: ListedSession, palette: Palette = PLAIN) -> str:
    """Return a line about a session: its name, state, command and repository; the command is cut if the line is too long."""
    state = palette.paint(one.state, STATE_TONES.get(one.state))
    start, end = f"session {one.name}, ", f" in {short_path(str(one.record['root']))}"
    width = terminal_width() - len(start) - len(f"{one.state}: ") - len(end)
    return f"{start}{state}: {command_text(typed_words(one.record), max(width, SHORTEST_COMMAND))}{end}"


def format_table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield a line per row with aligned columns; empty columns are omitted."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True) if width]
        yield "  ".join(padded).rstrip()


def print_json(value: Mapping[str, object]) -> None:
    """Print a value as one JSON document with one line per key and per item of a list or an iterator.

    The `indent` of json.dumps is slow: 200 commits took 25 ms. Items are written one by one, and 100,000 from an iterator
    are never in memory together.
    """
    separator = "{\n "
    for key, part in value.items():
        sys.stdout.write(f"{separator}{json.dumps(key)}: ")
        _print_part(part)
        separator = ",\n "
    print_line("\n}")


def _print_part(value: object) -> None:
    if not isinstance(value, list | Iterator):
        sys.stdout.write(json.dumps(value))
        return
    separator = "[\n  "
    for item in value:
        sys.stdout.write(separator + json.dumps(item))
        separator = ",\n  "
    sys.stdout.write("[]" if separator.startswith("[") else "\n ]")


def roots_of(record: Record) -> list[str]:
    """Return the roots of a session; paths of the first one are shown relative."""
    return record["roots"]


def change_rows(changes: ChangeSet, roots: Sequence[str], max_rows: int = sys.maxsize, palette: Palette = PLAIN) -> Iterable[str]:
    """Yield a line for each change; many ignored ones, and the files of a renamed directory, are summed up in one line.

    Beyond `max_rows` rows, risky and conflicting changes come first and the others are counted.
    """
    hidden = sum(_is_hidden(change) for change in changes.changes)
    directories = _renamed_directories(changes)
    shown: list[_Row] = [change for change in changes.changes if hidden <= _FEW or not _is_hidden(change)]
    if directories:
        shown = _with_directories([change for change in shown if isinstance(change, Change)], directories)
    parts = [(shown, "")]
    if len(shown) > max_rows:
        parts = [([one for one in shown if _needs_review(one)], " of these")]
        parts += [([one for one in shown if not _needs_review(one)], "")]
    for part, qualifier in parts:
        yield from (_row(one, roots, palette) for one in part[:max_rows])
        if len(part) > max_rows:
            rest = f"{len(part) - max_rows} more{qualifier}"
            is_complete = all(map(_is_assessed, part))
            yield f"{rest} (agent-dev status)" if is_complete else f"{rest}, risks not checked yet (agent-dev diff --stat)"
    if hidden > _FEW:
        yield f"{hidden} more, ignored by git (agent-dev status --json lists them)"
    for problem in changes.problems:
        yield f"unreadable: {visible(problem)}"
    for note in changes.notes:
        yield f"note: {visible(note)}"


def _is_hidden(change: Change) -> bool:
    return change.is_ignored and not change.known_risks


def _needs_review(one: _Row) -> bool:
    return isinstance(one, Change) and bool(one.known_risks or one.conflict or one.obstacle)


def _is_assessed(one: _Row) -> bool:
    return all(change.is_assessed for change in ((one,) if isinstance(one, Change) else one.files))


# Renamed directories


def _renamed_directories(changes: ChangeSet) -> dict[Key, _RenamedDirectory]:
    """Return the rows of renamed directories, by the key of the first file in each."""
    if not changes.directory_renames:
        return {}
    from agent_dev.overlay.directory_renames import directory_of  # rare

    found: dict[Key, list[Change]] = {}
    for change in changes.changes:
        directory = directory_of(change, changes.directory_renames)
        if directory is not None:
            found.setdefault(directory, []).append(change)
    rows = {}
    for new, every in found.items():
        files = [change for change in every if change.renamed_from and not _needs_review(change)]
        if len(files) > 1:
            rows[files[0].key] = _RenamedDirectory(new, changes.directory_renames[new], files, len(every))
    return rows


def _with_directories(shown: list[Change], directories: Mapping[Key, _RenamedDirectory]) -> list[_Row]:
    """Return rows with each renamed directory in place of its files."""
    hidden = {change.key for one in directories.values() for change in one.files}
    return [directories.get(one.key, one) for one in shown if one.key in directories or one.key not in hidden]


def _row(one: _Row, roots: Sequence[str], palette: Palette) -> str:
    if isinstance(one, Change):
        return change_row(one, roots, palette)
    head = palette.paint(f"{SIGNS[ChangeKind.RENAMED]} {ChangeKind.RENAMED:<8}", OutputTone.CHANGED)
    origin = palette.paint(f"(from {visible(display_path(one.old, roots))}/)", OutputTone.DIM)
    inserted, deleted = sum(change.insertions or 0 for change in one.files), sum(change.deletions or 0 for change in one.files)
    lines = f" +{inserted} -{deleted}" if inserted or deleted else ""
    held = one.total - len(one.files)
    risk = palette.paint(f" {RISK_SIGN} {held} need{'s' * (held == 1)} review", OutputTone.RISK) if held else ""
    new = display_path(one.new, roots) or "."
    return f"{head} {visible(new)}/ {origin} {format_count(one.total, 'file')}{lines}{risk}"


# One change


def change_row(change: Change, roots: Sequence[str], palette: Palette = PLAIN) -> str:
    """Return the line of one change."""
    tone = _TONES.get(change.kind, OutputTone.CHANGED)
    parts = [palette.paint(f"{SIGNS[change.kind]} {kind_name(change):<8}", tone), visible(display_path(change.key, roots))]
    if origin := origin_name(change):
        parts.append(palette.paint(f"(from {visible(origin)})", OutputTone.DIM))
    if change.type is not FileType.FILE:
        parts.append(f"({type_name(change.type)})")
    if change.insertions is not None and (change.insertions or change.deletions or not change.renamed_from):
        parts.append(f"+{change.insertions} -{change.deletions}")
    if change.is_ignored:
        parts.append("[ignored]")
    if change.is_combined:
        parts.append(f"({outcome_of(change, is_agents=change.resolution is Resolution.AGENT)})")
    if change.known_risks:
        parts.append(palette.paint(f"{RISK_SIGN} " + ", ".join(risk.rule for risk in change.known_risks), OutputTone.RISK))
    if change.conflict or change.obstacle:
        parts.append(palette.paint(f"{BLOCKED_SIGN} {visible(change.conflict or change.obstacle or '')}", OutputTone.REMOVED))
    return " ".join(parts)


def print_limited(rows: Sequence[str], rest: str, emit: Callable[[str], None] = print_line) -> None:
    """Print the first rows and a line with the number of the others, formatted by `rest`."""
    print_first(rows, str, rest, emit)


def print_first(items: Sequence[Item], to_row: Callable[[Item], str], rest: str, emit: Callable[[str], None]) -> None:
    """Print the rows of the first items, and a line with the number of the others; most of 100,000 are never formatted."""
    for item in items[:MAX_ROWS]:
        emit(to_row(item))
    if len(items) > MAX_ROWS:
        emit(rest.format(len(items) - MAX_ROWS))


def format_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    rest = len(names) - _FEW_NAMES
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:_FEW_NAMES])} and {rest} more"


def limit_rows(rows: Sequence[str], rest: str) -> tuple[str, ...]:
    """Return the first rows and a line with the number of the others, formatted by `rest`."""
    return (*rows[:MAX_ROWS], *([rest.format(len(rows) - MAX_ROWS)] if len(rows) > MAX_ROWS else ()))


def skipped_as_json(left: "Iterable[SkippedChange]", roots: Sequence[str]) -> list[dict[str, str]]:
    """Return skipped changes as JSON data."""
    return [{"path": display_path(one.key, roots), "reason": one.reason} for one in left]
