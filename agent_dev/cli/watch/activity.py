"""The activity of a running session as events: changes, commands, waiting approvals, checkpoints, the end. It only reads."""

import shlex
import time
from collections.abc import Mapping
from typing import Any

from agent_dev.cli.render.log_words import describe_event
from agent_dev.cli.render.question_words import question_argv, short_question
from agent_dev.cli.watch.change_reader import ChangeReader
from agent_dev.cli.watch.events import Event, EventKind
from agent_dev.cli.watch.log_tail import LogTail
from agent_dev.errors import UnreadableSession
from agent_dev.session import approvals, store
from agent_dev.session import events as session_events
from agent_dev.session.origin import typed_words
from agent_dev.session.sessions import ListedSession, current_state

_PATIENCE = 2.0  # seconds that the launcher has to log the end after it recorded that
_REMOVED = "removed"  # the state of a session that ended without changes
_ROW_KEYS = ("pid", "argv", "cwd", "decision", "rule", "answer", "exit", "duration", "checkpoint", "problem")
_COMMAND_KEYS, _CONNECTION_KEYS = ("cwd", "rule", "until"), ("name", "address", "port", "program", "pid", "until")
_NEXT = {store.WAITING: "merge", store.KILLED: "merge", store.DISCARDED: "undiscard"}


class ActivityReader:
    """Reads what is new in a session. `waiting`: the questions that wait for an answer now, by number."""

    def __init__(self, one: ListedSession, environ: dict[str, str]) -> None:
        self._one, self._folder = one, one.session.folder
        self._changes = ChangeReader(one, environ)
        self._commands = LogTail(f"{self._folder}/commands.jsonl")
        self._log = LogTail(f"{self._folder}/events.jsonl")
        record = one.record
        self._start = max(record["started"], record.get("launched", 0), record.get("resumed", 0))  # of this run
        self._has_begun = self._has_logged_end = False
        self._ended_at = 0.0
        self._reported: set[int] = set()
        self.waiting: Mapping[int, dict[str, Any]] = {}

    @property
    def change_count(self) -> int | None:
        """Return the number of changes at the last look; None if there was none yet."""
        return self._changes.count

    @property
    def is_behind(self) -> bool:
        """Return whether there is more to read now."""
        return self._commands.is_behind or self._log.is_behind

    def close(self) -> None:
        """Close the logs."""
        self._commands.close()
        self._log.close()

    def read(self) -> list[Event]:
        """Return the events since the last call, by time; END is the last one."""
        state, record = self._state()
        found = [] if self._has_begun else [self._session_event()]
        self._has_begun = True
        new = [*self._read_commands(), *self._read_log(), *self._read_approvals()]
        is_over = self._is_over(state)
        if not self.is_behind and state != _REMOVED:
            new += self._changes.read(is_last=is_over)
        new.sort(key=lambda event: event.time)
        found += new
        if is_over and not self.is_behind:
            found.append(self._end_event(state, record))
        return found

    def _state(self) -> tuple[str, store.Record]:
        try:
            record = store.read_record(self._one.session)
        except UnreadableSession:
            return _REMOVED, self._one.record
        return current_state(self._one.session, record), record

    def _is_over(self, state: str) -> bool:
        """Return whether the session has ended and its end was logged; a killed launcher logs none."""
        if state == store.RUNNING:
            return False
        now = time.monotonic()
        self._ended_at = self._ended_at or now
        return self._has_logged_end or state in (_REMOVED, store.KILLED) or now - self._ended_at > _PATIENCE

    def _session_event(self) -> Event:
        record = self._one.record
        details = {
            "version": 1,
            "session": self._one.session.id,
            "name": record["name"] or None,
            "root": record["root"],
            "command": record["command"],
        }
        return Event(EventKind.SESSION, record["started"], f"{self._one.name}: {_command_line(typed_words(record))}", details)

    def _read_commands(self) -> list[Event]:
        return [event for row in self._commands.read() if (event := _command_event(row))]

    def _read_log(self) -> list[Event]:
        found = []
        for row in self._log.read():
            kind = row.get("event")
            if kind == session_events.END and _time(row) >= self._start:
                self._has_logged_end = True
            if kind in (session_events.START, session_events.END):
                continue
            details = {name: value for name, value in row.items() if name not in ("n", "chain", "time")}
            is_checkpoint = kind == session_events.CHECKPOINT and not row.get("failed")
            name = EventKind.CHECKPOINT if is_checkpoint else EventKind.LOG
            details = details if is_checkpoint else {"log": details.pop("event", None), **details}
            details.pop("event", None)
            found.append(Event(name, _time(row), describe_event(row), details))
        return found

    def _read_approvals(self) -> list[Event]:
        self.waiting = approvals.list_questions(self._folder)
        new = self.waiting.keys() - self._reported
        self._reported = set(self.waiting)
        found = []
        for number in new:
            row = self.waiting[number]
            names = _CONNECTION_KEYS if approvals.is_connection(row) else _COMMAND_KEYS
            details = {"number": number, "argv": question_argv(row), **{name: row.get(name) for name in names}}
            found.append(Event(EventKind.APPROVAL, _time(row), short_question(row), details))
        return found

    def _end_event(self, state: str, record: store.Record) -> Event:
        name, exit_code = self._one.name, record.get("exit")
        word = _NEXT.get(state)
        command = f"agent-dev {word} {name}" if word else None
        text = f"session {name} has ended" + ("" if exit_code is None else f" with exit status {exit_code}")
        text += ", without changes" if state == _REMOVED else f", {state}"
        details = {"session": self._one.session.id, "state": state, "exit": exit_code, "next": command}
        return Event(EventKind.END, time.time_ns(), text, details)


def _command_event(row: dict[str, Any]) -> Event | None:
    if not isinstance(row.get("argv"), list):
        return None
    kind = EventKind.COMMAND if "decision" in row else EventKind.EXIT
    details = {name: row[name] for name in _ROW_KEYS if name in row}
    return Event(kind, _time(row), _command_line(row["argv"]), details)


def _time(row: Mapping[str, Any]) -> int:
    value = row.get("time")
    return value if isinstance(value, int) else time.time_ns()


def _command_line(argv: object) -> str:
    return shlex.join(map(str, argv)) if isinstance(argv, (list, tuple)) else ""
