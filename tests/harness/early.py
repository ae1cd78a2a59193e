"""A session in a git repository that the user changed before its base was taken, made on disk without a sandbox."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_dev.merge.review import Review, open_review
from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.overlay import lower_snapshot_walk as base_walk
from agent_dev.overlay.changes import Change
from agent_dev.overlay.lower_snapshot_take import Wish
from agent_dev.session import store
from tests.harness import trees
from tests.harness.repository import ENVIRON
from tests.harness.trees import Mark

GIT = shutil.which("git") or "git"


@dataclass(slots=True)
class Early:
    """A session whose user did something before the base was taken, and whose agent left an upper."""

    root: Path
    act: Callable[[Path], object]
    marks: list[Mark]

    def review(self) -> Review:
        """Open it; the caller closes."""
        place = store.Store(str(self.root.parent / "state"))
        session = store.create(place)
        upper = Path(store.add_root(session, 0, str(self.root)).upper)
        since = self.moved_on()
        self.act(self.root)
        wish = Wish(roots=(str(self.root),), git=f"{self.root}/.git", program=GIT, environ=ENVIRON, since=since)
        base_take.take(session.base, wish)
        trees.write_upper(upper, self.marks)
        record: store.Record = {
            **store.BLANK,
            "state": store.WAITING,
            "root": str(self.root),
            "roots": [str(self.root)],
            "launched": since,
        }
        store.write(session, record)
        return open_review(session, ENVIRON)

    def moved_on(self) -> int:
        """Return a moment that is surely after all that was made before."""
        last = max(path.lstat().st_ctime_ns for path in [self.root, *self.root.rglob("*")])
        until = time.monotonic() + 10
        while time.time_ns() <= last + base_walk.COARSE:
            assert time.monotonic() < until
        return time.time_ns()

    def changes(self) -> dict[bytes, Change]:
        """Return its changes by path."""
        review = self.review()
        review.close()
        return {change.key.path: change for change in review.changes.changes}
