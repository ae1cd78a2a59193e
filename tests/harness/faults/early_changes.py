"""A session in a git repository that the user changed before the lower snapshot was taken, created without a sandbox."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_dev.merge.review import Review, open_review
from agent_dev.overlay import lower_snapshot_take, lower_snapshot_walk
from agent_dev.overlay.changes import Change
from agent_dev.overlay.lower_snapshot_request import SnapshotRequest
from agent_dev.session import store
from tests.harness import trees
from tests.harness.repository import ENVIRON
from tests.harness.trees import UpperEntry

GIT = shutil.which("git") or "git"


@dataclass(slots=True)
class EarlySession:
    """A session with changes by the user before the lower snapshot, and an upper layer of the agent."""

    root: Path
    act: Callable[[Path], object]
    marks: list[UpperEntry]

    def review(self) -> Review:
        """Open the session; the caller closes it."""
        place = store.Store(str(self.root.parent / "state"))
        session = store.create_session(place)
        upper = Path(store.add_root(session, 0, str(self.root)).upper)
        since = self.later_time()
        self.act(self.root)
        wanted = SnapshotRequest(roots=(str(self.root),), git=f"{self.root}/.git", program=GIT, environ=ENVIRON, since=since)
        lower_snapshot_take.take_snapshot(session.lower_snapshot, wanted)
        trees.write_upper(upper, self.marks)
        record: store.Record = {
            **store.BLANK,
            "state": store.WAITING,
            "root": str(self.root),
            "roots": [str(self.root)],
            "launched": since,
        }
        store.write_record(session, record)
        return open_review(session, ENVIRON)

    def later_time(self) -> int:
        """Return a time that is certainly after everything created before."""
        last = max(path.lstat().st_ctime_ns for path in [self.root, *self.root.rglob("*")])
        until = time.monotonic() + 10
        while time.time_ns() <= last + lower_snapshot_walk.CLOCK_LAG_NS:
            assert time.monotonic() < until
        return time.time_ns()

    def changes(self) -> dict[bytes, Change]:
        """Return the session's changes by path."""
        review = self.review()
        review.close()
        return {change.key.path: change for change in review.changes.changes}
