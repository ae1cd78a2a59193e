"""Notes to the agent on the page of `merge --html`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.diff.review_note import ReviewNote
from agent_dev.merge import saved_selection
from agent_dev.merge.saved_selection import SavedSelection
from agent_dev.overlay.selection import EMPTY_SELECTION
from agent_dev.review_page import gather
from tests.harness.ended_session import EndedSession
from tests.harness.trees import FILE, Node, UpperEntry

NOTES = (
    ReviewNote(0, b"a", "about the file"),
    ReviewNote(0, b"a", "about <b>a line</b>", line=1),
    ReviewNote(0, b"a", "gone", line=1, is_old=True),
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[EndedSession]:
    marks = [UpperEntry(b"a", Node(FILE, b"new\n")), UpperEntry(b"b", Node(FILE, b"b\n"))]
    with EndedSession(tmp_path, {b"a": Node(FILE, b"old\n")}, marks) as made:
        yield made


def test_each_change_has_its_notes(session: EndedSession) -> None:
    review = session.review()
    try:
        saved_selection.save(review, SavedSelection(EMPTY_SELECTION, frozenset(), None, {}, NOTES))
        sections = {
            one.path: one.facts for one in gather._change_sections(review, review.changes.changes, gather._PageBudget(10_000))
        }
    finally:
        review.close()
    assert [fact for fact in sections["a"] if fact[0].startswith("note")] == [
        ("note to the agent", "about the file"),
        ("note to the agent, line 1", "about <b>a line</b>"),
        ("note to the agent, old line 1", "gone"),
    ]
    assert not any(name.startswith("note") for name, _ in sections["b"])
