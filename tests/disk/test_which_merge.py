"""Which merge `undo` and `redo` mean when none is named, and how many journals they read to know."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.errors import CannotUndo
from agent_dev.merge import history as merges
from agent_dev.merge import merge
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine.journal import Journal
from agent_dev.merge_engine.journal_file import JOURNAL
from agent_dev.overlay.selection import all_of
from tests.harness.ended import Ended
from tests.harness.trees import FILE, Mark, Node

NAMES = tuple(b"f%d" % number for number in range(8))


@pytest.fixture
def merged(tmp_path: Path) -> Iterator[tuple[Ended, list[str]]]:
    """One file merged after the other, and the ids of the merges."""
    with Ended(tmp_path, {}, [Mark(name, Node(FILE, name)) for name in NAMES]) as session:
        yield session, [session.merge(name).id for name in NAMES]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read, asked = apply.read, list[str]()

    def told(folder: str, merge_id: str) -> Journal:
        asked.append(merge_id)
        return read(folder, merge_id)

    monkeypatch.setattr(apply, "read", told)
    return asked


def journal(session: Ended, merge_id: str) -> Path:
    return Path(session.store.merges) / merge_id / JOURNAL


def there(session: Ended) -> set[str]:
    return set(os.listdir(session.real))


def test_undo_goes_back_one_by_one_and_redo_forward_again(merged: tuple[Ended, list[str]]) -> None:
    session, ids = merged
    names = [os.fsdecode(name) for name in NAMES]
    assert [session.undo().merge for _ in ids] == ids[::-1]
    assert there(session) == set()
    assert [session.redo().merge for _ in ids] == ids
    assert there(session) == set(names)


def test_the_one_undone_last_is_done_again_first(merged: tuple[Ended, list[str]]) -> None:
    session, ids = merged
    for which in (2, 6, 4):
        session.undo(ids[which])
    assert [session.redo().merge for _ in range(3)] == [ids[4], ids[6], ids[2]]


@pytest.mark.parametrize("is_forward", [False, True])
def test_no_older_journal_is_read(merged: tuple[Ended, list[str]], reads: list[str], *, is_forward: bool) -> None:
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


def test_an_older_damaged_merge_is_not_in_the_way_but_a_newer_one_is(merged: tuple[Ended, list[str]]) -> None:
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
    assert merges.recorded(session.here())[3].state == "damaged"


def test_what_changed_before_its_step_was_never_part_of_the_merge(tmp_path: Path) -> None:
    with Ended(tmp_path, {}, [Mark(name, Node(FILE, name)) for name in NAMES[:3]]) as session:
        review = session.review()
        try:
            chosen = all_of(review.changes, risky=True, ignored=True)
            planned = merge.plan(review, chosen, chosen.keys)
            (session.real / "f1").write_text("the user's")
            done = merge.carry_out(review, planned, session.store)
        finally:
            review.close()
        assert [change.key.path for change in done.taken] == [b"f0", b"f2"]
        (one,) = merges.recorded(session.here())
        assert (one.state, len(one.changes), len(one.done)) == ("merged", 2, 2)
        session.undo()
        (one,) = merges.recorded(session.here())
        assert (one.state, len(one.changes), len(one.done)) == ("undone", 2, 0)


def test_a_merge_into_a_directory_that_is_another_one_now_is_said_to_stay(merged: tuple[Ended, list[str]]) -> None:
    session, made = merged
    session.real.rename(session.real.with_name("before"))
    session.real.mkdir()
    with pytest.raises(CannotUndo) as told:
        session.undo()
    assert told.value.message == f"merge {made[-1]} stays as it is: {session.real} is another directory than it was"
