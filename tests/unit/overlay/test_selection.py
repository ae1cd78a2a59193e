"""The selection as a value: it contains what its changes require, and nothing that cannot be merged."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Risk, with_requirements
from agent_dev.overlay.selection import EMPTY_SELECTION, Selection, deselect, select, select_all, toggle

NAMES = "abcdef"
FILE = Entry(FileType.FILE)
RISKY = (Risk("hook", "runs later"),)


def key(name: str) -> Key:
    return Key(0, name.encode())


def keys(names: str) -> frozenset[Key]:
    return frozenset(map(key, names))


def change(name: str, needs: str = "", **more: Any) -> Change:
    made = Change(key(name), ChangeKind.ADDED, None, FILE, requires=tuple(map(key, needs)))
    return replace(made, **more)


def changes_of(*changes: Change) -> ChangeSet:
    return ChangeSet(changes)


@st.composite
def change_sets(draw: st.DrawFn) -> ChangeSet:
    """Draw changes with random requirements; some are in conflict, unmergeable, risky or ignored."""
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
                is_ignored=draw(st.booleans()),
            )
        )
    return changes_of(*made)


CHOICES = st.lists(st.tuples(st.sampled_from([select, deselect]), st.frozensets(st.sampled_from([key(name) for name in NAMES]))))
Choices = list[tuple[Callable[[Selection, frozenset[Key], ChangeSet], Selection], frozenset[Key]]]


def selected(changes: ChangeSet, choices: Choices) -> Selection:
    selection = EMPTY_SELECTION
    for choose, some in choices:
        selection = choose(selection, some, changes)
    return selection


def test_nothing_is_selected_at_first() -> None:
    assert len(EMPTY_SELECTION) == 0
    assert key("a") not in EMPTY_SELECTION


def test_selecting_adds_requirements() -> None:
    changes = changes_of(change("a", "b"), change("b", "c"), change("c"), change("d"))

    assert select(EMPTY_SELECTION, keys("a"), changes).keys == keys("abc")


def test_deselecting_removes_dependents() -> None:
    changes = changes_of(change("a", "b"), change("b", "c"), change("c"), change("d"))

    assert deselect(Selection(keys("abcd")), keys("b"), changes).keys == keys("cd")


@pytest.mark.parametrize("bar", [{"conflict": "moved"}, {"obstacle": "socket"}])
def test_an_unmergeable_change_is_never_selected(bar: dict[str, str]) -> None:
    changes = changes_of(change("a", **bar), change("b"))

    assert select(EMPTY_SELECTION, keys("ab"), changes).keys == keys("b")


@pytest.mark.parametrize("bar", [{"conflict": "moved"}, {"obstacle": "socket"}])
def test_a_change_that_requires_an_unmergeable_one_is_never_selected(bar: dict[str, str]) -> None:
    changes = changes_of(change("a", "b"), change("b", "c"), change("c", **bar), change("d"))

    assert select(EMPTY_SELECTION, keys("ad"), changes).keys == keys("d")


def test_a_key_without_a_change_is_never_selected() -> None:
    assert select(EMPTY_SELECTION, keys("z"), changes_of(change("a"))).keys == frozenset()


@given(change_sets(), CHOICES)
def test_every_selection_is_closed(changes: ChangeSet, choices: Choices) -> None:
    selection = selected(changes, choices)

    assert with_requirements(selection.keys, changes) == selection.keys


@given(change_sets(), CHOICES)
def test_every_selection_can_be_merged(changes: ChangeSet, choices: Choices) -> None:
    table = changes.by_key()

    assert all(table[one].is_clean for one in selected(changes, choices).keys)


@given(change_sets(), CHOICES, st.sampled_from(NAMES))
def test_a_deselected_change_is_not_selected(changes: ChangeSet, choices: Choices, name: str) -> None:
    assert key(name) not in deselect(selected(changes, choices), keys(name), changes)


@given(change_sets(), CHOICES, st.sampled_from(NAMES))
def test_toggling_a_selectable_change_changes_it(changes: ChangeSet, choices: Choices, name: str) -> None:
    before = selected(changes, choices)
    after = toggle(before, key(name), changes)

    if key(name) in before:
        assert key(name) not in after
    else:
        assert (key(name) in after) == (key(name) in select(EMPTY_SELECTION, keys(name), changes))


@given(change_sets(), CHOICES)
def test_a_selection_is_immutable(changes: ChangeSet, choices: Choices) -> None:
    before = selected(changes, choices)
    copy = Selection(frozenset(before.keys))
    select(before, keys(NAMES), changes)
    deselect(before, keys(NAMES), changes)

    assert before == copy


# --- --all ---


@pytest.mark.parametrize(
    ("one", "is_taken"),
    [
        ({}, True),
        ({"risks": RISKY}, False),
        ({"is_ignored": True}, False),
        ({"conflict": "moved"}, False),
        ({"obstacle": "socket"}, False),
    ],
)
def test_all_selects_clean_safe_and_not_ignored_changes(*, one: dict[str, Any], is_taken: bool) -> None:
    assert (key("a") in select_all(changes_of(change("a", **one)))) == is_taken


def test_all_selects_risky_changes_on_request() -> None:
    assert key("a") in select_all(changes_of(change("a", risks=RISKY)), risky=True)


def test_all_selects_ignored_changes_on_request() -> None:
    assert key("a") in select_all(changes_of(change("a", is_ignored=True)), ignored=True)


@pytest.mark.parametrize("bar", [{"conflict": "moved"}, {"obstacle": "socket"}])
def test_all_never_selects_unmergeable_changes(bar: dict[str, str]) -> None:
    assert len(select_all(changes_of(change("a", **bar)), risky=True, ignored=True)) == 0


def test_all_skips_changes_that_require_a_risky_one() -> None:
    changes = changes_of(change("a", "b"), change("b", risks=RISKY), change("c"))

    assert select_all(changes).keys == keys("c")


@given(changes=change_sets(), risky=st.booleans(), ignored=st.booleans())
def test_all_is_closed_and_can_be_merged(*, changes: ChangeSet, risky: bool, ignored: bool) -> None:
    selection, table = select_all(changes, risky=risky, ignored=ignored), changes.by_key()

    assert with_requirements(selection.keys, changes) == selection.keys
    assert all(table[one].is_clean for one in selection.keys)


@given(change_sets())
def test_all_never_selects_a_risk_unasked(changes: ChangeSet) -> None:
    table = changes.by_key()

    assert all(table[one].is_clean and not table[one].risks for one in select_all(changes).keys)
