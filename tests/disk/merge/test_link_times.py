"""Merges and undos preserve the times of links and FIFOs, and report hard links that a merge splits."""

import os
from pathlib import Path

import pytest

from agent_dev.cli.render import merge as merging
from agent_dev.fs.entry import FileType, Key
from agent_dev.merge import merge
from agent_dev.merge.select_by_options import SelectionRequest, select_requested
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import FIFO, FILE, SYMLINK, Node, UpperEntry

THEN = 1_234_567_890_123_456_789


def time_of(path: Path) -> int:
    return path.lstat().st_mtime_ns


def dated(path: Path, when: int) -> None:
    os.utime(path, ns=(when, when), follow_symlinks=False)


@pytest.mark.parametrize("kind", [SYMLINK, FIFO])
def test_times_survive_merge_undo_and_redo(tmp_path: Path, kind: FileType) -> None:
    old, new = (Node(SYMLINK, b"old"), Node(SYMLINK, b"new")) if kind == SYMLINK else (Node(FILE, b"1"), Node(FIFO))
    with EndedSession(tmp_path, {b"x": old}, [UpperEntry(b"x", new), UpperEntry(b"y", new)]) as one:
        dated(one.upper / "x", THEN)
        dated(one.upper / "y", THEN)
        before = time_of(one.real / "x")
        one.merge_all()
        assert (time_of(one.real / "x"), time_of(one.real / "y")) == (THEN, THEN)
        one.undo()
        assert time_of(one.real / "x") == before
        assert (time_of(one.upper / "x"), time_of(one.upper / "y")) == (THEN, THEN)
        one.redo()
        assert (time_of(one.real / "x"), time_of(one.real / "y")) == (THEN, THEN)


def test_a_merge_that_splits_a_hard_link_reports_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EndedSession(tmp_path, {b"x": Node(FILE, b"old")}, []) as first:
        os.link(first.real / "x", first.real / "twin")
        with EndedSession.another(first) as one:
            (one.upper / "x").write_bytes(b"new")
            review = one.review()
            plan = merge.plan_selection(review, *select_requested(review, SelectionRequest(select_all=True, include_risky=True)))
            would, done = merge.preview(review, plan), merge.apply_plan(review, plan, one.store)
            merging.print_merge(done, review, is_dry=False, as_json=False)
            review.close()

            assert would.hard_linked == done.hard_linked == (Key(0, b"x"),)
            assert "split hard links: other names of x keep the old content\n" in capsys.readouterr().out
            assert ((one.real / "twin").read_bytes(), (one.real / "x").read_bytes()) == (b"old", b"new")


@pytest.mark.parametrize("deleted", [1, 2])
def test_links_that_the_same_merge_deletes_are_not_reported(tmp_path: Path, deleted: int) -> None:
    names = ["a twin", "z twin"]
    with EndedSession(tmp_path, {b"x": Node(FILE, b"old")}, []) as first:
        for name in names:
            os.link(first.real / "x", first.real / name)
        with EndedSession.another(first) as one:
            gone = [UpperEntry(os.fsencode(name), None) for name in names[:deleted]]
            trees.write_upper(one.upper, [UpperEntry(b"x", Node(FILE, b"new")), *gone])
            assert one.merge_all().hard_linked == ((Key(0, b"x"),) if deleted == 1 else ())


def test_a_file_with_one_link_is_not_reported(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {b"x": Node(FILE, b"old")}, [UpperEntry(b"x", Node(FILE, b"new"))]) as one:
        assert one.merge_all().hard_linked == ()


@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_renamed_hard_link_is_reported_and_a_deleted_one_is_not(tmp_path: Path, *, is_renamed: bool) -> None:
    content = Node(FILE, b"one line of several\n" * 9)
    with EndedSession(tmp_path, {b"x": content}, []) as first:
        os.link(first.real / "x", first.real / "twin")
        with EndedSession.another(first) as one:
            trees.write_upper(one.upper, [UpperEntry(b"x", None), *([UpperEntry(b"y", content)] if is_renamed else [])])
            assert one.merge_all().hard_linked == ((Key(0, b"x"),) if is_renamed else ())
