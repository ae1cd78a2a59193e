"""A merge with a truncated journal is listed as damaged; it is not undone or redone, and its journal is not written to."""

from pathlib import Path

import pytest

from agent_dev.errors import CannotUndo
from agent_dev.merge import history
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import FILE, Node, Tree

BASE: Tree = {b"a": Node(FILE, b"one\n")}
AGENT: Tree = {b"a": Node(FILE, b"two\n"), b"n": Node(FILE, b"new\n")}


def journal_of(session: EndedSession) -> Path:
    (found,) = Path(session.store.merges).glob("*/journal")
    return found


def test_a_merge_whose_mark_names_another_end_is_listed_as_damaged(tmp_path: Path) -> None:
    """As after a power cut that reverted a journal, with its summary, but not the mark of the undo."""
    with EndedSession(tmp_path, BASE, trees.upper_of(BASE, AGENT)) as session:
        session.merge_all()
        assert [one.problem for one in history.list_merges(session.here())] == [""]
        (mark,) = journal_of(session).parent.glob("rest-*")
        mark.rename(mark.with_name(f"{mark.name[:-8]}{int(mark.name[-8:], 16) ^ 1:08x}"))
        assert [one.state for one in history.list_merges(session.here())] == ["damaged"]


@pytest.mark.parametrize("listed_before", [False, True], ids=["", "with a cached summary"])
@pytest.mark.parametrize("undone", [False, True], ids=["merged", "undone"])
@pytest.mark.parametrize("left", range(10))
def test_a_merge_with_a_truncated_journal_is_listed_as_damaged(
    tmp_path: Path, left: int, *, undone: bool, listed_before: bool
) -> None:
    with EndedSession(tmp_path, BASE, trees.upper_of(BASE, AGENT)) as session:
        session.merge_all()
        if undone:
            session.undo()
        if listed_before:
            assert [one.problem for one in history.list_merges(session.here())] == [""]
        lines = journal_of(session).read_bytes().splitlines(keepends=True)
        cut = b"".join(lines[:left])
        if left >= len(lines):
            return
        journal_of(session).write_bytes(cut)
        before = trees.read(session.real)
        (listed,) = history.list_merges(session.here())
        assert listed.state == "damaged"
        for act in (session.undo, session.redo):
            with pytest.raises(CannotUndo):
                act()
        assert journal_of(session).read_bytes() == cut
        assert trees.read(session.real) == before
