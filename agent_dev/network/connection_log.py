"""network.jsonl: the connections of a sandbox, one per line, in a hash chain like its commands (session/hash_chain)."""

import asyncio
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent_dev.network.access import Destination
from agent_dev.network.learned import allow_rules

if TYPE_CHECKING:
    from agent_dev.session.hash_chain import LogWriter

ALLOW, DENY = "allow", "deny"
_DELAY = 0.2  # seconds for which rows are collected
_MAX_ROWS = 5000  # unwritten rows
_MAX_LEARNED = 2000  # names with a port


class ConnectionLog:
    """A log that collects rows for a moment, so that many connections cost one write."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rows: list[dict[str, Any]] = []
        self.denied = 0
        self.learned: dict[tuple[str, int], None] = {}  # names and ports that `learn` allowed and that were reached

    @cached_property
    def _log(self) -> "LogWriter":
        from agent_dev.session.hash_chain import LogWriter  # takes 15 ms, for which the first connection would wait

        return LogWriter(self._path)

    def add(self, row: dict[str, Any]) -> None:
        """Append a row."""
        if not self._rows:
            asyncio.get_running_loop().call_later(_DELAY, self.write)
        self._rows.append(row)
        if len(self._rows) >= _MAX_ROWS:
            self.write()
        if row["decision"] == DENY:
            self.denied += 1
        elif row.get("learned") and not row.get("problem") and len(self.learned) < _MAX_LEARNED:
            self.learned[row["name"], row["port"]] = None

    def write(self) -> None:
        """Write the collected rows."""
        rows, self._rows = self._rows, []
        if rows:
            self._log.write(rows)

    def end(self) -> bytes:
        """Write everything; return a report for the launcher (`handle.GatewayReport`)."""
        self.write()
        end = self._log.end
        return "\n".join((f"{end.count} {end.chain} {end.dropped} {self.denied}", *allow_rules(self.learned))).encode()


class ConnectionEntry:
    """The row of one connection; fields are added until the connection ends."""

    def __init__(self, wanted: Destination) -> None:
        self._start = time.monotonic()
        self.row: dict[str, Any] = {
            "time": time.time_ns(),
            "name": wanted.name,
            "address": str(wanted.address),
            "port": wanted.port,
            "decision": ALLOW,
        }

    def finish(self, **fields: Any) -> dict[str, Any]:
        """Return the complete row."""
        return {**self.row, **fields, "milliseconds": round(1000 * (time.monotonic() - self._start))}
