"""A session that has ended, made on disk without a sandbox: a base, an upper, a record, as a run leaves them."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from agent_dev.diff.partial import Choice
from agent_dev.merge import merge
from agent_dev.merge import select_by_flags as pick
from agent_dev.merge import undo as undoing
from agent_dev.merge.merge import Merged
from agent_dev.merge.review import Review, open_review
from agent_dev.merge.select_by_flags import Wish
from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.overlay.changes import ChangeSet, Key, Kind
from agent_dev.overlay.selection import NOTHING, Selection, all_of, take, take_part
from agent_dev.session import store
from agent_dev.session.sessions import Here
from tests.harness import trees
from tests.harness.trees import Mark, Tree

Choose = Callable[[ChangeSet], Selection]
ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/dev/null"}


class Ended:
    """A root without git, what an agent made of it, and what the commands do with that."""

    def __init__(self, folder: Path, tree: Tree, marks: list[Mark], state: Path | None = None) -> None:
        self.real = folder / "real"
        self.real.mkdir()
        trees.write(self.real, tree)
        self.store = store.Store(str(state or folder / "state"))
        self._begin(marks)

    @classmethod
    def beside(cls, other: "Ended") -> Self:
        """Make another session of the same root, as that is now, in which nothing was done yet."""
        made = cls.__new__(cls)
        made.real, made.store = other.real, other.store
        made._begin([])
        return made

    def _begin(self, marks: list[Mark]) -> None:
        self.session = store.create(self.store)
        self.upper = Path(store.add_root(self.session, 0, str(self.real)).upper)
        base_take.take(self.session.base, base_take.Wish(roots=(str(self.real),)))
        trees.write_upper(self.upper, marks)
        record: store.Record = {
            **store.BLANK,
            "state": store.WAITING,
            "root": str(self.real),
            "roots": [str(self.real)],
            "launched": time.time_ns(),
        }
        store.write(self.session, record)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        store.let_go(self.session)
        for _ in range(5_000):
            if not os.path.isdir(self.store.gone) or not os.listdir(self.store.gone):
                break
            time.sleep(0.001)  # what was set aside is removed by a process of its own

    def review(self) -> Review:
        """Open it; the caller closes."""
        return open_review(self.session, ENVIRON)

    def changes(self) -> ChangeSet:
        """Return its changes as they are told now."""
        review = self.review()
        review.close()
        return review.changes

    def kinds(self) -> dict[bytes, Kind]:
        """Return the changes that could be merged, and how they differ."""
        return {change.key.path: change.kind for change in self.changes().changes if change.is_clean}

    def conflicts(self) -> dict[bytes, str]:
        """Return the changes that could not, with the reason."""
        return {one.key.path: one.conflict or one.obstacle or "" for one in self.changes().changes if not one.is_clean}

    def merge(self, *paths: bytes) -> Merged:
        """Merge these paths and what they need."""
        return self._merge(lambda changes: take(NOTHING, frozenset(Key(0, path) for path in paths), changes))

    def merge_part(self, path: bytes, choice: Choice) -> Merged:
        """Merge some blocks, lines or the mode of one file."""
        return self._merge(lambda changes: take_part(NOTHING, Key(0, path), choice, changes))

    def merge_all(self) -> Merged:
        """Merge everything that can be."""
        return self._merge(lambda changes: all_of(changes, risky=True, ignored=True))

    def merge_by(self, wish: Wish) -> Merged:
        """Merge what flags ask for."""
        review = self.review()
        try:
            chosen, asked = pick.choose(review, wish)
            return merge.carry_out(review, merge.plan(review, chosen, asked), self.store)
        finally:
            review.close()

    def undo(self, merge_id: str = "", *, is_three_way: bool = False) -> undoing.Undone:
        """Take a merge back; the lock is given up for it, as another command's would be."""
        store.let_go(self.session)
        try:
            return undoing.undo(self.here(), merge_id, lambda _: None, is_three_way=is_three_way)
        finally:
            self.session = store.hold(self.session)

    def redo(self, merge_id: str = "") -> undoing.Undone:
        """Do a merge again."""
        store.let_go(self.session)
        try:
            return undoing.redo(self.here(), merge_id, lambda _: None)
        finally:
            self.session = store.hold(self.session)

    def here(self) -> Here:
        return Here(self.store, str(self.real), str(self.real), ENVIRON)

    def _merge(self, choose: Choose) -> Merged:
        review = self.review()
        try:
            chosen = choose(review.changes)
            return merge.carry_out(review, merge.plan(review, chosen, chosen.keys), self.store)
        finally:
            review.close()
