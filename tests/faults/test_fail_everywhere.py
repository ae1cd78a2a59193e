"""Any change to the disk fails, once or from then on: all before or all after, and what was said is true."""

import errno
import os
from collections.abc import Callable

import pytest

from agent_dev.errors import AgentDevError
from tests.faults.test_kill_everywhere import DEEDS, STRIDE, World, world
from tests.harness import faults

# The disk or the process is at its end: nothing more is tried.
FATAL = ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE", "ESTALE"]


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
            sides.add(one.expect_rest())
        points += more
        number += STRIDE
    record_property("points", points)
    assert sides == {"before", "after"}


@pytest.mark.parametrize("deed", DEEDS)
def test_a_recovery_on_a_failing_disk_is_finished_by_the_next(deed: str, record_property: Callable[[str, object], None]) -> None:
    prepare, act = DEEDS[deed]
    number, points, more = 1, 0, True
    while more:
        second, goes_on = 1, True
        while goes_on:
            with world() as one:
                prepare(one)
                more = faults.killed_at(number, lambda one=one: act(one))  # type: ignore[misc]
                goes_on = faults.failing_at(second, errno.EIO, lambda one=one: said(one.recover), is_lasting=True)  # type: ignore[misc]
                one.recover()
                one.expect_rest()
            points += goes_on
            second += STRIDE
        number += STRIDE
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
