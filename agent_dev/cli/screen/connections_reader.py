"""The entries of the Network tab: a session's connections from its log, denied ones first."""

import json
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from agent_dev.cli.render.log_words import describe_connection
from tui.model.tabs import TabEntry

_MAX_ROWS = 5_000  # the last ones are shown
_DENY = "deny"
_DETAILS = (
    ("why", "denied"),
    ("problem", "failed"),
    ("rule", "rule"),
    ("answer", "your answer"),
    ("server", "server"),
    ("sent", "bytes sent"),
    ("received", "bytes received"),
    ("milliseconds", "milliseconds"),
)


def list_connections(folder: str) -> tuple[TabEntry, ...]:
    """Return the entries of the session in a folder, none without a log."""
    try:
        with open(f"{folder}/network.jsonl", encoding="utf-8", errors="surrogateescape") as file:
            rows = [json.loads(line) for line in deque(file, _MAX_ROWS)]
    except (OSError, ValueError):
        return ()  # missing, or truncated in the middle of a line
    found = [row for row in rows if isinstance(row, dict)]
    return tuple(map(_entry, sorted(found, key=lambda row: (row.get("decision") != _DENY, _time(row)))))


def _entry(row: Mapping[str, Any]) -> TabEntry:
    when = time.strftime("%H:%M:%S", time.localtime(_time(row) // 10**9))
    details = [f"at: {when}", *(f"{label}: {row[key]}" for key, label in _DETAILS if row.get(key) not in (None, ""))]
    if row.get("program"):
        details.append(f"program: {row['program']} (pid {row.get('pid')})")
    return TabEntry(describe_connection(row), tuple(details), is_risky=row.get("decision") == _DENY)


def _time(row: Mapping[str, Any]) -> int:
    value = row.get("time")
    return value if isinstance(value, int) else 0
