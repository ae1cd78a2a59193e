"""Read the rows that are appended to a log of a running session."""

import json
import os
from typing import Any

_LARGEST_READ = 1 << 20  # bytes per call
_LONGEST_LINE = 8 << 20  # bytes; a longer line is dropped


class LogTail:
    """Reads a log of JSON rows from its beginning. It keeps the file open, so that the end of a removed session is read."""

    def __init__(self, path: str) -> None:
        self._path, self._fd, self._rest = path, -1, b""
        self.is_behind = False  # whether there may be more rows to read now

    def read(self) -> list[dict[str, Any]]:
        """Return the next rows; empty if there are none, or no log yet."""
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return []  # nothing was logged yet, or the session was removed
        try:
            chunk = os.read(self._fd, _LARGEST_READ)
        except OSError:
            chunk = b""
        self.is_behind = len(chunk) == _LARGEST_READ
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""
        return [row for line in lines if (row := _parse(line))]

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _parse(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}
