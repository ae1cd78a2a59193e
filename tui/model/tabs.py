"""What there is beside the changes: the tabs, and a row of one."""

from dataclasses import dataclass
from enum import Enum, StrEnum

from agent_dev.overlay.changes import Key, Risk


class Tab(StrEnum):
    """What the screen is about."""

    CHANGES = "changes"
    COMMITS = "commits"
    RISKS = "risks"
    COMMANDS = "commands"


@dataclass(frozen=True, slots=True)
class Risky:
    """A path of a commit that wants a look: why, and what else is to be said of it."""

    path: bytes
    risks: tuple[Risk, ...]
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of another tab: one line, whether it wants a look, and what is said when the cursor is on it.

    `key`: the change that it is about. `id`: what can be chosen by it, a commit, "" for nothing; `risky`: what of that
    wants a look, before it comes home, too.
    """

    line: str
    about: tuple[str, ...] = ()
    is_risky: bool = False
    key: Key | None = None
    id: str = ""
    risky: tuple[Risky, ...] = ()


class Way(Enum):
    """How commits come home."""

    YOURS = "onto your branch"
    BRANCH = "as a branch"
    ONE = "squashed"
