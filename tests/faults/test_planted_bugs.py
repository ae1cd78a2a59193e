"""The checkers are checked: each bug that is planted in the engine is found by the model of power cuts or by killing."""

import os

import pytest

from agent_dev.errors import RecoveryRequired
from agent_dev.fs import durable as disk
from agent_dev.merge import recover
from agent_dev.merge_engine import journal_codec as records
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine.journal import Journal, Reached, Verdict
from tests.faults import test_races
from tests.faults.test_kill_everywhere import world
from tests.harness import faults
from tests.harness.cuts import first_failure, play, whole
from tests.harness.powercut import Model

# Calls of fsync and syncfs, by who makes them, and the plan whose merge, undo and redo needs them.
NEEDED = (
    ("three", "pending.add < apply.begin < merge._apply"),
    ("three", "apply.begin < merge._apply < merge._carry_out"),
    ("three", "stage.__init__ < apply.<genexpr> < apply.begin"),
    ("three", "journals.add < apply.add < staging.adopt"),
    ("three", "journals.add < apply.add < apply.carry_out"),
    ("three", "journals.add < apply.add < apply._drive"),
    ("three", "store.write < conclude._remember_state < conclude._taken"),
    ("three", "base._write_merged < base.learn < conclude._taken"),
    ("three", "store.write < events.note < conclude.conclude"),
    ("three", "journals.add < apply.add < apply.again"),
    ("three", "upper.give_back < conclude._give_back < conclude._undone"),
    ("three", "journals.add < apply.add < conclude.conclude"),
    ("edited beside", "journals.__init__ < apply.begin < merge._apply"),
    ("shut folder beside", "drive._sync_folder < drive.sync < apply._drive"),
    ("shut folder beside", "stage.settle < secure.secure < conclude.conclude"),
    ("shut folder beside", "journals.add < apply.add < secure._record"),
    ("shut folder beside", "apply.remove_for_good < secure._remove_strays < secure.secure"),
    ("shut folder beside", "conclude._taken < conclude.conclude < merge._conclude"),
    ("lines", "stage._fill < stage.put < undo_three_way._put"),
    ("lines", "stage.__init__ < undo_three_way._stage < undo_three_way.<genexpr>"),
    ("lines", "stage.settle < undo_three_way.stage < undo._attempt"),
    ("lines", "upper.give_back < conclude._give_back < conclude._undone"),
    ("lines of three beside", "stage.settle < secure.restage < undo._attempt"),
)


@pytest.mark.parametrize(("plan", "site"), NEEDED)
def test_each_sync_that_is_left_out_is_missed(plan: str, site: str) -> None:
    tape = whole(plan).tape
    assert site in {event.site for event in tape.events if event.is_sync}

    assert first_failure(whole(plan), Model(tape, seed=1, most=1, without=site))


def forward(merge: apply.Merge, _notice: object) -> None:
    """Go on with what was interrupted, where it must go back."""
    phase = merge.journal.phases[-1]
    driver = merge.driver()
    driver.forward([(number, merge.journal.ops[number]) for number in phase.numbers], is_strict=False)
    merge.add(records.reached_record(Reached()))


def deaf(journal: Journal) -> Verdict:
    """Judge a journal without hearing that its last phase has reached its end."""
    if not journal.phases:
        return Verdict.FORGET
    return Verdict.CLEAN if journal.phases[-1].is_settled else Verdict.ROLL_BACK


@pytest.mark.parametrize(
    ("owner", "name", "bug"), [(recover, "_roll_back", forward), (Journal, "verdict", property(deaf))], ids=["forward", "deaf"]
)
def test_a_recovery_to_the_wrong_side_is_found(owner: object, name: str, bug: object, monkeypatch: pytest.MonkeyPatch) -> None:
    played = play("three")
    monkeypatch.setattr(owner, name, bug)

    assert first_failure(played, Model(played.tape, seed=1, most=1))


def overwriting(one_folder: int, one: bytes, other_folder: int, other: bytes) -> None:
    """Put one thing in another's place, where the two must change places."""
    disk._pass("exchange", one_folder, one, other_folder, other)
    os.rename(one, other, src_dir_fd=one_folder, dst_dir_fd=other_folder)


def test_a_replacement_that_overwrites_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "exchange", overwriting)
    found, number, more = False, 1, True
    while more and not found:
        with world() as one:
            try:
                more = faults.killed_at(number, lambda one=one: one.merge())  # type: ignore[misc]
                one.recover()
                one.expect_rest()
            except (AssertionError, RecoveryRequired):
                found = True
        number += 1

    assert found


def replacing(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
    """Move something to a place where the user may have put something meanwhile."""
    disk._pass("move", old_folder, old, new_folder, new)
    os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)


def test_a_move_over_what_the_user_put_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "move", replacing)
    found, number, more = False, 1, True
    while more and not found:
        with test_races.world() as one:
            try:
                more = test_races.interfered(one, test_races.World.merge, number, "save", "added")
            except AssertionError:
                found = True
        number += 1

    assert found
