"""What the merge screen wants done after an event."""

from dataclasses import dataclass

from agent_dev.diff.merge3 import Side
from agent_dev.overlay.changes import Key
from agent_dev.overlay.selection import Selection
from tui.model.document import Look
from tui.model.tabs import Tab, Way

Answers = tuple[Side | bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Read a change and make its rows, off the main path; say DiffShown. `answers`: how its conflicts are settled so far."""

    key: Key
    look: Look
    answers: Answers = ()


@dataclass(frozen=True, slots=True)
class Settle:
    """Settle the conflicts of a change this way and say Changed."""

    key: Key
    answers: Answers


@dataclass(frozen=True, slots=True)
class Edit:
    """Let the user settle the conflicts of a change in an editor; say Changed or Said."""

    key: Key


@dataclass(frozen=True, slots=True)
class Seek:
    """Find the next change behind `after` (before it, backwards) whose lines hold a text; say Sought."""

    text: str
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Do:
    """Do what a binding does, by its id."""

    binding: str


@dataclass(frozen=True, slots=True)
class Apply:
    """Merge; say Progressed while it goes on, then Finished."""

    selection: Selection


@dataclass(frozen=True, slots=True)
class ReadEntries:
    """Read all that is known of a tab's entries; say EntriesRead."""

    tab: Tab


@dataclass(frozen=True, slots=True)
class Bring:
    """Bring commits home, the newest first; say Finished."""

    ids: tuple[str, ...]
    way: Way
    name: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """Leave the screen. `is_kept`: the choice waits for the next time."""

    is_kept: bool = True


Effect = Load | Settle | Edit | Seek | Do | Apply | ReadEntries | Bring | Finish
