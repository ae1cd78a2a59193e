"""Lines on the stderr of the program that made a connection: why it was refused, or that it waits for the user.

They are for people who read a command's output. Nothing is written to the terminal of a full-screen program, and each program
gets only one line per destination and reason.
"""

import asyncio
import os

from agent_dev.linux import process
from agent_dev.network.connection import Connection
from agent_dev.network.programs import ProgramFinder
from agent_dev.network.rate import RateLimit
from agent_dev.sanitize import visible

_MAX_REMEMBERED = 4096
_MAX_WRITERS = 8  # child processes at once
_BURST, _PER_SECOND = 20, 5
_WRITING = 1  # seconds: a program that does not read its stderr delays its own refusal only so long


class CallerNotes:
    """Writes the lines: a burst of twenty, then five a second. A program that does not read its stderr delays nothing."""

    def __init__(self, finder: ProgramFinder) -> None:
        self._finder = finder
        self._told: set[tuple[int, str]] = set()
        self._writers: list[int] = []
        self._limit = RateLimit(_BURST, _PER_SECOND)

    async def tell_before_end(self, connection: Connection, text: str) -> None:
        """Write a line about a connection before it is refused, because its program may exit then."""
        writer = self.tell(connection, text)
        if not writer:
            return
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        pidfd = os.pidfd_open(writer)
        loop.add_reader(pidfd, ended.set)
        try:
            async with asyncio.timeout(_WRITING):
                await ended.wait()
        except TimeoutError:
            pass
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)

    def tell(self, connection: Connection, text: str) -> int:
        """Write a line about a connection, if its program is known; return the pid of the child that writes it, 0 for none."""
        pid = connection.entry.row.get("pid", 0)
        if not pid or (pid, text) in self._told or not self._finder.namespace:
            return 0
        self._writers = [one for one in self._writers if not os.waitpid(one, os.WNOHANG)[0]]
        if len(self._writers) >= _MAX_WRITERS or not self._limit.take():
            return 0
        if len(self._told) >= _MAX_REMEMBERED:
            self._told.clear()
        self._told.add((pid, text))
        writer = process.start_writing_to_stderr(pid, f"agent-dev: {visible(text)}\n", self._finder.namespace)
        self._writers.append(writer)
        return writer
