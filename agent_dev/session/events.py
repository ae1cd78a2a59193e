"""events.jsonl: the events of a session, in a hash chain like its commands (session/hash_chain).

The holder of the session's lock writes the end of the log to session.json. A process that only appends to the log of a running
session (a checkpoint) does not: session.json belongs to the launcher then, which writes it at the end.
"""

import fcntl
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session import hash_chain, store
from agent_dev.session.hash_chain import ChainEnd, LogRows

START, END, CHECKPOINT, ROLLBACK, TRANSACTION = "start", "end", "checkpoint", "rollback", "transaction"
SSH = "ssh"  # a request to the filter of the ssh-agent
CLIPBOARD = "clipboard"  # a request for an image of the clipboard
INSIDE = "inside"  # a transaction by the agent in its own session
_MAX_PROBLEMS, _LONGEST_PROBLEM = 10, 300


def _path(session: store.Session) -> str:
    return f"{session.folder}/events.jsonl"


def limit_problems(problems: Sequence[str]) -> list[str]:
    """Return the problems to log, limited in number and length, since an agent can cause any number."""
    found = [one if len(one) <= _LONGEST_PROBLEM else f"{one[:_LONGEST_PROBLEM]}…" for one in problems[:_MAX_PROBLEMS]]
    fields = len(problems) - len(found)
    return [*found, f"{fields} more"] if fields else found


def log_event(session: store.Session, event: str, *, at: int = 0, **fields: Any) -> None:
    """Append an event; `at` in ns since 1970, 0: now. If the disk is full, the event is lost."""
    try:
        fd = os.open(_path(session), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return  # a full disk, or the session is gone
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        log = hash_chain.LogWriter(_path(session))
        try:
            log.write([{"time": at or time.time_ns(), "event": event, **fields}])
        finally:
            log.close()
        if session.lock >= 0:
            record = store.read_record(session)
            end = extend_log_record(_path(session), record.get("events"), log.end)
            store.write_record(session, {**record, "events": end}, is_durable=True)
    except OSError:
        return  # a failure of the log is ignored
    finally:
        os.close(fd)


def extend_log_record(path: str, before: store.LogRecord | None, head: ChainEnd) -> store.LogRecord:
    """Return the session record's entry for a log that was appended to; the counts of dropped lines add up.

    If the log was tampered with, the entry stays as it was; otherwise, the next line would make a truncated log valid.
    """
    if before is None:
        return {"count": head.count, "chain": head.chain, "dropped": head.dropped}
    dropped = before["dropped"] + head.dropped
    if _chain_at(path, before["count"]) != before["chain"]:
        return {**before, "dropped": dropped}
    return {"count": head.count, "chain": head.chain, "dropped": dropped}


def _chain_at(path: str, count: int) -> str:
    """Return the chain at a line number, "" without such a line or log; 0 is the start of every log."""
    if not count:
        return ChainEnd().chain
    try:
        with open(path, "rb") as file:
            line = hash_chain.find_near_end(file.fileno(), count)
            line = line or next((line for number, line in enumerate(file, 1) if number == count), b"{}")
        return str(json.loads(line)["chain"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


@dataclass(frozen=True, slots=True)
class LogContents:
    """The valid lines of a log, and the problem with the rest."""

    rows: LogRows
    problem: str = ""
    dropped: int = 0  # lines not logged, since the log or the disk was full


def read_events(session: store.Session, record: store.Record) -> LogContents:
    """Read the events of a session; changed or missing lines are a problem."""
    return _counted(_path(session), record.get("events"))


def read_commands(session: store.Session, record: store.Record) -> LogContents:
    """Read the commands that the agent started under a policy."""
    return _counted(f"{session.folder}/commands.jsonl", record.get("commands"))


def read_connections(session: store.Session, record: store.Record) -> LogContents:
    """Read the connections of a sandbox with a gateway."""
    return _counted(f"{session.folder}/network.jsonl", record.get("network"))


def _counted(path: str, recorded: store.LogRecord | None) -> LogContents:
    return replace(_read(path, recorded), dropped=recorded["dropped"] if recorded else 0)


def _read(path: str, recorded: store.LogRecord | None) -> LogContents:
    found = hash_chain.verify(path)
    wanted = ChainEnd(recorded["count"], recorded["chain"], recorded["dropped"]) if recorded else ChainEnd()
    if found.problem or not wanted.count:
        return LogContents(found.rows, found.problem)
    if found.end.count < wanted.count:
        return LogContents(found.rows, f"it has {found.end.count} of {wanted.count} lines")
    is_as_written = _chain_at(path, wanted.count) == wanted.chain
    return LogContents(found.rows, "" if is_as_written else f"its first {wanted.count} lines were changed")
