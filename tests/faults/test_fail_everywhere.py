"""Fail any change to the disk, once or lastingly: the tree is entirely before or after, and what the command reported is true."""

import errno
import os
from collections.abc import Callable

import pytest

from agent_dev.errors import AgentDevError
from agent_dev.fs.entry import FileType
from tests.faults.test_kill_everywhere import ACTIONS, AFTER, BEFORE, ENDS, STRIDE, World, broken_recoveries, differing, world
from tests.harness import trees
from tests.harness.faults import faults

# Errors of the whole disk or process: the command stops.
FATAL = ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE", "ESTALE"]


# Errors of a single path: the other paths are merged.
OF_A_PATH = ["EACCES", "ENAMETOOLONG", "EXDEV"]


@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("name", FATAL)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_disk_failing_anywhere_leaves_the_state_before_or_after(
    *, action: str, name: str, is_lasting: bool, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = ACTIONS[action]
    number, points, more = 1 + FATAL.index(name) % STRIDE, 0, True
    sides = set()
    while more:
        with world() as one:
            prepare(one)
            more = faults.failing_at(number, getattr(errno, name), lambda one=one: faults.call(act, one), is_lasting=is_lasting)  # type: ignore[misc]
            one.recover()
            sides.add(side := one.expect_rest())
            if side != ENDS[action]:
                act(one)
                assert one.expect_rest() == ENDS[action], "the command cannot be repeated"
        points += more
        number += STRIDE
    record_property("points", points)
    assert sides == {"before", "after"}


def expect_all_but_empty_folders(one: World, side: str) -> None:
    """Assert the same as `expect_rest`, except that an emptied directory that could not be removed may remain."""
    tree, wanted = trees.read(one.ended.real), BEFORE if side == "before" else AFTER
    stayed = {path: node for path, node in tree.items() if path not in wanted and node.type is FileType.DIRECTORY}
    assert {path: node for path, node in tree.items() if path not in stayed} == wanted, differing(tree)
    assert (one.ended.kinds(), one.ended.conflicts()) == (one.all if side == "before" else {}, {})


@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("name", OF_A_PATH)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_failure_of_one_path_leaves_it_before_or_after_until_a_retry(
    *, action: str, name: str, is_lasting: bool, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = ACTIONS[action]
    number, points, more = 1 + OF_A_PATH.index(name) % STRIDE, 0, True
    while more:
        with world(faults.memory_directory()) as one:
            prepare(one)
            more = faults.failing_at(number, getattr(errno, name), lambda one=one: faults.call(act, one), is_lasting=is_lasting)  # type: ignore[misc]
            one.recover()
            tree = trees.read(one.ended.real)
            assert all(tree.get(path) in (BEFORE.get(path), AFTER.get(path)) for path in {*tree, *BEFORE, *AFTER}), differing(
                tree
            )
            for again in (act, World.undo if action == "undo" else World.merge):  # changes not redone are in the session again
                faults.call(again, one)
            expect_all_but_empty_folders(one, "before" if action == "undo" else "after")
        points += more
        number += STRIDE
    record_property("points", points)


@pytest.mark.parametrize("action", ACTIONS)
def test_the_next_recovery_finishes_one_on_a_failing_disk(action: str, record_property: Callable[[str, object], None]) -> None:
    def broken(step: int, one: World) -> bool:
        return faults.failing_at(step, errno.EIO, lambda: faults.call(one.recover), is_lasting=True)

    points = broken_recoveries(action, broken, STRIDE)
    record_property("points", points)


def test_nothing_was_changed_is_only_reported_when_true() -> None:
    number, more = 1, True
    reported = set()
    while more:
        with world() as one:
            more = faults.failing_at(number, errno.ENOSPC, lambda one=one: _tell(one), is_lasting=False)  # type: ignore[misc]
            message = one.reported()
            reported.add(message.rpartition("; ")[2])
            if message.endswith("nothing was changed"):
                assert one.side() == "before"
            one.recover()
            one.expect_rest()
        number += STRIDE
    assert "nothing was changed" in reported


def _tell(one: World) -> None:
    try:
        one.merge()
        text = "done"
    except AgentDevError as error:
        text = error.message
    with open(one.note, "w", encoding="utf-8") as file:
        file.write(text)
        os.fsync(file.fileno())
