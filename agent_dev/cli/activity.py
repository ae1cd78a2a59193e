"""The activity of a running session as events: changes, commands, waiting approvals, checkpoints, the end. It only reads."""

import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from agent_dev.checkpoint import checkpoint_store
from agent_dev.config.decisions import DENY
from agent_dev.errors import AgentDevError
from agent_dev.merge import running_session
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.labels import display_path
from agent_dev.session import approvals, store
from agent_dev.session.sessions import ListedSession

if TYPE_CHECKING:
    from agent_dev.fs.entry import Key

INTERVAL = 1.0  # seconds between two looks
_SHARE = 10  # a comparison of files may take at most one part in so many of the time
_LARGEST_READ = 1 << 20  # bytes of the command log per look; the rest follows at the next


_Fingerprint = tuple[ChangeKind, str, object]


class EventKind(StrEnum):
    """The kinds of events."""

    CHANGE = "change"
    REVERTED = "reverted"  # a change that is gone
    COMMAND = "command"
    DENIED = "denied"  # a command that the policy did not allow
    APPROVAL = "approval"  # a command that waits for an answer
    CHECKPOINT = "checkpoint"
    END = "end"


@dataclass(frozen=True, slots=True)
class Activity:
    """An event: `text` is a path, a command line or a checkpoint's description; `number` is that of a question or checkpoint.

    `change`: the kind of a change.
    """

    kind: EventKind
    text: str = ""
    number: int = 0
    change: ChangeKind | None = None


class ActivityReader:
    """Reads what is new in a running session. `count` is the number of changes at the last look."""

    def __init__(self, one: ListedSession, environ: dict[str, str]) -> None:
        self._one, self._environ = one, environ
        self._folder = one.session.folder
        self._seen: dict[Key, _Fingerprint] = {}
        self._offset, self._rest = 0, b""
        self._questions: set[int] = set()
        self._checkpoints: set[int] = set()
        self._next_comparison = 0.0
        self.count = 0

    def read(self) -> Iterator[Activity]:
        """Yield the events since the last call; END is the last one."""
        has_ended = not store.is_locked(self._one.session)
        yield from self._commands()
        yield from self._approvals()
        yield from self._new_checkpoints()
        if time.monotonic() >= self._next_comparison or has_ended:
            yield from self._changes()
        if has_ended:
            yield Activity(EventKind.END, self._one.name)

    def _commands(self) -> Iterator[Activity]:
        try:
            with open(f"{self._folder}/commands.jsonl", "rb") as file:
                file.seek(self._offset)
                data = self._rest + file.read(_LARGEST_READ)
                self._offset = file.tell()
        except OSError:
            return  # no policy, or the session was removed
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            row = _row(line)
            if "decision" in row and isinstance(row.get("argv"), list):
                is_denied = row["decision"] == DENY
                yield Activity(EventKind.DENIED if is_denied else EventKind.COMMAND, shlex.join(map(str, row["argv"])))

    def _approvals(self) -> Iterator[Activity]:
        waiting = approvals.list_questions(self._folder)
        for number in waiting.keys() - self._questions:
            yield Activity(EventKind.APPROVAL, shlex.join(map(str, waiting[number].get("argv", ()))), number)
        self._questions = set(waiting)

    @property
    def waiting(self) -> Mapping[int, dict[str, Any]]:
        """The commands that wait for an answer now."""
        return approvals.list_questions(self._folder)

    def _new_checkpoints(self) -> Iterator[Activity]:
        try:
            found = checkpoint_store.list_readable(self._one.session)
        except (OSError, AgentDevError):
            return
        for one in found:
            if one.number not in self._checkpoints:
                yield Activity(EventKind.CHECKPOINT, one.message or one.cause, one.number)
        self._checkpoints = {one.number for one in found}

    def _changes(self) -> Iterator[Activity]:
        start = time.monotonic()
        try:
            with running_session.open_during(self._one.session, self._environ) as review:
                found = {change.key: _fingerprint(change, review.record["roots"]) for change in review.folded.changes}
        except (OSError, AgentDevError):
            return  # it changes right now, or has just been removed
        finally:
            self._next_comparison = time.monotonic() + (time.monotonic() - start) * _SHARE
        for key, seen in found.items():
            if self._seen.get(key) != seen:
                yield Activity(EventKind.CHANGE, seen[1], change=seen[0])
        for key in self._seen.keys() - found.keys():
            yield Activity(EventKind.REVERTED, self._seen[key][1])
        self._seen, self.count = found, len(found)


def _fingerprint(change: Change, roots: Sequence[str]) -> _Fingerprint:
    return change.kind, display_path(change.key, roots), change.after.identity if change.after else None


def _row(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
