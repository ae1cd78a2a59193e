"""What a terminal's window shows: pyte, with what it lacks for the programs of today."""

import re
from collections.abc import Callable
from copy import copy
from typing import Any

import pyte

# What pyte prints as junk: private CSI, SGR with colons, and the strings DCS, SOS, PM and APC.
_STRANGE = re.compile(
    rb"\x1b\[[<>=][0-9;:]*[ -/]*[@-~]|\x1b\[[0-9;]*:[0-9;:]*m|\x1b[PX^_].*?(?:\x1b\\|\x07)",
    re.DOTALL,
)
_BEGUN = re.compile(rb"\x1b(?:\[[<>=]?[0-9;:]*[ -/]*|[PX^_](?:(?!\x1b\\|\x07).)*)?\Z", re.DOTALL)

_ALTERNATE = {47, 1047, 1049}


class SequenceFilter:
    """Takes out of a stream of terminal output the sequences that pyte does not know, however it is cut into chunks."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what of this chunk, and of what was held back before, pyte can read."""
        clean = _STRANGE.sub(b"", self._held + chunk)
        begun = _BEGUN.search(clean)
        end = begun.start() if begun else len(clean)
        self._held = clean[end:]
        return clean[:end]


class Screen(pyte.Screen):
    """A pyte screen that answers the program's questions and has the alternate screen that pyte lacks."""

    def __init__(self, rows: int, cols: int, answer: Callable[[bytes], None]) -> None:
        self._answer = answer
        self._main: tuple[dict[int, Any], pyte.screens.Cursor] | None = None
        self._left = (1, 1)  # where the cursor was when the alternate screen was last entered
        super().__init__(cols, rows)

    def write_process_input(self, data: str) -> None:
        """Send the answer to a question about the cursor or the device."""
        self._answer(data.encode())

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        """Set modes; entering the alternate screen puts the main one aside."""
        super().set_mode(*modes, **kwargs)
        if kwargs.get("private") and _ALTERNATE.intersection(modes) and self._main is None:
            self._main = (
                {row: copy(line) for row, line in self.buffer.items()},
                self.cursor,
            )
            self._left = (self.cursor.y + 1, self.cursor.x + 1)
            self.cursor = pyte.screens.Cursor(self.cursor.x, self.cursor.y)
            self.erase_in_display(2)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        """Reset modes; leaving the alternate screen brings the main one back."""
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes and self._main is None:
            self.cursor_position(*self._left)  # as xterm and tmux do
        if kwargs.get("private") and _ALTERNATE.intersection(modes) and self._main is not None:
            self.erase_in_display(2)
            lines, self.cursor = self._main
            self.buffer.update(lines)
            self._main = None
            self.cursor.x, self.cursor.y = (
                min(self.cursor.x, self.columns - 1),
                min(self.cursor.y, self.lines - 1),
            )

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        """Set or end the scrolling region; either way the cursor goes to the top, which pyte forgets at the end of one."""
        super().set_margins(top, bottom)
        self.cursor_position()

    def is_alternate(self) -> bool:
        """Whether a full-screen program has the screen."""
        return self._main is not None

    def text(self) -> str:
        """Return the rows, without the blanks at their ends, joined by newlines."""
        # Not `display`, which fails where half of a wide character was overwritten.
        columns = range(self.columns)
        rows = ("".join(self.buffer[row][column].data for column in columns) for row in range(self.lines))
        return "\n".join(row.rstrip() for row in rows)
