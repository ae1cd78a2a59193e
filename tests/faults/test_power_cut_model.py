"""A power cut anywhere in a merge, its undo and its redo, on a model of a disk that keeps of them what it likes."""

import os
from collections.abc import Callable

import pytest

from agent_dev.merge_engine import driver as drive
from agent_dev.merge_engine import slots as stage
from tests.harness.cuts import KEPT, NAMES, TWINS, first_failure, play, whole
from tests.harness.powercut import Model

MOST = int(os.environ.get("AGENT_DEV_TEST_STATES", "1"))  # up to so many sets of names are tried at each cut, else some
SEED = int(os.environ.get("AGENT_DEV_TEST_SEED", "1"))


@pytest.mark.parametrize("plan", NAMES)
def test_after_a_power_cut_all_is_before_or_all_after(plan: str, record_property: Callable[[str, object], None]) -> None:
    played = whole(plan)

    assert first_failure(played, Model(played.tape, seed=SEED, most=MOST)) == "", f"AGENT_DEV_TEST_SEED={SEED}"
    record_property("points", played.tried)


@pytest.mark.parametrize("plan", KEPT)
def test_after_a_power_cut_in_an_undo_of_three_ways_nothing_is_lost(
    plan: str, record_property: Callable[[str, object], None]
) -> None:
    played = whole(plan)

    assert first_failure(played, Model(played.tape, seed=SEED, most=MOST)) == "", f"AGENT_DEV_TEST_SEED={SEED}"
    record_property("points", played.tried)


@pytest.mark.parametrize("plan", ["three", "three beside", *TWINS])
def test_after_a_power_cut_where_one_sync_is_for_many_files(
    plan: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    monkeypatch.setattr(stage, "_FEW", 0)
    monkeypatch.setattr(drive, "_MANY", 0)
    played = play(plan)

    assert first_failure(played, Model(played.tape, seed=SEED, most=MOST)) == "", f"AGENT_DEV_TEST_SEED={SEED}"
    record_property("points", played.tried)


@pytest.mark.parametrize("killed", [40, 55, 70, 85])
def test_after_a_power_cut_in_a_recovery_too(killed: int, record_property: Callable[[str, object], None]) -> None:
    played = play("three", killed=killed)

    assert first_failure(played, Model(played.tape, seed=SEED, most=MOST)) == "", f"AGENT_DEV_TEST_SEED={SEED}"
    record_property("points", played.tried)
