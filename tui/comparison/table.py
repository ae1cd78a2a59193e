"""The state of the comparison: the lines of the table and the cursor; pure."""

import textwrap
from typing import NamedTuple

from agent_dev.quick_dataclass import dataclass, replace
from tui.model.document import Tone


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """An attempt: its line of the table, what is shown about it below, and whether it has a session to review."""

    line: str
    details: tuple[str, ...] = ()
    has_session: bool = True
    is_best: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """The head of the table, its rows, the reason for the best one, and the row of the cursor."""

    head: str
    rows: tuple[ComparedRow, ...]
    reason: str
    cursor: int = 0

    @property
    def row(self) -> ComparedRow:
        """The row under the cursor."""
        return self.rows[self.cursor]


class TableLine(NamedTuple):
    """A line of the screen; `row`: the index of its attempt, -1 for other lines."""

    text: str
    tone: str = Tone.PLAIN
    row: int = -1


def move(comparison: Comparison, by: int) -> Comparison:
    """Move the cursor; it stops at the ends."""
    return replace(comparison, cursor=max(0, min(comparison.cursor + by, len(comparison.rows) - 1)))


def table_lines(comparison: Comparison, columns: int) -> list[TableLine]:
    """Return the lines of the screen, wrapped to a width; the lines of the table are cut by the screen."""
    found = [*_wrap(comparison.reason, columns, Tone.STRONG), TableLine(""), TableLine(f"  {comparison.head}", Tone.DIM)]
    for number, row in enumerate(comparison.rows):
        sign = "▸" if number == comparison.cursor else " "
        tone = "accent" if number == comparison.cursor else "selected" if row.is_best else Tone.PLAIN
        found.append(TableLine(f"{sign} {row.line}", tone, number))
    found.append(TableLine(""))
    for text in comparison.row.details:
        found += _wrap(text, columns, Tone.PLAIN)
    return found


def _wrap(text: str, columns: int, tone: str) -> list[TableLine]:
    parts = textwrap.wrap(text, max(columns - 2, 20), initial_indent="  ", subsequent_indent="  ")
    return [TableLine(part, tone) for part in parts]
