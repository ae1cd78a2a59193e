"""The protocol of a review for modules that assess its changes."""

from typing import Protocol

from agent_dev.fs import dir_tree
from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeSet
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.session import store


class ReviewProtocol(Protocol):
    """An open session for review (`merge.review.Review`)."""

    session: store.Session
    record: store.Record
    changes: ChangeSet
    upper_trees: tuple[dir_tree.Tree, ...]
    real_trees: tuple[dir_tree.Tree, ...]
    lower_snapshot: LowerSnapshot
    environ: dict[str, str]
    is_running: bool

    def content(self, key: Key) -> tuple[bytes | None, bytes | None]:
        """Return the content of a file before and after; None for content that cannot be compared."""

    def base_content(self, change: Change) -> bytes | None:
        """Return the base version of a file; None if it is not stored."""
