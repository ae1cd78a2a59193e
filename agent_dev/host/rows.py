"""What was heard of commands, in order, until it is written to the log."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_dev.host.command_log import Log
    from agent_dev.host.notify import Call

    Row = dict[str, Any]

MOST = 2000  # rows that wait while commands come without a pause
_AT_ONCE = 200  # rows that are written at once: a command waits for as long as that takes, 4 ms
_SAME = 50_000_000  # ns: who calls with the same words this soon after looks at the next place on its PATH


class Rows:
    """Rows that wait to be written to a log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: list[Row] = []
        self._last: dict[int, tuple[Row, int]] = {}  # by thread: of those that wait and were allowed, and when it last called
        self._log: Log | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def before(self, call: "Call", now: int) -> "Row | None":
        """Return the row of the place before, where a call is a look at the next place on a PATH."""
        last = self._last.get(call.pid)
        return last[0] if last is not None and now - last[1] < _SAME and last[0]["argv"] == call.argv else None

    def allowed(self, row: "Row", before: "Row | None") -> None:
        """Keep the row of a command that may run; a look at the next place takes the place and the time of the one before."""
        now = row["time"]
        if before is None:
            self._waiting.append(row)
        else:
            row["time"] = before["time"]
            before.clear()
            before.update(row)
        self._last[row["pid"]] = (before or row, now)

    def add(self, row: "Row") -> None:
        """Keep a row."""
        self._waiting.append(row)

    def write(self) -> None:
        """Write some of what waits."""
        if not self._waiting:
            return
        if self._log is None:
            from agent_dev.host.command_log import Log  # json and hashlib: not before the agent has started

            self._log = Log(self._path)
        rows, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
        self._last.clear()
        self._log.write(rows)

    def write_all(self) -> None:
        """Write what waits."""
        while self._waiting:
            self.write()

    def head(self) -> "tuple[int, str, int]":
        """Return how far the log goes: lines, the last one's chain, how many were left out."""
        return (0, "", 0) if self._log is None else (self._log.head.count, self._log.head.chain, self._log.head.dropped)
