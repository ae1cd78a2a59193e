"""Test the checkers themselves: the power-cut model or the kill tests detect each bug planted in the merge engine."""

import os
from collections.abc import Callable

import pytest

from agent_dev.errors import RecoveryRequired
from agent_dev.fs import durable
from agent_dev.merge import conclude, merge, recover, undo, undo_three_way
from agent_dev.merge_engine import journal_codec, merge_execution, pending_marks, remove_merge, replaced_files, upper_update
from agent_dev.merge_engine.driver import Driver
from agent_dev.merge_engine.journal import Journal, NextAction, PhaseResult
from agent_dev.merge_engine.journal_file import JournalFile
from agent_dev.merge_engine.merge_execution import Merge
from agent_dev.merge_engine.slots import Stage
from agent_dev.merge_engine.staging import _Staging
from agent_dev.session import events, store
from tests.faults import test_races
from tests.faults.test_kill_everywhere import world
from tests.harness.faults import faults
from tests.harness.faults.power_cuts import first_failure, record_plan, recorded_plan
from tests.harness.faults.powercut import PowerCutModel


def site(*calls: Callable[..., object], within: str = "") -> str:
    """Return a call site as `Event.site` names it, innermost first; `within`: a frame without a function, such as a genexpr."""
    names = [f"{call.__module__.rpartition('.')[2]}.{call.__name__}" for call in calls]
    return " < ".join((names[0], within, *names[1:]) if within else names)


def appended(*callers: Callable[..., object], by: Callable[..., object] = Merge.append_records) -> str:
    """Return the call site that appends to the journal."""
    return site(JournalFile.append, by, *callers)


# Calls of fsync and syncfs by call site, with the plan whose merge, undo and redo needs them.
NEEDED = (
    ("three", site(pending_marks.mark_pending, merge_execution.begin_merge, merge._apply)),
    ("three", site(merge_execution.begin_merge, merge._apply, merge._carry_out)),
    ("three", site(Stage.__init__, merge_execution.begin_merge, within="merge_execution.<genexpr>")),
    ("three", appended(_Staging.adopt)),
    ("three", appended(merge_execution.run_merge)),
    ("three", appended(merge_execution._run)),
    ("three", site(store.write_record, conclude._write_state, conclude._remove_applied)),
    ("three", site(store.write_record, events.log_event, conclude.conclude)),
    ("three", appended(merge_execution.run_again, by=Merge.append_record)),
    ("three", site(upper_update.restore_entries, conclude._restore_to_session, conclude._restore_undone)),
    ("three", appended(conclude.conclude, by=Merge.append_record)),
    ("edited in tree", site(JournalFile.__init__, merge_execution.begin_merge, merge._apply)),
    ("read-only directory in tree", site(Driver._sync_folder, Driver.sync, merge_execution._run)),
    ("read-only directory in tree", site(Stage.sync, replaced_files.secure_replaced_files, conclude.conclude)),
    ("read-only directory in tree", appended(replaced_files._record_stages, by=Merge.append_record)),
    (
        "read-only directory in tree",
        site(remove_merge.remove_stage, replaced_files._remove_unused_stages, replaced_files.secure_replaced_files),
    ),
    ("read-only directory in tree", site(conclude._remove_applied, conclude.conclude, merge._conclude)),
    ("lines", site(Stage._fill, Stage.write, undo_three_way._put)),
    ("lines", site(Stage.__init__, undo_three_way._stage) + " < undo_three_way.<genexpr>"),
    ("lines", site(Stage.sync, undo_three_way.stage_substitutes, undo._attempt)),
    ("lines", site(upper_update.restore_entries, conclude._restore_to_session, conclude._restore_undone)),
    ("lines of three in tree", site(Stage.sync, replaced_files.move_to_stages, undo._attempt)),
)


@pytest.mark.parametrize(("plan", "site"), NEEDED)
def test_each_omitted_sync_is_detected(plan: str, site: str) -> None:
    tape = recorded_plan(plan).tape
    assert site in {event.site for event in tape.events if event.is_sync}

    assert first_failure(recorded_plan(plan), PowerCutModel(tape, seed=1, most=1, without=site))


def forward(merge: merge_execution.Merge, _notice: object) -> None:
    """Roll an interrupted merge forward where recovery must roll it back."""
    phase = merge.journal.phases[-1]
    driver = merge.driver()
    driver.run_forward([(number, merge.journal.ops[number]) for number in phase.numbers], is_strict=False)
    (record,) = journal_codec.reached_records(PhaseResult())
    merge.append_record(record)


def deaf(journal: Journal) -> NextAction:
    """Return the next action as if the record that the last phase was completed were missing."""
    if not journal.phases:
        return NextAction.DISCARD
    return NextAction.NONE if journal.phases[-1].is_concluded else NextAction.ROLL_BACK


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [(recover, "_roll_back", forward), (Journal, "next_action", property(deaf))],
    ids=["forward", "deaf"],
)
def test_a_recovery_to_the_wrong_side_is_detected(owner: object, name: str, bug: object, monkeypatch: pytest.MonkeyPatch) -> None:
    played = record_plan("three")
    monkeypatch.setattr(owner, name, bug)

    assert first_failure(played, PowerCutModel(played.tape, seed=1, most=1))


def overwriting(call: str) -> Callable[[int, bytes, int, bytes], None]:
    """Return a buggy version of a call: it overwrites an entry that must be kept."""

    def rename(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
        durable._notify(call, old_folder, old, new_folder, new)
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)

    return rename


def test_a_replacement_that_overwrites_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "exchange", overwriting("exchange"))
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


def test_a_move_over_an_entry_of_the_user_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "rename_new", overwriting("move"))
    found, number, more = False, 1, True
    while more and not found:
        with test_races.world() as one:
            try:
                more = test_races.interfered(one, test_races.World.merge, number, "save", "added")
            except AssertionError:
                found = True
        number += 1

    assert found
