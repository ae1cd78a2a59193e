"""Lines on the stderr of the program that made a connection: why it was refused, or that it waits for the user.

They are for people who read a command's output. Nothing is written to the terminal of a full-screen program, and each program
gets only one line per destination and reason.
"""

import os

from agent_dev.linux import process
from agent_dev.network.connection import Connection
from agent_dev.network.programs import ProgramFinder
from agent_dev.network.rate import RateLimit
from agent_dev.sanitize import visible

_MAX_REMEMBERED = 4096
_MAX_WRITERS = 8  # child processes at once
_BURST, _PER_SECOND = 20, 5


class CallerNotes:
    """Writes the lines: a burst of twenty, then five a second. A program that does not read its stderr delays nothing."""

    def __init__(self, finder: ProgramFinder) -> None:
        self._finder = finder
        self._told: set[tuple[int, str]] = set()
        self._writers: list[int] = []
        self._limit = RateLimit(_BURST, _PER_SECOND)

    def tell(self, connection: Connection, text: str) -> None:
        """Write a line about a connection, if its program is known."""
        pid = connection.entry.row.get("pid", 0)
        if not pid or (pid, text) in self._told or not self._finder.namespace:
            return
        self._writers = [one for one in self._writers if not os.waitpid(one, os.WNOHANG)[0]]
        if len(self._writers) >= _MAX_WRITERS or not self._limit.take():
            return
        if len(self._told) >= _MAX_REMEMBERED:
            self._told.clear()
        self._told.add((pid, text))
        self._writers.append(process.start_writing_to_stderr(pid, f"agent-dev: {visible(text)}\n", self._finder.namespace))
