"""What the flags of a merge choose, and what they say of what they leave."""

import pytest

from agent_dev.merge import select_by_flags as pick
from agent_dev.merge.review import Review
from agent_dev.merge.select_by_flags import Wish
from agent_dev.merge_engine.merge_plan import Folders, plan
from agent_dev.overlay.changes import Change, ChangeSet, Key, Kind, Risk
from agent_dev.overlay.lower_snapshot import Base
from agent_dev.session.store import BLANK, Session
from tests.disk.merge_nodes import NEW
from tests.harness import trees


def change(name: bytes, **more: object) -> Change:
    return Change(Key(0, name), Kind.ADDED, None, trees.entry(NEW), **more)  # type: ignore[arg-type]


def opened(changes: ChangeSet) -> Review:
    """Return a review of which only the changes are asked."""
    return Review(Session("", ""), BLANK, changes, (), (), Base("/nonexistent"), {})


RISKS = (Risk("hook", "runs later"),)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (change(b"x", risks=RISKS), "risky: hook"),
        (change(b"x", ignored=True), "ignored by git"),
        (change(b"x", obstacle="a socket"), "a socket"),
    ],
)
def test_what_all_leaves_says_why(one: Change, why: str) -> None:
    changes = ChangeSet((one,))
    chosen, asked = pick.choose(opened(changes), Wish(is_everything=True))

    assert [left.why for left in plan(changes, chosen, asked, Folders({}, ())).left] == [why]


def test_take_chooses_all_below_a_path_and_what_it_needs() -> None:
    needed = change(b"a")
    changes = ChangeSet((needed, change(b"d/x", requires=(needed.key,)), change(b"d/y", risks=RISKS), change(b"dd")))
    chosen, asked = pick.choose(opened(changes), Wish(paths=(Key(0, b"d"),)))

    assert {key.path for key in chosen.keys} == {b"a", b"d/x", b"d/y"}
    assert {key.path for key in asked} == {b"d/x", b"d/y"}


def test_a_conflict_that_take_asked_for_is_told() -> None:
    changes = ChangeSet((change(b"x", conflict="it moved"), change(b"y")))
    chosen, asked = pick.choose(opened(changes), Wish(paths=(Key(0, b""),)))

    assert [left.key.path for left in plan(changes, chosen, asked, Folders({}, ())).conflicts] == [b"x"]
