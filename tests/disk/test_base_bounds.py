"""What bounds cut of a base, and that there is none, is said wherever changes are shown."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_dev.cli.render import changes as looking
from agent_dev.merge.review import Review, open_review
from agent_dev.overlay import lower_snapshot_walk as base_walk
from agent_dev.session import store
from agent_dev.session.sessions import Listed
from tests.harness.early import Early
from tests.harness.kinds import age
from tests.harness.repository import ENVIRON, repository
from tests.harness.trees import FILE, Mark, Node
from tui.model.change_list import NoteRow, listing


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = repository(tmp_path / "root")
    age(root)
    return root


def nothing(_: Path) -> None:
    return


def is_said(capsys: pytest.CaptureFixture[str], review: Review, words: str) -> None:
    """Check that status, its JSON, the list after a run and the screen say something in one line."""
    listed = Listed(review.session, review.record, store.WAITING, str(review.record["name"] or review.session.id))
    looking.status(listed, looking.Held(review.changes), as_json=False)
    assert [line.strip().startswith("note: ") for line in capsys.readouterr().out.splitlines() if words in line] == [True]
    looking.status(listed, looking.Held(review.changes), as_json=True)
    assert words in capsys.readouterr().out
    looking.summary(review, 1, 0)
    assert words in capsys.readouterr().err
    rows = listing(review.changes).rows
    assert [words in row.text for row in rows if isinstance(row, NoteRow)] == [True]


BOUNDS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "time": ("cut after -1 s", lambda patch: patch.setattr(base_walk, "MANY_SECONDS", -1.0)),
    "paths": ("cut at 1,000,000 paths", lambda patch: patch.setattr(base_walk, "Budget", partial(base_walk.Budget, paths=1))),
    "bytes": ("2 files were past", lambda patch: patch.setattr(base_walk, "Budget", partial(base_walk.Budget, content=4))),
    "one file's bytes": ("1 file was past", lambda patch: patch.setattr(base_walk, "LARGE_FILE", 9)),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_that_cut_the_base_is_said_wherever_changes_are_shown(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bound: str
) -> None:
    words, cut = BOUNDS[bound]
    (root / "large").write_bytes(b"0123456789")
    (root / "small").write_bytes(b"012345678")
    cut(monkeypatch)
    review = Early(root, nothing, [Mark(b"new", Node(FILE, b"agent\n"))]).review()

    is_said(capsys, review, words)
    review.close()


def test_that_there_is_no_base_is_said(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    review = Early(root, nothing, [Mark(b"new", Node(FILE, b"agent\n"))]).review()
    review.close()
    os.unlink(f"{review.session.base}/manifest")
    again = open_review(review.session, ENVIRON)

    is_said(capsys, again, "there is no base")
    again.close()


def test_of_a_whole_base_nothing_is_said(root: Path) -> None:
    review = Early(root, nothing, [Mark(b"new", Node(FILE, b"agent\n"))]).review()
    review.close()

    assert review.changes.notes == ()
