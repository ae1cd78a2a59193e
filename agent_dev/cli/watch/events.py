"""The events of a running session, as values."""

from collections.abc import Mapping
from enum import StrEnum

from agent_dev.quick_dataclass import dataclass, field


class EventKind(StrEnum):
    """The kinds of events, as in the output of `watch --json`."""

    SESSION = "session"  # the session that is watched
    CHANGE = "change"
    REVERTED = "reverted"  # a change that is gone
    MORE = "more"  # changes that are counted and not listed
    COMMAND = "command"
    EXIT = "exit"  # the end of a command
    APPROVAL = "approval"  # a command that waits for an answer
    CHECKPOINT = "checkpoint"
    LOG = "log"  # another event of the session's log, such as a rollback
    END = "end"


@dataclass(frozen=True, slots=True)
class Event:
    """An event. `time`: ns since 1970. `text`: a path, a command line or a description; its control characters are not escaped.

    `details`: further fields of the JSON row.
    """

    kind: EventKind
    time: int
    text: str = ""
    details: Mapping[str, object] = field(default_factory=dict)
