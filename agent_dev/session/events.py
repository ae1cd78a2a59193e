"""events.jsonl: what became of a session, in the same chain of hashes as its commands (host/command_log).

Whoever holds the session writes where the log ends into session.json. Who only adds a line to a running one (a checkpoint) does
not: session.json is the launcher's then, and the launcher writes it at the end.
"""

import fcntl
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent_dev.session import hash_chain as command_log
from agent_dev.session import store
from agent_dev.session.hash_chain import Head

START, END, CHECKPOINT, ROLLBACK, TRANSACTION = "start", "end", "checkpoint", "rollback", "transaction"
INSIDE = "inside"  # a transaction that the agent made of its own session
_MOST_PROBLEMS, _LONGEST_PROBLEM = 10, 300


def _path(session: store.Session) -> str:
    return f"{session.folder}/events.jsonl"


def few(problems: Sequence[str]) -> list[str]:
    """Return what of a list of problems is written down: an agent can make as many and as long ones as it likes."""
    found = [one if len(one) <= _LONGEST_PROBLEM else f"{one[:_LONGEST_PROBLEM]}…" for one in problems[:_MOST_PROBLEMS]]
    more = len(problems) - len(found)
    return [*found, f"{more} more"] if more else found


def note(session: store.Session, event: str, *, at: int = 0, **more: Any) -> None:
    """Add a line: what happened, when (`at` in ns since 1970; 0: now), and more of it. A full disk loses it."""
    try:
        fd = os.open(_path(session), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return  # a full disk, or the session is gone
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        log = command_log.Log(_path(session))
        try:
            log.write([{"time": at or time.time_ns(), "event": event, **more}])
        finally:
            log.close()
        if session.lock >= 0:
            record = store.read(session)
            end = extended(_path(session), record.get("events"), log.head)
            store.write(session, {**record, "events": end}, is_durable=True)
    except OSError:
        return  # as above: the log is there to be looked at, and stops nothing
    finally:
        os.close(fd)


def extended(path: str, before: store.LogRecord | None, head: Head) -> store.LogRecord:
    """Return what a session's record says of a log that was added to, from what it said before: what was left out adds up.

    Of a log that was not as it said, it goes on saying that: else the next line would make good what was cut off.
    """
    if before is None:
        return {"count": head.count, "chain": head.chain, "dropped": head.dropped}
    dropped = before["dropped"] + head.dropped
    if _chain_at(path, before["count"]) != before["chain"]:
        return {**before, "dropped": dropped}
    return {"count": head.count, "chain": head.chain, "dropped": dropped}


def _chain_at(path: str, count: int) -> str:
    """Return the chain of a log's line of that number, "" where there is no such line or no log; of 0, where every log begins."""
    if not count:
        return Head().chain
    try:
        with open(path, "rb") as file:
            line = next((line for number, line in enumerate(file, 1) if number == count), b"{}")
        return str(json.loads(line)["chain"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


@dataclass(frozen=True, slots=True)
class Told:
    """The lines of a log as far as they are whole, and what is wrong with the rest."""

    rows: tuple[dict[str, Any], ...]
    problem: str = ""
    dropped: int = 0  # lines that were left out, since the log or the disk was full


def read(session: store.Session, record: store.Record) -> Told:
    """Read what became of a session; a line that was changed, and an end that was cut off, is a problem."""
    return _counted(_path(session), record.get("events"))


def commands(session: store.Session, record: store.Record) -> Told:
    """Read what the agent started, where a policy was on."""
    return _counted(f"{session.folder}/commands.jsonl", record.get("commands"))


def _counted(path: str, said: store.LogRecord | None) -> Told:
    return replace(_read(path, said), dropped=said["dropped"] if said else 0)


def _read(path: str, said: store.LogRecord | None) -> Told:
    found = command_log.verify(path)
    wanted = Head(said["count"], said["chain"], said["dropped"]) if said else Head()
    if found.problem or not wanted.count:
        return Told(found.rows, found.problem)
    if found.head.count < wanted.count:
        return Told(found.rows, f"it has {found.head.count} lines, and {wanted.count} were written")
    is_as_written = _chain_at(path, wanted.count) == wanted.chain
    return Told(found.rows, "" if is_as_written else f"its first {wanted.count} lines are not those that were written")
