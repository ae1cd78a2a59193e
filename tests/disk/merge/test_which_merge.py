"""The merge that `undo` and `redo` select without an id, and the number of journals that they read for it."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from agent_dev.errors import CannotUndo
from agent_dev.merge import history, merge
from agent_dev.merge.undo import CHANGED, CHANGED_BY_OTHER, DELETED, DELETED_BY_OTHER, UndoResult
from agent_dev.merge_engine import merge_execution
from agent_dev.merge_engine.journal import Journal
from agent_dev.merge_engine.journal_file import FILE_NAME
from agent_dev.overlay.changes import Change
from agent_dev.overlay.selection import select_all
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import FILE, Node, UpperEntry

NAMES = tuple(b"f%d" % number for number in range(8))


@pytest.fixture
def merged(tmp_path: Path) -> Iterator[tuple[EndedSession, list[str]]]:
    """Merge several files one after the other; yield the session and the ids of the merges."""
    with EndedSession(tmp_path, {}, [UpperEntry(name, Node(FILE, name)) for name in NAMES]) as session:
        yield session, [session.merge(name).id for name in NAMES]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read, asked = merge_execution.read_journal, list[str]()

    def reported(folder: str, merge_id: str, known: Iterable[Change] = ()) -> Journal:
        asked.append(merge_id)
        return read(folder, merge_id, known)

    monkeypatch.setattr(merge_execution, "read_journal", reported)
    return asked


def journal(session: EndedSession, merge_id: str) -> Path:
    return Path(session.store.merges) / merge_id / FILE_NAME


def there(session: EndedSession) -> set[str]:
    return set(os.listdir(session.real))


def test_undo_steps_back_one_by_one_and_redo_forward(merged: tuple[EndedSession, list[str]]) -> None:
    session, ids = merged
    names = [os.fsdecode(name) for name in NAMES]
    assert [session.undo().merge for _ in ids] == ids[::-1]
    assert there(session) == set()
    assert [session.redo().merge for _ in ids] == ids
    assert there(session) == set(names)


def test_merges_stay_in_order_if_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(10**18, 0, -(10**15)))
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    with EndedSession(tmp_path, {}, [UpperEntry(name, Node(FILE, name)) for name in NAMES]) as session:
        ids = [session.merge(name).id for name in NAMES]
        assert [session.undo().merge for _ in ids] == ids[::-1]
        assert [session.redo().merge for _ in ids] == ids


def test_the_last_undone_merge_is_redone_first(merged: tuple[EndedSession, list[str]]) -> None:
    session, ids = merged
    for which in (2, 6, 4):
        session.undo(ids[which])
    assert [session.redo().merge for _ in range(3)] == [ids[4], ids[6], ids[2]]


@pytest.mark.parametrize("is_forward", [False, True])
def test_no_older_journal_is_read(merged: tuple[EndedSession, list[str]], reads: list[str], *, is_forward: bool) -> None:
    session, ids = merged
    if is_forward:
        for _ in range(4):
            session.undo()
        reads.clear()
        session.redo()
        assert set(reads) == {ids[4]}
    else:
        session.undo()
        assert set(reads) == {ids[-1]}


def test_an_older_damaged_merge_does_not_block_but_a_newer_one_does(merged: tuple[EndedSession, list[str]]) -> None:
    session, ids = merged
    whole = journal(session, ids[3]).read_bytes()
    journal(session, ids[3]).write_bytes(b"x" + whole[1:])
    os.utime(journal(session, ids[3]), (1, 1))
    for number in (7, 6, 5, 4):
        assert session.undo().merge == ids[number]
    with pytest.raises(CannotUndo, match="journal"):
        session.undo()
    assert there(session) == {"f0", "f1", "f2", "f3"}
    assert session.redo().merge == ids[4]
    assert history.list_merges(session.here())[3].state == "damaged"


def test_a_merge_that_was_listed_before_is_listed_without_its_journal(
    merged: tuple[EndedSession, list[str]], reads: list[str]
) -> None:
    session, ids = merged
    first = history.list_merges(session.here())
    assert sorted(reads) == sorted(ids)
    reads.clear()
    assert history.list_merges(session.here()) == first
    assert reads == []
    undone = session.undo().merge
    reads.clear()
    assert {one.id: one.state for one in history.list_merges(session.here())} == {
        **dict.fromkeys(ids, "merged"),
        undone: "undone",
    }
    assert reads == [undone]
    session.redo()
    assert [(one.state, one.changes, one.applied, one.kinds) for one in history.list_merges(session.here())] == [
        ("merged", 1, 1, (("added", 1),))
    ] * len(ids)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff" * 40, None])
def test_a_damaged_summary_of_a_merge_is_made_again(
    merged: tuple[EndedSession, list[str]], reads: list[str], content: bytes | None
) -> None:
    session, ids = merged
    first = history.list_merges(session.here())
    summary = Path(session.store.merges) / ids[0] / history.SUMMARY
    summary.write_bytes(summary.read_bytes()[:-3] if content is None else content)
    reads.clear()
    assert history.list_merges(session.here()) == first
    assert reads == [ids[0]]
    reads.clear()
    assert history.list_merges(session.here()) == first
    assert reads == []


def test_a_damage_that_no_stat_data_shows_is_reported_when_the_journal_is_read(
    merged: tuple[EndedSession, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, ids = merged
    monkeypatch.setattr(history, "_stamp", lambda _: (1, 2, 3, 4))
    history.list_merges(session.here())
    damaged = journal(session, ids[0])
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    first, second, *_ = history.list_merges(session.here())
    assert (first.state, second.state) == ("merged", "merged")
    found, changes = history.with_changes(session.here(), first)
    assert (found.state, changes) == ("damaged", ())
    assert history.with_changes(session.here(), second)[0] == second


def test_a_file_changed_before_its_step_is_not_part_of_the_merge(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {}, [UpperEntry(name, Node(FILE, name)) for name in NAMES[:3]]) as session:
        review = session.review()
        try:
            selected = select_all(review.changes, risky=True, ignored=True)
            planned = merge.plan_selection(review, selected, selected.keys)
            (session.real / "f1").write_text("the user's")
            done = merge.apply_plan(review, planned, session.store)
        finally:
            review.close()
        assert [change.key.path for change in done.applied] == [b"f0", b"f2"]
        (one,) = history.list_merges(session.here())
        assert (one.state, one.changes, one.applied) == ("merged", 2, 2)
        session.undo()
        (one,) = history.list_merges(session.here())
        assert (one.state, one.changes, one.applied) == ("undone", 2, 0)


def test_a_merge_into_a_replaced_root_cannot_be_undone(merged: tuple[EndedSession, list[str]]) -> None:
    session, made = merged
    session.real.rename(session.real.with_name("before"))
    session.real.mkdir()
    with pytest.raises(CannotUndo) as reported:
        session.undo()
    assert reported.value.message == f"merge {made[-1]} cannot be undone: {session.real} is not the same directory any more"


@pytest.fixture
def merged_twice(tmp_path: Path) -> Iterator[EndedSession]:
    """Yield the first of two sessions whose merges changed one file from 0 to 1, then to 2."""
    with EndedSession(tmp_path, {b"f": Node(FILE, b"0")}, [UpperEntry(b"f", Node(FILE, b"1"))]) as first:
        first.merge_all()
        with EndedSession.another(first) as second:
            trees.write_upper(second.upper, [UpperEntry(b"f", Node(FILE, b"2"))])
            second.merge_all()
        yield first


def test_two_merges_of_one_file_are_undone_and_redone(merged_twice: EndedSession) -> None:
    undo, redo = merged_twice.undo, merged_twice.redo
    assert [content_after(merged_twice, undo) for _ in range(2)] == [b"1", b"0"]
    assert [content_after(merged_twice, redo) for _ in range(2)] == [b"1", b"2"]
    assert [content_after(merged_twice, undo) for _ in range(2)] == [b"1", b"0"]


def test_a_redo_skips_a_file_that_the_user_changed_after_another_redo(merged_twice: EndedSession) -> None:
    for act in (merged_twice.undo, merged_twice.undo, merged_twice.redo):
        act()
    (merged_twice.real / "f").write_bytes(b"3")
    done = merged_twice.redo()

    assert [one.reason for one in done.skipped] == [CHANGED]
    assert (merged_twice.real / "f").read_bytes() == b"3"


def test_a_redo_names_another_merge_that_changed_a_file_since(tmp_path: Path) -> None:
    entries = [UpperEntry(b"f", Node(FILE, b"1")), UpperEntry(b"g", Node(FILE, b"1"))]
    with EndedSession(tmp_path, {b"f": Node(FILE, b"0")}, entries) as session:
        first = session.merge_all().id
        session.undo()
        session.merge(b"f")
        for _ in range(2):
            done = session.redo(first)
            assert ([key.path for key in done.paths], reasons(done)) == ([b"g"], {b"f": CHANGED_BY_OTHER})
            session.undo(first)
        (session.real / "f").write_bytes(b"3")
        assert reasons(session.redo(first)) == {b"f": CHANGED}


@pytest.mark.parametrize(("second", "reason"), [(b"2", f"{CHANGED_BY_OTHER}, in the same lines"), (None, DELETED_BY_OTHER)])
def test_an_undo_names_another_merge_that_changed_a_file_since(tmp_path: Path, second: bytes | None, reason: str) -> None:
    with EndedSession(tmp_path, {b"f": Node(FILE, b"0")}, [UpperEntry(b"f", Node(FILE, b"1"))]) as session:
        first = session.merge_all().id
        with EndedSession.another(session) as other:
            trees.write_upper(other.upper, [UpperEntry(b"f", Node(FILE, second) if second is not None else None)])
            other.merge_all()
        assert reasons(session.undo(first)) == {b"f": reason}


def test_an_undo_names_the_user_if_they_deleted_the_merged_file_again(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {b"f": Node(FILE, b"0")}, [UpperEntry(b"f", None)]) as session:
        session.merge_all()
        (session.real / "f").write_bytes(b"1")
        with EndedSession.another(session) as other:
            trees.write_upper(other.upper, [UpperEntry(b"f", Node(FILE, b"2"))])
            other.merge_all()
        (session.real / "f").unlink()
        assert reasons(session.undo()) == {b"f": DELETED}


def reasons(done: UndoResult) -> dict[bytes, str]:
    return {one.key.path: one.reason for one in done.skipped}


def content_after(session: EndedSession, act: Callable[[], UndoResult]) -> bytes:
    act()
    return (session.real / "f").read_bytes()
