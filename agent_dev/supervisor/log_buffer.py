"""What was heard of commands, in order, until it is written to the log."""

import os

from agent_dev.linux import syscalls as kernel
from agent_dev.policy.command_rules import ALLOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_dev.session.hash_chain import Log
    from agent_dev.supervisor.notify import Call

    Row = dict[str, Any]

MOST = 2000  # rows that wait while commands come without a pause
_AT_ONCE = 200  # rows that are written at once: a command waits for as long as that takes, 4 ms
_MANY_ENDS = 512  # of those that wait, how many are asked how they ended
_SAME = 50_000_000  # ns: who calls with the same words this soon after looks at the next place on its PATH


class Rows:
    """Rows that wait to be written to a log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: list[Row | Call] = []
        self._last: dict[int, Call] = {}  # by thread: of those that wait and were allowed
        self._ends = 0  # descriptors that are open
        self._log: Log | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def before(self, pid: int, now: int) -> "Call | None":
        """Return what a thread called just before, where that may have been another place on its PATH."""
        last = self._last.get(pid)
        return last if last is not None and now - last.last < _SAME else None

    def allowed(self, call: "Call", before: "Call | None") -> None:
        """Keep a call that may run; a look at the next place takes the place and the time of the one before."""
        if before is None:
            self._waiting.append(call)
            self._open_end(call, self._last.get(call.pid))
            self._last[call.pid] = call
        else:
            before.path, before.cwd, before.rule, before.last = call.path, call.cwd, call.rule, call.last

    def _open_end(self, call: "Call", earlier: "Call | None") -> None:
        """Have it told how a command ends; one that became this one did not end."""
        if earlier is not None:
            self._close_end(earlier)
        if self._ends < _MANY_ENDS:
            try:
                call.end = os.pidfd_open(call.pid)
            except OSError:
                return  # it has ended; or it is a thread that is not its process's first
            self._ends += 1

    def _close_end(self, call: "Call") -> None:
        if call.end >= 0:
            os.close(call.end)
            call.end = -1
            self._ends -= 1

    def allowed_last(self) -> "list[Call]":
        """Return of each thread what it was allowed last, as far as it waits."""
        return [*self._last.values()]

    def add(self, row: "Row") -> None:
        """Keep a row."""
        self._waiting.append(row)

    def write(self) -> None:
        """Write some of what waits."""
        if not self._waiting:
            return
        if self._log is None:
            from agent_dev.session.hash_chain import Log  # json and hashlib: not before the agent has started

            self._log = Log(self._path)
        rows, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
        self._log.write([row if isinstance(row, dict) else self._row(row) for row in rows])

    def _row(self, call: "Call") -> "Row":
        row = {**call.row(), "decision": ALLOW}
        if call.rule:
            row["rule"] = call.rule
        if call.end >= 0 and (code := kernel.exit_code(call.end)) is not None:
            row["exit"] = code
        self._close_end(call)
        if self._last.get(call.pid) is call:
            del self._last[call.pid]
        return row

    def write_all(self) -> None:
        """Write what waits."""
        while self._waiting:
            self.write()

    def head(self) -> "tuple[int, str, int]":
        """Return how far the log goes: lines, the last one's chain, how many were left out."""
        return (0, "", 0) if self._log is None else (self._log.head.count, self._log.head.chain, self._log.head.dropped)
