"""What of the trash goes."""

from hypothesis import given
from hypothesis import strategies as st

from agent_dev.session.trash_retention import Thrown, gone

THROWN = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), max_size=12).map(
    lambda rows: tuple(Thrown(str(number), time, size) for number, (time, size) in enumerate(rows))
)


def names(thrown: tuple[Thrown, ...]) -> list[str]:
    return [one.name for one in thrown]


def test_what_is_too_old_goes_and_the_rest_stays() -> None:
    assert names(gone((Thrown("a", 5, 1), Thrown("b", 10, 1)), 10, 100)) == ["a"]


def test_beyond_the_size_the_oldest_goes_and_the_newest_stays() -> None:
    assert names(gone((Thrown("a", 1, 6), Thrown("b", 2, 6), Thrown("c", 3, 3)), 0, 10)) == ["a"]


def test_one_that_does_not_fit_goes_and_smaller_older_ones_may_stay() -> None:
    assert names(gone((Thrown("small", 1, 2), Thrown("large", 2, 90), Thrown("new", 3, 3)), 0, 10)) == ["large"]


@given(THROWN, st.integers(0, 100), st.integers(0, 200))
def test_what_stays_is_young_and_fits(thrown: tuple[Thrown, ...], oldest: int, most: int) -> None:
    going = gone(thrown, oldest, most)
    kept = [one for one in thrown if one not in going]

    assert all(one.time >= oldest for one in kept)
    assert sum(one.size for one in kept) <= most


@given(THROWN)
def test_without_a_limit_nothing_goes(thrown: tuple[Thrown, ...]) -> None:
    assert gone(thrown, 0, 10**6) == ()
