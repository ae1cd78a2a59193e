"""A review of some edited files compares only these, and shows them as a review of everything does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.fs.entry import Key
from agent_dev.merge.review import open_review
from agent_dev.overlay.changes import Change
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, UpperEntry

TEXT = b"".join(b"line %d\n" % number for number in range(30))
D = Node(DIRECTORY, b"", 0o755)
BASE = {
    b"d": D,
    b"d/e": D,
    b"d/e/a": Node(FILE, TEXT),
    b"b": Node(FILE, TEXT + b"b"),
    b"old": Node(FILE, TEXT * 2),
    b"t": Node(FILE, b"t"),
}
AGENT = [
    UpperEntry(b"d", D),
    UpperEntry(b"d/e", D),
    UpperEntry(b"d/e/a", Node(FILE, TEXT + b"more\n")),
    UpperEntry(b"b", Node(FILE, b"b")),
    UpperEntry(b"old", None),
    UpperEntry(b"moved", Node(FILE, TEXT * 2 + b"!")),
    UpperEntry(b"t", Node(SYMLINK, b"d")),
    UpperEntry(b"d/n", Node(FILE, b"new")),
]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[EndedSession]:
    with EndedSession(tmp_path, BASE, AGENT) as made:
        yield made


def changes(session: EndedSession, *paths: str) -> dict[Key, Change]:
    review = open_review(session.session, ENVIRON, with_risks=False, paths=tuple(f"{session.real}/{path}" for path in paths))
    try:
        return dict(review.folded.by_key())
    finally:
        review.close()


@pytest.mark.parametrize("paths", [("b",), ("d/e/a",), ("d/e/a", "b")])
def test_only_edited_files_that_are_asked_for_are_compared(session: EndedSession, paths: tuple[str, ...]) -> None:
    every, some = changes(session), changes(session, *paths)
    assert {key.path.decode() for key in some} == set(paths)
    assert some == {key: every[key] for key in some}


@pytest.mark.parametrize(
    "paths", [("d",), ("moved",), ("old",), ("t",), ("d/n",), ("missing",), ("b", "moved"), ("../b",), ("",)]
)
def test_for_any_other_path_every_change_is_found(session: EndedSession, paths: tuple[str, ...]) -> None:
    assert changes(session, *paths) == changes(session)


def test_an_edited_file_that_the_user_changed_is_reconciled(session: EndedSession) -> None:
    (session.real / "b").write_bytes(b"mine")
    every, some = changes(session), changes(session, "b")
    assert some == {Key(0, b"b"): every[Key(0, b"b")]}
    assert some[Key(0, b"b")].conflict
