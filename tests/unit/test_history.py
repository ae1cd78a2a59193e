"""Which checkpoints are let go, and what two states have in common."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.restore_plan import DIRECTORY, FILE, WHITEOUT, Held, Keep, Node, restoring, thinned

MINUTE = 60 * 10**9
NOW = 10**18


def held(*minutes_ago: int) -> tuple[Held, ...]:
    return tuple(Held(number, NOW - ago * MINUTE, 10) for number, ago in enumerate(minutes_ago, 1))


def node(path: str, kind: str = FILE, content: str = "", **more: object) -> Node:
    return Node(path, kind, 0o644, 0, 0, 0, 0, content, "", 1, 1, 0)._replace(**more)  # type: ignore[arg-type]


def table(*nodes: Node) -> dict[str, Node]:
    return {one.path: one for one in nodes}


@given(st.lists(st.integers(0, 10_000), max_size=40), st.integers(1, 20))
def test_no_more_are_kept_than_asked_for_and_the_newest_always_are(ages: list[int], number: int) -> None:
    found = held(*sorted(ages, reverse=True))
    gone = thinned(found, NOW, 5 * MINUTE, Keep(number))
    assert len(gone) == len(set(gone)) == max(0, len(found) - max(number, 3))
    assert not {one.number for one in found[-3:]} & set(gone)


def test_thinning_leaves_the_old_sparse_and_the_young_dense() -> None:
    every_five_minutes = held(*range(500, -1, -5))
    gone = set(thinned(every_five_minutes, NOW, 5 * MINUTE, Keep(12)))
    left = [(NOW - one.time) // MINUTE for one in every_five_minutes if one.number not in gone]
    gaps = [older - younger for older, younger in itertools.pairwise(left)]
    assert gaps[-1] == 5
    assert max(gaps[: len(gaps) // 2]) >= 40
    assert left[0] > 250


def test_after_a_long_pause_it_is_the_oldest_that_goes() -> None:
    assert thinned(held(5000, 4995, 20, 15, 10, 5, 0), NOW, 5 * MINUTE, Keep(6)) == (1,)


@pytest.mark.parametrize(
    ("keep", "gone"),
    [(Keep(0), ()), (Keep(0, age=30 * MINUTE), (1, 2)), (Keep(0, size=45), (1, 2)), (Keep(0, size=1), (1, 2, 3))],
)
def test_age_and_size_let_the_oldest_go_but_never_the_newest_three(keep: Keep, gone: tuple[int, ...]) -> None:
    assert thinned(held(60, 50, 15, 10, 5, 0), NOW, 5 * MINUTE, keep) == gone


@given(st.lists(st.tuples(st.integers(0, 10_000), st.booleans()), max_size=40), st.integers(1, 20), st.integers(1, 400))
def test_what_the_user_asked_for_goes_after_all_that_nobody_did(ages: list[tuple[int, bool]], number: int, size: int) -> None:
    minutes = sorted((ago for ago, _ in ages), reverse=True)
    found = tuple(replace(one, is_asked=asked) for one, (_, asked) in zip(held(*minutes), ages, strict=True))
    for keep in (Keep(number), Keep(0, size=size)):
        gone = thinned(found, NOW, 5 * MINUTE, keep)
        asked = [found[number - 1].is_asked for number in gone]
        assert asked == sorted(asked)
        free = {one.number for one in found[:-3] if not one.is_asked}
        assert not any(asked) or free <= set(gone)


def test_equal_states_need_nothing() -> None:
    one = table(node("", DIRECTORY), node("a", content="x"), node("b", WHITEOUT))
    steps = restoring(one, {path: item._replace(inode=9, ctime=9) for path, item in one.items()})
    assert (steps.removed, steps.made, steps.settled) == ((), (), ())


def test_a_file_that_got_a_second_name_is_made_anew_without_it() -> None:
    wanted = table(node("a", content="x"), node("b", content="x", inode=2))
    current = table(node("a", content="x", links=2), node("b", content="x", links=2))
    assert [one.path for one in restoring(current, wanted).made] == ["a", "b"]


def test_a_second_name_that_only_goes_leaves_the_first_alone() -> None:
    wanted = table(node("a", content="x"))
    current = table(node("a", content="x", links=2), node("b", content="x", links=2))
    steps = restoring(current, wanted)
    assert (steps.removed, steps.made) == (("b",), ())


def test_what_is_kept_stays_as_it_is_with_the_directories_that_lead_there_and_all_else_goes_back() -> None:
    wanted = table(node("", DIRECTORY), node("a"), node("b", DIRECTORY), node("b/x", content="1"), node("gone", content="1"))
    current = table(
        *(node("", DIRECTORY), node("a", DIRECTORY), node("a/y", content="2"), node("b", DIRECTORY), node("b/x", content="2")),
        *(node("c", DIRECTORY), node("c/d", DIRECTORY), node("c/d/e", content="2"), node("c/z", content="2")),
    )
    states = history.keeping(current, wanted, ("a/y", "c/d", "gone", "nowhere/at/all"))
    assert states == table(*(current[path] for path in ("", "a", "a/y", "b", "c", "c/d", "c/d/e")), wanted["b/x"])
    assert history.keeping(current, wanted, ()) == wanted
    assert history.keeping(current, wanted, ("", "b")) == current


def test_what_an_upper_shows_is_its_own_else_what_lies_below_unless_it_is_hidden() -> None:
    upper = table(node("d", DIRECTORY, attributes=f"{history.OPAQUE}=79"), node("d/a"), node("gone", WHITEOUT))
    lower = table(node("d", DIRECTORY), node("d/b"), node("gone"), node("plain"))
    assert set(history.seen(upper, lower.get, {*upper, *lower})) == {"d", "d/a", "plain"}


class Asked(dict[str, Node]):
    """A state that counts how often it is asked for a path."""

    asked = 0

    def get(self, path: str, default: Node | None = None) -> Node | None:  # type: ignore[override]
        self.asked += 1
        return super().get(path, default)


def test_of_a_deep_tree_each_directory_is_asked_about_once_and_not_once_for_each_that_lies_below() -> None:
    paths = ["/".join("d" * depth) for depth in range(1, 301)]
    upper, lower = Asked(), table(*(node(path, DIRECTORY) for path in paths))
    assert list(history.seen(upper, lower.get, paths)) == paths
    assert upper.asked <= 3 * len(paths)
    assert list(history.seen(Asked(table(node("d/d", WHITEOUT))), lower.get, paths)) == ["d"]
    assert list(history.seen({}, Asked(lower | table(node("d/d/d"))).get, paths)) == ["d", "d/d", "d/d/d"]
