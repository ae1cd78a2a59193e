"""Pruning of the trash by age and size."""

from hypothesis import given
from hypothesis import strategies as st

from agent_dev.session.trash_retention import TrashEntry, select_for_removal

THROWN = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), max_size=12).map(
    lambda rows: tuple(TrashEntry(str(number), time, size) for number, (time, size) in enumerate(rows))
)


def names(thrown: tuple[TrashEntry, ...]) -> list[str]:
    return [one.name for one in thrown]


def test_entries_over_the_age_limit_are_removed_and_the_rest_stays() -> None:
    assert names(select_for_removal((TrashEntry("a", 5, 1), TrashEntry("b", 10, 1)), 10, 100)) == ["a"]


def test_over_the_size_limit_the_oldest_entry_is_removed_first() -> None:
    assert names(select_for_removal((TrashEntry("a", 1, 6), TrashEntry("b", 2, 6), TrashEntry("c", 3, 3)), 0, 10)) == ["a"]


def test_an_oversized_entry_is_removed_and_smaller_older_ones_may_stay() -> None:
    assert names(select_for_removal((TrashEntry("small", 1, 2), TrashEntry("large", 2, 90), TrashEntry("new", 3, 3)), 0, 10)) == [
        "large"
    ]


@given(THROWN, st.integers(0, 100), st.integers(0, 200))
def test_remaining_entries_are_within_age_and_size_limits(thrown: tuple[TrashEntry, ...], oldest: int, most: int) -> None:
    going = select_for_removal(thrown, oldest, most)
    kept = [one for one in thrown if one not in going]

    assert all(one.time >= oldest for one in kept)
    assert sum(one.size for one in kept) <= most


@given(THROWN)
def test_without_a_limit_nothing_is_removed(thrown: tuple[TrashEntry, ...]) -> None:
    assert select_for_removal(thrown, 0, 10**6) == ()
