"""Kill a three-way undo or its redo at any step, or let the disk fail: neither side's changes are lost.

A three-way undo keeps what the user changed since the merge.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest

from agent_dev.merge import merge, recover, undo
from agent_dev.merge_engine import pending_marks
from agent_dev.session.sessions import CommandContext
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.faults import faults, power_cuts
from tests.harness.scale import stride
from tests.harness.trees import FILE, Node, Tree

STRIDE = max(1, stride(29) // 4)
STEPS = {"home": 1, "tree": min(3, STRIDE)}
BEFORE: Tree = {b"text": Node(FILE, b"1\n2\n3\n4\n"), b"other": Node(FILE, b"other")}
AGENT: Tree = {b"text": Node(FILE, b"one\n2\n3\n4\n"), b"other": Node(FILE, b"agent's"), b"new": Node(FILE, b"new")}
YOURS: Tree = AGENT | {b"text": Node(FILE, b"one\n2\n3\nmine\n")}
APART: Tree = BEFORE | {b"text": Node(FILE, b"1\n2\n3\nmine\n")}
KINDS = trees.differences(BEFORE, AGENT)


class World:
    """A merged session; the user has edited a merged file since."""

    def __init__(self, folder: Path) -> None:
        self.ended = EndedSession(folder, BEFORE, trees.upper_of(BEFORE, AGENT))
        os.close(self.ended.session.lock)
        self.here = CommandContext(self.ended.store, str(self.ended.real), str(self.ended.real), ENVIRON)
        self.ended.merge_all()
        (self.ended.real / "text").write_bytes(YOURS[b"text"].content)

    def undo(self, *, is_three_way: bool = True) -> None:
        undo.undo(self.here, "", lambda _: None, is_three_way=is_three_way)

    def redo(self) -> None:
        undo.redo(self.here, "", lambda _: None)

    def recover(self) -> None:
        recover.recover_root(self.here.store, self.here.root, ENVIRON, lambda _: None)

    def side(self) -> str:
        """Return the side of the tree, after asserting that the session matches it and no merge is pending."""
        tree = trees.read(self.ended.real)
        assert tree in (YOURS, APART), tree
        assert self.ended.kinds() == (KINDS if tree == APART else {})
        assert self.ended.conflicts() == {}
        assert pending_marks.unfinished_merges(self.here.store) == ()
        assert {path.name for path in self.ended.real.parent.iterdir()} == {"real", "state"}
        return "apart" if tree == APART else "mine"

    def expect_nothing_lost(self) -> None:
        """Assert that undo and redo still reach both sides, and that no content of the user or the agent is lost."""
        if self.side() == "mine":
            self.undo()
        assert self.side() == "apart"
        assert (self.ended.upper / "text").read_bytes() == AGENT[b"text"].content
        self.redo()
        assert self.side() == "mine"
        (self.ended.real / "text").write_bytes(AGENT[b"text"].content)
        self.undo(is_three_way=False)
        assert trees.read(self.ended.real) == BEFORE


@contextmanager
def world(place: str) -> Iterator[World]:
    """Yield a world with its slots in the merge's directory, or next to the tree, as where a rename cannot reach it."""
    stages = mock.patch.object(merge, "_stage_candidates", power_cuts._stage_in_tree) if place == "tree" else nullcontext()
    with stages, TemporaryDirectory(dir=faults.memory_directory()) as folder:
        yield World(Path(folder))


def undone(one: World) -> None:
    one.undo()


ACTIONS: dict[str, tuple[Callable[[World], None], Callable[[World], None]]] = {
    "undo": (lambda _: None, undone),
    "redo": (undone, World.redo),
}


@pytest.mark.parametrize("place", ["home", "tree"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_three_way_undo_killed_anywhere_loses_nothing(
    action: str, place: str, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = ACTIONS[action]
    sides, points, number, more = set(), 0, 1, True
    while more:
        with world(place) as one:
            prepare(one)
            more = faults.killed_at(number, lambda one=one: act(one))  # type: ignore[misc]
            one.recover()
            sides.add(one.side())
            one.expect_nothing_lost()
        points += more
        number += STEPS[place]
    record_property("points", points)
    assert sides == {"mine", "apart"}


@pytest.mark.parametrize("place", ["home", "tree"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_recovery_killed_anywhere_is_finished_by_the_next(
    action: str, place: str, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = ACTIONS[action]
    points, number, more = 0, 1, True
    while more:
        second, goes_on = 1, True
        while goes_on:
            with world(place) as one:
                prepare(one)
                more = faults.killed_at(number, lambda one=one: act(one))  # type: ignore[misc]
                goes_on = faults.killed_at(second, one.recover)
                one.recover()
                one.expect_nothing_lost()
            points += goes_on
            second += STRIDE
        number += STRIDE
    record_property("points", points)


@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("name", ["ENOSPC", "EIO", "EACCES"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_disk_failing_anywhere_loses_nothing(
    *, action: str, name: str, is_lasting: bool, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = ACTIONS[action]
    points, number, more = 0, 1, True
    while more:
        with world("home") as one:
            prepare(one)
            error = getattr(errno, name)
            more = faults.failing_at(number, error, lambda one=one: faults.call(act, one), is_lasting=is_lasting)  # type: ignore[misc]
            one.recover()
            if name == "EACCES":  # an error of one path: the other paths were processed
                faults.call(act, one)
            one.expect_nothing_lost()
        points += more
        number += 1 if name == "EACCES" else STRIDE  # a skipped point would be a path whose failure is never tried
    record_property("points", points)
