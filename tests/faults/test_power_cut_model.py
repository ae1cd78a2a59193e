"""Cut the power anywhere in a merge, its undo and its redo, on a model of a disk that may keep any part of unsynced changes."""

import os
from collections.abc import Callable

import pytest

from agent_dev.merge_engine import driver, slots
from tests.harness.faults.power_cuts import KEPT, LINKED_PLANS, NAMES, first_failure, record_plan, recorded_plan
from tests.harness.faults.powercut import PowerCutModel
from tests.harness.scale import repeat, stride

MOST = repeat(1)  # sets of name changes tried at each cut: all if there are no more than these, else some
STRIDE = stride(1)
SEED = int(os.environ.get("AGENT_DEV_TEST_SEED", "1"))


@pytest.mark.parametrize("plan", NAMES)
def test_a_power_cut_leaves_the_state_before_or_after(plan: str, record_property: Callable[[str, object], None]) -> None:
    played = recorded_plan(plan)

    assert first_failure(played, PowerCutModel(played.tape, seed=SEED, most=MOST), STRIDE) == "", f"AGENT_DEV_TEST_SEED={SEED}"
    record_property("points", played.tried)


@pytest.mark.parametrize("plan", KEPT)
def test_a_power_cut_during_a_three_way_undo_loses_nothing(plan: str, record_property: Callable[[str, object], None]) -> None:
    played = recorded_plan(plan)

    assert first_failure(played, PowerCutModel(played.tape, seed=SEED, most=MOST), STRIDE) == "", f"AGENT_DEV_TEST_SEED={SEED}"
    record_property("points", played.tried)


@pytest.mark.parametrize("plan", ["three", "three in tree", *LINKED_PLANS])
def test_a_power_cut_with_one_sync_for_many_files_loses_nothing(
    plan: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    monkeypatch.setattr(slots, "_MAX_FSYNCS", 0)
    monkeypatch.setattr(driver, "_MAX_FSYNCS", 0)
    played = record_plan(plan)

    assert first_failure(played, PowerCutModel(played.tape, seed=SEED, most=MOST), STRIDE) == "", f"AGENT_DEV_TEST_SEED={SEED}"
    record_property("points", played.tried)


@pytest.mark.parametrize("killed", [40, 55, 70, 85])
def test_a_power_cut_during_a_recovery_loses_nothing(killed: int, record_property: Callable[[str, object], None]) -> None:
    played = record_plan("three", killed=killed)

    assert first_failure(played, PowerCutModel(played.tape, seed=SEED, most=MOST), STRIDE) == "", f"AGENT_DEV_TEST_SEED={SEED}"
    record_property("points", played.tried)
