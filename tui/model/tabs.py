"""The tabs of the screen, and the entries of tabs other than Changes."""

from enum import Enum, StrEnum

from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Risk
from agent_dev.quick_dataclass import dataclass


class Tab(StrEnum):
    """A tab of the screen."""

    CHANGES = "changes"
    COMMITS = "commits"
    RISKS = "risks"
    COMMANDS = "commands"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class RiskyPath:
    """A risky path of a commit: its risks and further details."""

    path: bytes
    risks: tuple[Risk, ...]
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TabEntry:
    """An entry of a tab: one line, `details` for the diff pane, and a risk mark.

    `key`: the change to which it refers. `id`: the commit that it selects, "" for none; `risky_paths`: the risky paths of that
    commit.
    """

    title: str
    details: tuple[str, ...] = ()
    is_risky: bool = False
    key: Key | None = None
    id: str = ""
    risky_paths: tuple[RiskyPath, ...] = ()


class ImportMode(Enum):
    """A mode of importing commits."""

    ONTO_BRANCH = "onto your branch"
    NEW_BRANCH = "as a new branch"
    SQUASHED = "squashed"
