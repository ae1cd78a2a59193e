"""States of the review screen for tests: a sample, states after events, states with a diff, and their effects."""

from collections.abc import Sequence
from typing import Any

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Risk
from tui.effects import Effect, LoadDiff
from tui.events import (
    CursorMovedTo,
    DiffLoaded,
    EnterPressed,
    Event,
    LinesCounted,
)
from tui.model import diff
from tui.model.change_list import ChangeRow, HeadingRow, Section
from tui.model.document import DiffOptions
from tui.model.totals import LineCount
from tui.state import State
from tui.update.dispatch import initial_state, update

FILE = Entry(FileType.FILE)
RISK = (Risk("hook", "runs at the next commit"),)


def key(path: str, root: int = 0) -> Key:
    """Return the key of a path."""
    return Key(root, path.encode())


def change(path: str, kind: ChangeKind = ChangeKind.EDITED, **more: Any) -> Change:
    """Return a change of a file."""
    before = None if kind is ChangeKind.ADDED else FILE
    after = None if kind is ChangeKind.DELETED else FILE
    return Change(key(path), kind, before, after, **more)


def changes(*some: Change, problems: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> ChangeSet:
    """Return a sorted change set."""
    return ChangeSet(tuple(sorted(some, key=lambda one: one.key)), problems, notes)


SHOP = changes(
    change("README.md"),
    change("src/a.py"),
    change("src/b.py", ChangeKind.DELETED),
    change("src/hook", ChangeKind.ADDED, risks=RISK),
    change("src/mine.py", conflict="changed since the session started"),
    change("node_modules/x", ChangeKind.ADDED, is_ignored=True),
    change("node_modules/y", ChangeKind.ADDED, is_ignored=True),
    change("run/socket", ChangeKind.ADDED, obstacle="a socket cannot be merged"),
)


def after(state: State, *events: Event) -> State:
    """Return the state after events."""
    for event in events:
        state, _ = update(state, event)
    return state


def effects(state: State, *events: Event) -> tuple[Effect, ...]:
    """Return the effects of the last event."""
    found: tuple[Effect, ...] = ()
    for event in events:
        state, found = update(state, event)
    return found


def shop() -> State:
    """Return the sample state, with the cursor on README.md."""
    state = initial_state(SHOP)[0]
    return after(state, CursorMovedTo(row(state, "README.md")))


def row(state: State, path: str) -> int:
    """Return the row of a change."""
    return next(at for at, one in enumerate(state.listing.rows) if isinstance(one, ChangeRow) and one.key == key(path))


def head(state: State, what: bytes | Section) -> int:
    """Return the row of a directory's or a section's heading."""

    def is_meant(group: int) -> bool:
        one = state.listing.groups[group]
        return one.section is what or (one.section is Section.DIRECTORY and one.path == what)

    return next(at for at, one in enumerate(state.listing.rows) if isinstance(one, HeadingRow) and is_meant(one.group))


def loads(asked: Sequence[Effect]) -> list[Key]:
    """Return the changes whose diff is requested."""
    return [effect.key for effect in asked if isinstance(effect, LoadDiff)]


def names(state: State) -> set[str]:
    """Return the selected paths."""
    return {one.path.decode() for one in state.selection.keys}


BEFORE = b"".join(b"line %d\n" % number for number in range(40))
AFTER = (
    BEFORE.replace(b"line 3\n", b"three\n").replace(b"line 20\nline 21\n", b"twenty\n").replace(b"line 39\n", b"line 39\nend\n")
)
EDIT = change("f")


def on(one: Change, before: bytes | None = BEFORE, new: bytes | None = AFTER, **looks: Any) -> State:
    """Return a state with the diff of one change open and its lines counted."""
    state = initial_state(changes(one, change("z")))[0]
    shown = diff.diff_document(one, (), (before, new), DiffOptions(**looks))
    count = LineCount(len(shown.hunks), sum(b.new_lines for b in shown.hunks), sum(b.old_lines for b in shown.hunks))
    counts = {one.key: count, key("z"): LineCount(1, 1, 1)}
    return after(state, CursorMovedTo(row(state, one.key.path.decode())), DiffLoaded(shown), LinesCounted(counts), EnterPressed())
