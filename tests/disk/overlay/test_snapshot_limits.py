"""A truncated or missing lower snapshot is reported wherever changes are shown."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_dev.cli.render import changes
from agent_dev.merge.review import Review, open_review
from agent_dev.overlay import lower_snapshot_walk
from agent_dev.session import store
from agent_dev.session.sessions import ListedSession
from tests.harness.faults.early_changes import EarlySession
from tests.harness.repository import ENVIRON, repository
from tests.harness.repository_kinds import make_indexes_newer
from tests.harness.trees import FILE, Node, UpperEntry
from tui.model.change_list import NoteRow, build_listing


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = repository(tmp_path / "root")
    make_indexes_newer(root)
    return root


def nothing(_: Path) -> None:
    return


def is_printed(capsys: pytest.CaptureFixture[str], review: Review, words: str) -> None:
    """Check that status, its JSON, the list after a run, and the screen each report it in one line."""
    listed = ListedSession(review.session, review.record, store.WAITING, str(review.record["name"] or review.session.id))
    changes.print_status(listed, changes.SessionContents(review.changes), as_json=False)
    assert [line.strip().startswith("note: ") for line in capsys.readouterr().out.splitlines() if words in line] == [True]
    changes.print_status(listed, changes.SessionContents(review.changes), as_json=True)
    assert words in capsys.readouterr().out
    changes.print_summary(review, 1, 0)
    assert words in capsys.readouterr().err
    rows = build_listing(review.changes).rows
    assert [words in row.text for row in rows if isinstance(row, NoteRow)] == [True]


BOUNDS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "time": ("timed out after -1 s", lambda patch: patch.setattr(lower_snapshot_walk, "MAX_SECONDS", -1.0)),
    "paths": (
        "stopped at 1,000,000 paths",
        lambda patch: patch.setattr(lower_snapshot_walk, "Budget", partial(lower_snapshot_walk.Budget, paths=1)),
    ),
    "bytes": (
        "2 files were over",
        lambda patch: patch.setattr(lower_snapshot_walk, "Budget", partial(lower_snapshot_walk.Budget, content_bytes=4)),
    ),
    "one file's bytes": ("1 file was over", lambda patch: patch.setattr(lower_snapshot_walk, "MAX_STORED_FILE", 9)),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_truncated_lower_snapshot_is_reported_wherever_changes_are_shown(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bound: str
) -> None:
    words, cut = BOUNDS[bound]
    (root / "large").write_bytes(b"0123456789")
    (root / "small").write_bytes(b"012345678")
    cut(monkeypatch)
    review = EarlySession(root, nothing, [UpperEntry(b"new", Node(FILE, b"agent\n"))]).review()

    is_printed(capsys, review, words)
    review.close()


def test_a_missing_lower_snapshot_is_reported(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    review = EarlySession(root, nothing, [UpperEntry(b"new", Node(FILE, b"agent\n"))]).review()
    review.close()
    os.unlink(f"{review.session.lower_snapshot}/manifest")
    again = open_review(review.session, ENVIRON)

    is_printed(capsys, again, "there is no lower snapshot")
    again.close()


def test_a_complete_lower_snapshot_prints_nothing(root: Path) -> None:
    review = EarlySession(root, nothing, [UpperEntry(b"new", Node(FILE, b"agent\n"))]).review()
    review.close()

    assert review.changes.notes == ()
