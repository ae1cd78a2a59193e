"""A terminal screen emulated by pyte, extended for modern programs."""

import re
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from inspect import signature
from typing import Any

import pyte

# Sequences that pyte prints as text: private CSI, intermediate bytes, SGR with colons, and DCS, SOS, PM and APC strings.
_UNSUPPORTED = re.compile(
    rb"\x1b\[[<>=][0-9;:]*[ -/]*[@-~]"
    rb"|\x1b\[[0-9;]*[ -/]+[@-~]|\x1b\[\?[0-9;]*m|\x1b [@-~]|\x1b\[[0-9;]*:[0-9;:]*m|\x1b[PX^_].*?(?:\x1b\\|\x07)",
    re.DOTALL,
)
_INCOMPLETE = re.compile(rb"\x1b(?: |\[[<>=?]?[0-9;:]*[ -/]*|[PX^_](?:(?!\x1b\\|\x07).)*)?\Z", re.DOTALL)

_ALTERNATE = {47, 1047, 1049}


class SequenceFilter:
    """A filter of terminal output that removes sequences that pyte does not support, across chunks."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the supported output of this chunk and of the pending bytes; an incomplete sequence stays pending."""
        clean = _UNSUPPORTED.sub(b"", self._pending + chunk)
        incomplete = _INCOMPLETE.search(clean)
        end = incomplete.start() if incomplete else len(clean)
        self._pending = clean[end:]
        return clean[:end]


def _ignoring_excess(method: Callable[..., None]) -> Callable[..., None]:
    """Return a handler of a CSI sequence that ignores what pyte fails at: excess parameters, unknown private ones and values."""
    parameters = signature(method).parameters.values()
    own = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "private"]
    limit = None if any(one.kind is one.VAR_POSITIONAL for one in parameters) else len(own)
    knows_private = any(one.name == "private" or one.kind is one.VAR_KEYWORD for one in parameters)

    def handle(*values: int, **keywords: bool) -> None:
        if knows_private or not keywords:
            with suppress(UnboundLocalError, AssertionError):  # an unknown part to erase, a region that is not set
                method(*values[:limit], **keywords)

    return handle


class Screen(pyte.Screen):
    """A pyte screen with replies to queries and an alternate screen."""

    def __init__(self, rows: int, cols: int, answer: Callable[[bytes], None]) -> None:
        self._answer = answer
        self._main: tuple[dict[int, Any], pyte.screens.Cursor] | None = None
        self._saved_cursor = (1, 1)  # position when the alternate screen was last entered
        super().__init__(cols, rows)
        for name in set(pyte.Stream.csi.values()):
            setattr(self, name, _ignoring_excess(getattr(self, name)))

    def write_process_input(self, data: str) -> None:
        """Send the reply to a query about the cursor or the device."""
        self._answer(data.encode())

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        """Set attributes; a private sequence that the filter did not recognize sets none."""
        if not private:
            super().select_graphic_rendition(*attributes)

    def report_device_status(self, mode: int, *, private: bool = False) -> None:
        """Answer a query, unless it is a private one, such as that for the colour scheme: an older terminal answers none."""
        if not private:
            super().report_device_status(mode)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        """Set modes; entering the alternate screen saves the main one."""
        super().set_mode(*modes, **kwargs)
        if kwargs.get("private") and _ALTERNATE.intersection(modes) and self._main is None:
            self._main = (
                {row: copy(line) for row, line in self.buffer.items()},
                self.cursor,
            )
            self._saved_cursor = (self.cursor.y + 1, self.cursor.x + 1)
            self.cursor = pyte.screens.Cursor(self.cursor.x, self.cursor.y)
            self.erase_in_display(2)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        """Reset modes; leaving the alternate screen restores the main one."""
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes and self._main is None:
            self.cursor_position(*self._saved_cursor)  # as xterm and tmux do
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
        """Set or reset the scrolling region, and move the cursor to the top, which pyte omits on reset."""
        super().set_margins(top, bottom)
        self.cursor_position()

    def is_alternate(self) -> bool:
        """Return whether the alternate screen is active."""
        return self._main is not None

    def text(self) -> str:
        """Return the rows without trailing spaces, joined by newlines."""
        # Not `display`: it fails if half of a wide character was overwritten.
        columns = range(self.columns)
        rows = ("".join(self.buffer[row][column].data for column in columns) for row in range(self.lines))
        return "\n".join(row.rstrip() for row in rows)
