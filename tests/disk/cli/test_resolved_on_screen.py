"""After any keys in the view of a conflict, a merge writes the bytes of the column `result` to the real file."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from agent_dev.cli.screen.review_source import ReviewSource
from agent_dev.diff import hunks
from agent_dev.diff.merge3 import ConflictSide, LineMerge
from agent_dev.fs.entry import FileType, Key
from agent_dev.merge.review import Review
from agent_dev.session.store import Store
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.scale import repeat
from tests.harness.trees import Node
from tests.unit.tui.tui_states import row
from tui.effects import Apply, EditConflict, Effect, LoadDiff, Resolve
from tui.events import (
    ConflictResolved,
    CursorMoved,
    CursorMovedTo,
    DiffLoaded,
    DisplayOption,
    DisplayOptionToggled,
    EditRequested,
    EnterPressed,
    Event,
    HunkMoved,
    Pane,
    Result,
    Toggled,
)
from tui.model import conflict
from tui.model.document import Document, RowKind
from tui.state import State
from tui.update.dispatch import initial_state, update
from tui.workers import Worker

KEY = Key(0, b"f")
BASE = [b"one\n", b"two\r\n", b"\n", b"three\xff\n", b"four\n", b"five\t\n", b"six\n", b"seven\n"]
DEEDS = ("keep", "keep", "keep", "change", "delete", "insert", "the same")


def side(name: bytes) -> st.SearchStrategy[bytes]:
    """Return versions of the base with edits of one side, or the same as the other's; the last line may have no end."""
    deeds = st.tuples(*[st.sampled_from(DEEDS)] * len(BASE))
    return st.builds(lambda chosen, is_cut: _edited(name, chosen).removesuffix(b"\n" if is_cut else b""), deeds, st.booleans())


def _edited(name: bytes, deeds: tuple[str, ...]) -> bytes:
    lines = []
    for number, (line, deed) in enumerate(zip(BASE, deeds, strict=True)):
        own = b"%b%d\n" % (name, number)
        lines += {"keep": [line], "change": [own], "delete": [], "insert": [line, own], "the same": [b"same\n"]}[deed]
    return b"".join(lines)


SIDES = st.sampled_from(list(ConflictSide))
KEYS = st.lists(
    st.builds(ConflictResolved, SIDES)
    | st.builds(HunkMoved, st.sampled_from([1, -1]))
    | st.builds(CursorMoved, st.integers(-9, 9), st.booleans())
    | st.sampled_from([Toggled(), EditRequested(), DisplayOptionToggled(DisplayOption.BASE)]),
    max_size=10,
)


class EditedSource(ReviewSource):
    """A session whose user saves a given text in the editor."""

    def __init__(self, review: Review, store: Store, text: bytes) -> None:
        super().__init__(review, store)
        self._text = text

    def edit_conflict(self, key: Key) -> bytes | None:
        """Return the text, if there are conflicts."""
        merged = self.line_merge(key)
        return None if merged is None or merged.is_clean else self._text


class Player:
    """The screen without a terminal: events change the state, and a worker carries out the effects at once."""

    def __init__(self, source: ReviewSource) -> None:
        self.source, self._results = source, list[Result]()
        self._worker = Worker(source, self._results.append)
        self.state, effects = initial_state(source.changes)
        self._perform(effects)
        self.press(DisplayOptionToggled(DisplayOption.WHOLE_FILE))

    def press(self, pressed: Event) -> None:
        self.state, effects = update(self.state, pressed)
        self._perform(effects)

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case LoadDiff():
                    self._results.append(DiffLoaded(self._worker.build_document(effect, ())))
                case EditConflict(key):
                    self._results.append(self._worker.edit_conflict(key))
                case Resolve():
                    self._worker.run_effect(effect)
                case _:
                    pass  # of commits and risks, which this file has none of
        while self._results:
            self.press(self._results.pop(0))

    def merge(self) -> None:
        self._worker.run_effect(Apply(self.state.selection))
        assert self.source.result is not None
        assert self.source.result.code == 0, self.source.result.lines


def shown_result(document: Document, merged: LineMerge) -> bytes:
    """Return the column `result`: a line without an end, before another one, is completed, as the merge does."""
    rows = [row for row in document.rows if row.kind is RowKind.CONFLICT and row is not conflict._HEADS]
    cells = [cell for row in rows if (cell := row.cells[1]) is not None]
    return b"".join(cells) if document.is_edited else hunks.join_lines(cells, merged.line_end)


def resolve_rest(player: Player, side: ConflictSide) -> State:
    """Resolve what is left with one side and select the file, as keys in the list of changes do."""
    player.press(CursorMovedTo(row(player.state, "f"), Pane.LIST))
    for _ in BASE:
        if player.source.changes.by_key()[KEY].is_clean:
            break
        player.press(ConflictResolved(side))
    if KEY not in player.state.selection.keys:
        player.press(Toggled())
    return player.state


@settings(max_examples=repeat(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(side(b"y"), side(b"a"), st.sampled_from([b"", b"edited\n", b"edited", b"".join(BASE)]), KEYS, SIDES)
def test_a_merge_writes_what_the_screen_showed(
    yours: bytes, agent: bytes, text: bytes, keys: list[Event], rest: ConflictSide
) -> None:
    base_tree, agent_tree = {b"f": Node(FileType.FILE, b"".join(BASE))}, {b"f": Node(FileType.FILE, agent)}
    with (
        tempfile.TemporaryDirectory() as folder,
        EndedSession(Path(folder), base_tree, trees.upper_of(base_tree, agent_tree)) as session,
    ):
        real = session.real / "f"
        real.write_bytes(yours)
        review = session.review()
        try:
            source = EditedSource(review, session.store, text)
            merged = source.line_merge(KEY)
            if not source.changes.changes or merged is None or merged.is_clean:
                event("no conflict of lines")
                return
            player = Player(source)
            player.press(EnterPressed())
            for pressed in keys:
                player.press(pressed)
            state = resolve_rest(player, rest)
            shown = shown_result(state.diff.document, merged)
            event("edited" if state.diff.document.is_edited else f"{min(len(merged.choices), 3)} choices")
            assert KEY in state.selection.keys
            player.merge()
            assert real.read_bytes() == shown
        finally:
            review.close()
        assert not session.undo().skipped
        assert real.read_bytes() == yours
