"""An ended session, created on disk without a sandbox: lower snapshot, upper layer and record, as a run leaves them."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from agent_dev.diff.partial_selection import LineSelection
from agent_dev.fs.entry import Key
from agent_dev.merge import merge, select_by_options
from agent_dev.merge import undo as undoing
from agent_dev.merge.merge import MergeResult
from agent_dev.merge.review import Review, open_review
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.overlay import lower_snapshot_request, lower_snapshot_take
from agent_dev.overlay.changes import ChangeKind, ChangeSet
from agent_dev.overlay.selection import EMPTY_SELECTION, Selection, select, select_all, select_part
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext
from tests.harness import trees
from tests.harness.trees import Tree, UpperEntry

SelectChanges = Callable[[ChangeSet], Selection]
ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/dev/null"}


class EndedSession:
    """A root without git, an agent's changes to it, and the commands on the session."""

    def __init__(self, folder: Path, tree: Tree, marks: list[UpperEntry], state: Path | None = None) -> None:
        self.real = folder / "real"
        self.real.mkdir()
        trees.write(self.real, tree)
        self.store = store.Store(str(state or folder / "state"))
        self._begin(marks)

    @classmethod
    def another(cls, other: "EndedSession") -> Self:
        """Create another session of the same root, in its current state, without changes."""
        created = cls.__new__(cls)
        created.real, created.store = other.real, other.store
        created._begin([])
        return created

    def _begin(self, marks: list[UpperEntry]) -> None:
        self.session = store.create_session(self.store)
        self.upper = Path(store.add_root(self.session, 0, str(self.real)).upper)
        lower_snapshot_take.take_snapshot(
            self.session.lower_snapshot, lower_snapshot_request.SnapshotRequest(roots=(str(self.real),))
        )
        trees.write_upper(self.upper, marks)
        record: store.Record = {
            **store.BLANK,
            "state": store.WAITING,
            "root": str(self.real),
            "roots": [str(self.real)],
            "launched": time.time_ns(),
        }
        store.write_record(self.session, record)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        store.unlock_session(self.session)
        for _ in range(5_000):
            if not os.path.isdir(self.store.removals_folder) or not os.listdir(self.store.removals_folder):
                break
            time.sleep(0.001)  # removed by another process

    def review(self) -> Review:
        """Open the session; the caller closes it."""
        return open_review(self.session, ENVIRON)

    def changes(self) -> ChangeSet:
        """Return the changes of the session."""
        review = self.review()
        review.close()
        return review.changes

    def kinds(self) -> dict[bytes, ChangeKind]:
        """Return the kinds of the changes that can be merged, by path."""
        return {change.key.path: change.kind for change in self.changes().changes if change.is_clean}

    def conflicts(self) -> dict[bytes, str]:
        """Return the reasons why changes cannot be merged, by path."""
        return {one.key.path: one.conflict or one.obstacle or "" for one in self.changes().changes if not one.is_clean}

    def merge(self, *paths: bytes) -> MergeResult:
        """Merge these paths and what they depend on."""
        return self._merge(lambda changes: select(EMPTY_SELECTION, frozenset(Key(0, path) for path in paths), changes))

    def merge_hunks(self, path: bytes, choice: LineSelection) -> MergeResult:
        """Merge some hunks, lines or the mode of one file."""
        return self._merge(lambda changes: select_part(EMPTY_SELECTION, Key(0, path), choice, changes))

    def merge_all(self) -> MergeResult:
        """Merge everything that can be merged."""
        return self._merge(lambda changes: select_all(changes, risky=True, ignored=True))

    def merge_selected(self, wanted: SelectionRequest) -> MergeResult:
        """Merge the changes that options select."""
        review = self.review()
        try:
            selected, asked = select_by_options.select_requested(review, wanted)
            return merge.apply_plan(review, merge.plan_selection(review, selected, asked), self.store)
        finally:
            review.close()

    def undo(self, merge_id: str = "", *, is_three_way: bool = False) -> undoing.UndoResult:
        """Undo a merge; the session is unlocked in the meantime, as for another command."""
        store.unlock_session(self.session)
        try:
            return undoing.undo(self.here(), merge_id, lambda _: None, is_three_way=is_three_way)
        finally:
            self.session = store.lock_session(self.session)

    def redo(self, merge_id: str = "") -> undoing.UndoResult:
        """Redo a merge."""
        store.unlock_session(self.session)
        try:
            return undoing.redo(self.here(), merge_id, lambda _: None)
        finally:
            self.session = store.lock_session(self.session)

    def here(self) -> CommandContext:
        return CommandContext(self.store, str(self.real), str(self.real), ENVIRON)

    def _merge(self, choose: SelectChanges) -> MergeResult:
        review = self.review()
        try:
            selected = choose(review.changes)
            return merge.apply_plan(review, merge.plan_selection(review, selected, selected.keys), self.store)
        finally:
            review.close()
