"""Any change to the disk fails, once or from then on: all before or all after, and what was said is true."""

import errno
import os
from collections.abc import Callable

import pytest

from agent_dev.errors import AgentDevError
from agent_dev.overlay.changes import FileType
from tests.faults.test_kill_everywhere import AFTER, BEFORE, DEEDS, ENDS, STRIDE, World, broken_recoveries, differing, world
from tests.harness import faults, trees

# The disk or the process is at its end: nothing more is tried.
FATAL = ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE", "ESTALE"]


# One path's fault: the others come.
OF_A_PATH = ["EACCES", "ENAMETOOLONG", "EXDEV"]


def said(act: Callable[[], object]) -> None:
    """Act; an error of the family is what a user would have been told."""
    try:
        act()
    except AgentDevError:
        return


@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("name", FATAL)
@pytest.mark.parametrize("deed", DEEDS)
def test_a_disk_that_fails_anywhere_leaves_all_before_or_all_after(
    *, deed: str, name: str, is_lasting: bool, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = DEEDS[deed]
    number, points, more = 1 + FATAL.index(name) % STRIDE, 0, True
    sides = set()
    while more:
        with world() as one:
            prepare(one)
            more = faults.failing_at(number, getattr(errno, name), lambda one=one: said(lambda: act(one)), is_lasting=is_lasting)  # type: ignore[misc]
            one.recover()
            sides.add(side := one.expect_rest())
            if side != ENDS[deed]:
                act(one)
                assert one.expect_rest() == ENDS[deed], "it cannot be done again"
        points += more
        number += STRIDE
    record_property("points", points)
    assert sides == {"before", "after"}


def expect_all_but_empty_folders(one: World, side: str) -> None:
    """Check as `expect_rest`; a directory that lost all it held, and could not be removed then, may stay."""
    tree, wanted = trees.read(one.ended.real), BEFORE if side == "before" else AFTER
    stayed = {path: node for path, node in tree.items() if path not in wanted and node.type is FileType.DIRECTORY}
    assert {path: node for path, node in tree.items() if path not in stayed} == wanted, differing(tree)
    assert (one.ended.kinds(), one.ended.conflicts()) == (one.all if side == "before" else {}, {})


@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("name", OF_A_PATH)
@pytest.mark.parametrize("deed", DEEDS)
def test_what_fails_for_a_path_leaves_each_path_before_or_after_and_the_next_try_brings_the_rest(
    *, deed: str, name: str, is_lasting: bool, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = DEEDS[deed]
    number, points, more = 1 + OF_A_PATH.index(name) % STRIDE, 0, True
    while more:
        with world(faults.quick()) as one:
            prepare(one)
            more = faults.failing_at(number, getattr(errno, name), lambda one=one: said(lambda: act(one)), is_lasting=is_lasting)  # type: ignore[misc]
            one.recover()
            tree = trees.read(one.ended.real)
            assert all(tree.get(path) in (BEFORE.get(path), AFTER.get(path)) for path in {*tree, *BEFORE, *AFTER}), differing(
                tree
            )
            for again in (act, World.undo if deed == "undo" else World.merge):  # what a redo left lies in the session again
                said(lambda one=one, again=again: again(one))  # type: ignore[misc]
            expect_all_but_empty_folders(one, "before" if deed == "undo" else "after")
        points += more
        number += STRIDE
    record_property("points", points)


@pytest.mark.parametrize("deed", DEEDS)
def test_a_recovery_on_a_failing_disk_is_finished_by_the_next(deed: str, record_property: Callable[[str, object], None]) -> None:
    def broken(step: int, one: World) -> bool:
        return faults.failing_at(step, errno.EIO, lambda: said(one.recover), is_lasting=True)

    points = broken_recoveries(deed, broken, STRIDE)
    record_property("points", points)


def test_nothing_was_changed_is_only_said_when_nothing_was() -> None:
    number, more = 1, True
    told = set()
    while more:
        with world() as one:
            more = faults.failing_at(number, errno.ENOSPC, lambda one=one: _tell(one), is_lasting=False)  # type: ignore[misc]
            message = one.told()
            told.add(message.rpartition("; ")[2])
            if message.endswith("nothing was changed"):
                assert one.side() == "before"
            one.recover()
            one.expect_rest()
        number += STRIDE
    assert "nothing was changed" in told


def _tell(one: World) -> None:
    try:
        one.merge()
        text = "done"
    except AgentDevError as error:
        text = error.message
    with open(one.note, "w", encoding="utf-8") as file:
        file.write(text)
        os.fsync(file.fileno())
