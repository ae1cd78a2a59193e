"""States of the merge screen: on a shop, after events, with a diff, and what they ask for."""

from collections.abc import Sequence
from typing import Any

from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk
from tui.effects import Effect, Load
from tui.events import (
    Counted,
    DiffShown,
    Entered,
    Event,
    MovedTo,
)
from tui.model import diff
from tui.model.change_list import ChangeRow, HeadRow, Section
from tui.model.document import Look
from tui.model.totals import Count
from tui.state import State
from tui.update.dispatch import begin, update

FILE = Entry(FileType.FILE)
RISK = (Risk("hook", "runs at the next commit"),)


def key(path: str, root: int = 0) -> Key:
    """Return a path's key."""
    return Key(root, path.encode())


def change(path: str, kind: Kind = Kind.EDITED, **more: Any) -> Change:
    """Return a change of a file."""
    before = None if kind is Kind.ADDED else FILE
    after = None if kind is Kind.DELETED else FILE
    return Change(key(path), kind, before, after, **more)


def changes(*some: Change, problems: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> ChangeSet:
    """Return a sorted change set."""
    return ChangeSet(tuple(sorted(some, key=lambda one: one.key)), problems, notes)


SHOP = changes(
    change("README.md"),
    change("src/a.py"),
    change("src/b.py", Kind.DELETED),
    change("src/hook", Kind.ADDED, risks=RISK),
    change("src/mine.py", conflict="it was changed meanwhile"),
    change("node_modules/x", Kind.ADDED, ignored=True),
    change("node_modules/y", Kind.ADDED, ignored=True),
    change("run/socket", Kind.ADDED, obstacle="a socket cannot be merged"),
)


def after(state: State, *events: Event) -> State:
    """Return the state after events."""
    for event in events:
        state, _ = update(state, event)
    return state


def effects(state: State, *events: Event) -> tuple[Effect, ...]:
    """Return what the last of some events asks for."""
    found: tuple[Effect, ...] = ()
    for event in events:
        state, found = update(state, event)
    return found


def shop() -> State:
    """Return the screen on the shop, at README.md."""
    state = begin(SHOP)[0]
    return after(state, MovedTo(row(state, "README.md")))


def row(state: State, path: str) -> int:
    """Return the row of a change."""
    return next(at for at, one in enumerate(state.listing.rows) if isinstance(one, ChangeRow) and one.key == key(path))


def head(state: State, what: bytes | Section) -> int:
    """Return the row of a heading: a directory's, or a section's."""

    def is_meant(group: int) -> bool:
        one = state.listing.groups[group]
        return one.section is what or (one.section is Section.FOLDER and one.path == what)

    return next(at for at, one in enumerate(state.listing.rows) if isinstance(one, HeadRow) and is_meant(one.group))


def loads(asked: Sequence[Effect]) -> list[Key]:
    """Return what is to be read."""
    return [effect.key for effect in asked if isinstance(effect, Load)]


def names(state: State) -> set[str]:
    """Return the chosen paths."""
    return {one.path.decode() for one in state.selection.keys}


BEFORE = b"".join(b"line %d\n" % number for number in range(40))
AFTER = (
    BEFORE.replace(b"line 3\n", b"three\n").replace(b"line 20\nline 21\n", b"twenty\n").replace(b"line 39\n", b"line 39\nend\n")
)
EDIT = change("f")


def on(one: Change, before: bytes | None = BEFORE, new: bytes | None = AFTER, **looks: Any) -> State:
    """Return the screen with the diff of one change open and its lines counted."""
    state = begin(changes(one, change("z")))[0]
    shown = diff.document(one, (), (before, new), Look(**looks))
    count = Count(len(shown.blocks), sum(b.new_lines for b in shown.blocks), sum(b.old_lines for b in shown.blocks))
    counts = {one.key: count, key("z"): Count(1, 1, 1)}
    return after(state, MovedTo(row(state, one.key.path.decode())), DiffShown(shown), Counted(counts), Entered())
