"""Buffer log entries of commands, in order, until they are written."""

import os

from agent_dev.config.decisions import ALLOW
from agent_dev.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_dev.session.hash_chain import LogWriter
    from agent_dev.supervisor.notify import ExecCall

    Row = dict[str, Any]

MAX_ROWS = 2000  # rows buffered while commands arrive without a pause
_BATCH = 200  # rows per write: a command waits for it, 4 ms
_MAX_PIDFDS = 512  # buffered rows with an open pidfd
_LOOKUP_WINDOW = 50_000_000  # ns: a repeated call this soon is a lookup in the next directory of PATH


class LogBuffer:
    """Rows waiting to be written to a log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: list[Row | ExecCall] = []
        self._last: dict[int, ExecCall] = {}  # by thread: the last allowed call that waits
        self._open_pidfds = 0  # number of open pidfds
        self._log: LogWriter | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def previous_lookup(self, pid: int, now: int) -> "ExecCall | None":
        """Return a thread's last call, if this call may be its lookup in the next directory of PATH."""
        last = self._last.get(pid)
        return last if last is not None and now - last.last_time < _LOOKUP_WINDOW else None

    def open_pidfd(self, call: "ExecCall") -> None:
        """Open a pidfd to learn how a call's command ends, before the call is allowed: afterwards it may end at once."""
        if self._open_pidfds < _MAX_PIDFDS:
            try:
                call.pidfd = os.pidfd_open(call.pid)
            except OSError:
                return  # not a thread-group leader
            self._open_pidfds += 1

    def add_allowed(self, call: "ExecCall", previous: "ExecCall | None") -> None:
        """Buffer an allowed call; a lookup in the next directory of PATH updates the previous call instead."""
        if previous is None:
            self._waiting.append(call)
            if earlier := self._last.get(call.pid):
                self.close_pidfd(earlier)  # a command replaced by this one did not end
            self._last[call.pid] = call
        else:
            previous.path, previous.cwd, previous.rule, previous.last_time = call.path, call.cwd, call.rule, call.last_time

    def close_pidfd(self, call: "ExecCall") -> None:
        """Close the pidfd of a call whose end is no longer awaited."""
        if call.pidfd >= 0:
            os.close(call.pidfd)
            call.pidfd = -1
            self._open_pidfds -= 1

    def last_allowed(self) -> "list[ExecCall]":
        """Return the last allowed call of each thread, if it still waits."""
        return [*self._last.values()]

    def add(self, row: "Row") -> None:
        """Buffer a row."""
        self._waiting.append(row)

    def write(self) -> None:
        """Write a batch of rows."""
        if not self._waiting:
            return
        if self._log is None:
            from agent_dev.session.hash_chain import LogWriter  # json and hashlib: only after the agent has started

            self._log = LogWriter(self._path)
        rows, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
        self._log.write([row if isinstance(row, dict) else self._row(row) for row in rows])

    def _row(self, call: "ExecCall") -> "Row":
        row = {**call.row(), "decision": ALLOW}
        if call.rule:
            row["rule"] = call.rule
        if call.pidfd >= 0 and (code := syscalls.pidfd_exit_code(call.pidfd)) is not None:
            row["exit"] = code
        self.close_pidfd(call)
        if self._last.get(call.pid) is call:
            del self._last[call.pid]
        return row

    def write_all(self) -> None:
        """Write all rows."""
        while self._waiting:
            self.write()

    def head(self) -> "tuple[int, str, int]":
        """Return the end of the log: the number of lines, the last line's hash chain, the number of dropped rows."""
        return (0, "", 0) if self._log is None else (self._log.end.count, self._log.end.chain, self._log.end.dropped)
