"""The selection that the flags of a merge make, and the reasons for what they skip."""

import pytest

from agent_dev.fs.entry import Key
from agent_dev.merge import select_by_options
from agent_dev.merge.review import Review
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.merge_engine.merge_plan import ChangedDirectories, make_plan
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Risk
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.session.store import BLANK, Session
from tests.disk.merge.merge_nodes import NEW
from tests.harness import trees


def change(name: bytes, **more: object) -> Change:
    return Change(Key(0, name), ChangeKind.ADDED, None, trees.entry(NEW), **more)  # type: ignore[arg-type]


def opened(changes: ChangeSet) -> Review:
    """Return a review of which only the changes are used."""
    return Review(Session("", ""), BLANK, changes, (), (), LowerSnapshot("/nonexistent"), {})


RISKS = (Risk("hook", "runs later"),)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (change(b"x", risks=RISKS), "risky: hook"),
        (change(b"x", is_ignored=True), "ignored by git"),
        (change(b"x", obstacle="a socket"), "a socket"),
    ],
)
def test_each_change_skipped_by_all_has_its_reason(one: Change, why: str) -> None:
    changes = ChangeSet((one,))
    selected, asked = select_by_options.select_requested(opened(changes), SelectionRequest(select_all=True))

    assert [left.reason for left in make_plan(changes, selected, asked, ChangedDirectories({}, ())).skipped] == [why]


def test_take_selects_everything_below_a_path_and_what_it_requires() -> None:
    needed = change(b"a")
    changes = ChangeSet((needed, change(b"d/x", requires=(needed.key,)), change(b"d/y", risks=RISKS), change(b"dd")))
    selected, asked = select_by_options.select_requested(opened(changes), SelectionRequest(paths=(Key(0, b"d"),)))

    assert {key.path for key in selected.keys} == {b"a", b"d/x", b"d/y"}
    assert {key.path for key in asked} == {b"d/x", b"d/y"}


def test_a_conflict_named_by_take_is_reported() -> None:
    changes = ChangeSet((change(b"x", conflict="it moved"), change(b"y")))
    selected, asked = select_by_options.select_requested(opened(changes), SelectionRequest(paths=(Key(0, b""),)))

    assert [left.key.path for left in make_plan(changes, selected, asked, ChangedDirectories({}, ())).conflicts] == [b"x"]
