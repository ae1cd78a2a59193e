"""The choice as a value: always closed over what cannot be taken apart, never holding what cannot be merged."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk, closure
from agent_dev.overlay.selection import NOTHING, Selection, all_of, leave, take, toggle

NAMES = "abcdef"
FILE = Entry(FileType.FILE)
RISKY = (Risk("hook", "runs later"),)


def key(name: str) -> Key:
    return Key(0, name.encode())


def keys(names: str) -> frozenset[Key]:
    return frozenset(map(key, names))


def change(name: str, needs: str = "", **more: Any) -> Change:
    made = Change(key(name), Kind.ADDED, None, FILE, requires=tuple(map(key, needs)))
    return replace(made, **more)


def changes_of(*changes: Change) -> ChangeSet:
    return ChangeSet(changes)


@st.composite
def change_sets(draw: st.DrawFn) -> ChangeSet:
    """Draw changes in conflict, with obstacles, risky and ignored ones, that need one another."""
    made = []
    for name in NAMES:
        needs = "".join(sorted(draw(st.frozensets(st.sampled_from(NAMES), max_size=2))))
        made.append(
            change(
                name,
                needs,
                conflict=draw(st.sampled_from([None, None, None, "moved"])),
                obstacle=draw(st.sampled_from([None, None, None, "socket"])),
                risks=draw(st.sampled_from([(), (), RISKY])),
                ignored=draw(st.booleans()),
            )
        )
    return changes_of(*made)


CHOICES = st.lists(st.tuples(st.sampled_from([take, leave]), st.frozensets(st.sampled_from([key(name) for name in NAMES]))))
Choices = list[tuple[Callable[[Selection, frozenset[Key], ChangeSet], Selection], frozenset[Key]]]


def chosen(changes: ChangeSet, choices: Choices) -> Selection:
    selection = NOTHING
    for choose, some in choices:
        selection = choose(selection, some, changes)
    return selection


def test_nothing_is_chosen_at_first() -> None:
    assert len(NOTHING) == 0
    assert key("a") not in NOTHING


def test_taking_brings_what_is_needed() -> None:
    changes = changes_of(change("a", "b"), change("b", "c"), change("c"), change("d"))

    assert take(NOTHING, keys("a"), changes).keys == keys("abc")


def test_leaving_gives_up_what_is_impossible_without_it() -> None:
    changes = changes_of(change("a", "b"), change("b", "c"), change("c"), change("d"))

    assert leave(Selection(keys("abcd")), keys("b"), changes).keys == keys("cd")


@pytest.mark.parametrize("bar", [{"conflict": "moved"}, {"obstacle": "socket"}])
def test_what_cannot_be_merged_is_never_chosen(bar: dict[str, str]) -> None:
    changes = changes_of(change("a", **bar), change("b"))

    assert take(NOTHING, keys("ab"), changes).keys == keys("b")


@pytest.mark.parametrize("bar", [{"conflict": "moved"}, {"obstacle": "socket"}])
def test_what_needs_the_impossible_is_never_chosen(bar: dict[str, str]) -> None:
    changes = changes_of(change("a", "b"), change("b", "c"), change("c", **bar), change("d"))

    assert take(NOTHING, keys("ad"), changes).keys == keys("d")


def test_a_key_without_a_change_is_never_chosen() -> None:
    assert take(NOTHING, keys("z"), changes_of(change("a"))).keys == frozenset()


@given(change_sets(), CHOICES)
def test_every_selection_is_closed(changes: ChangeSet, choices: Choices) -> None:
    selection = chosen(changes, choices)

    assert closure(selection.keys, changes) == selection.keys


@given(change_sets(), CHOICES)
def test_every_selection_can_be_merged(changes: ChangeSet, choices: Choices) -> None:
    table = changes.by_key()

    assert all(table[one].is_clean for one in chosen(changes, choices).keys)


@given(change_sets(), CHOICES, st.sampled_from(NAMES))
def test_what_was_left_is_not_chosen(changes: ChangeSet, choices: Choices, name: str) -> None:
    assert key(name) not in leave(chosen(changes, choices), keys(name), changes)


@given(change_sets(), CHOICES, st.sampled_from(NAMES))
def test_toggling_what_can_be_chosen_changes_it(changes: ChangeSet, choices: Choices, name: str) -> None:
    before = chosen(changes, choices)
    after = toggle(before, key(name), changes)

    if key(name) in before:
        assert key(name) not in after
    else:
        assert (key(name) in after) == (key(name) in take(NOTHING, keys(name), changes))


@given(change_sets(), CHOICES)
def test_a_selection_is_never_changed_in_place(changes: ChangeSet, choices: Choices) -> None:
    before = chosen(changes, choices)
    copy = Selection(frozenset(before.keys))
    take(before, keys(NAMES), changes)
    leave(before, keys(NAMES), changes)

    assert before == copy


# --- --all ---


@pytest.mark.parametrize(
    ("one", "is_taken"),
    [
        ({}, True),
        ({"risks": RISKY}, False),
        ({"ignored": True}, False),
        ({"conflict": "moved"}, False),
        ({"obstacle": "socket"}, False),
    ],
)
def test_all_takes_what_is_clean_safe_and_not_ignored(*, one: dict[str, Any], is_taken: bool) -> None:
    assert (key("a") in all_of(changes_of(change("a", **one)))) == is_taken


def test_all_takes_the_risky_when_asked() -> None:
    assert key("a") in all_of(changes_of(change("a", risks=RISKY)), risky=True)


def test_all_takes_the_ignored_when_asked() -> None:
    assert key("a") in all_of(changes_of(change("a", ignored=True)), ignored=True)


@pytest.mark.parametrize("bar", [{"conflict": "moved"}, {"obstacle": "socket"}])
def test_all_never_takes_what_cannot_be_merged(bar: dict[str, str]) -> None:
    assert len(all_of(changes_of(change("a", **bar)), risky=True, ignored=True)) == 0


def test_all_leaves_what_needs_a_risky_change() -> None:
    changes = changes_of(change("a", "b"), change("b", risks=RISKY), change("c"))

    assert all_of(changes).keys == keys("c")


@given(changes=change_sets(), risky=st.booleans(), ignored=st.booleans())
def test_all_is_closed_and_can_be_merged(*, changes: ChangeSet, risky: bool, ignored: bool) -> None:
    selection, table = all_of(changes, risky=risky, ignored=ignored), changes.by_key()

    assert closure(selection.keys, changes) == selection.keys
    assert all(table[one].is_clean for one in selection.keys)


@given(change_sets())
def test_all_never_takes_a_risk_unasked(changes: ChangeSet) -> None:
    table = changes.by_key()

    assert all(table[one].is_clean and not table[one].risks for one in all_of(changes).keys)
