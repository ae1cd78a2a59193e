"""What the merge screen needs to know of a session, and nothing of where it comes from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_dev.diff.merge3 import Merged, Side
from agent_dev.overlay.changes import Change, ChangeSet, Key
from agent_dev.overlay.selection import NOTHING, Selection
from tui.model.tabs import Entry, Tab, Way
from tui.model.totals import Count

Content = tuple[bytes | None, bytes | None]
Answers = Sequence[Side | bytes | None] | bytes  # one for each place in conflict, or the whole file from an editor
Tell = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Draft:
    """What waits for the next time: what was chosen with the size of its parts, what was looked at, where the cursor was.

    `answers`: how places in conflict are settled, by change.
    """

    selection: Selection = NOTHING
    parts: Mapping[Key, Count] | None = None
    reviewed: frozenset[Key] = frozenset()
    at: Key | None = None
    answers: Mapping[Key, tuple[Side | bytes | None, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a merge: what to say, and the exit code. `is_done`: something may have been changed.

    `conflicts`: so many files of commits can be settled, and then they come home (`Source.settling`).
    """

    lines: tuple[str, ...]
    code: int
    is_done: bool = True
    conflicts: int = 0


class Source(Protocol):
    """A session, ready to be looked at. What may be slow is called on a worker thread; it may raise AgentDevError or OSError."""

    @property
    def session(self) -> str:
        """Its id or name."""
        ...

    @property
    def root(self) -> str:
        """The path shown in the title."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """The paths of all roots, in the order of `Key.root`."""
        ...

    @property
    def command(self) -> tuple[str, ...]:
        """What ran."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether the agent still works: then there is nothing to choose yet."""
        ...

    @property
    def is_settling(self) -> bool:
        """Whether all there is are conflicts of commits, which come home when each is settled."""
        ...

    @property
    def ended(self) -> Ended | None:
        """What came of it, when something did."""
        ...

    @property
    def changes(self) -> ChangeSet:
        """What it left."""
        ...

    @property
    def tabs(self) -> Mapping[Tab, tuple[Entry, ...]]:
        """What there is beside the changes: commits, commands."""
        ...

    @property
    def draft(self) -> Draft:
        """What was chosen the last time, as far as it still means the same."""
        ...

    @property
    def renamed(self) -> Mapping[Key, str]:
        """What is said of files that were renamed, by both their keys."""
        ...

    def content(self, key: Key) -> Content:
        """Return the base's and the agent's bytes of a change, a link's target; None where there is nothing to show. Slow."""
        ...

    def mine(self, key: Key) -> bytes | None:
        """Return the user's own bytes of a change in conflict. Slow."""
        ...

    def merged(self, key: Key) -> Merged | None:
        """Return the merge of lines of a change that is, or was, in conflict; None for other conflicts."""
        ...

    def settle(self, key: Key, answers: Answers) -> Change | None:
        """Settle a conflict, one answer for each place; None where that way means nothing. Slow."""
        ...

    def edit(self, key: Key) -> bytes | None:
        """Let the user edit a conflict, on the terminal as it was before the screen; None when it has no lines."""
        ...

    def count(self, keys: Iterable[Key]) -> dict[Key, Count]:
        """Count the blocks and lines of changes, those that have some. Slow."""
        ...

    def refreshed(self) -> ChangeSet:
        """Return the changes as they are now. Slow."""
        ...

    def save(self, draft: Draft) -> None:
        """Keep a choice for the next time."""
        ...

    def merge(self, selection: Selection, tell: Tell) -> Ended:
        """Merge; `tell` how many of how many steps are done. Slow, and never to be stopped in the middle."""
        ...

    def commits(self) -> tuple[Entry, ...]:
        """Return all that is known of the commits, the newest first, for their tab. Slow."""
        ...

    def bring(self, ids: Sequence[str], way: Way, name: str) -> Ended:
        """Bring commits home (the newest first), as a branch of that name. Slow, and never to be stopped in the middle."""
        ...

    def settling(self) -> "Source | None":
        """Return the conflicts of the commits that were to come home last, to be settled on a screen of their own."""
        ...
