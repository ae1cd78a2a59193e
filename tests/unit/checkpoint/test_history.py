"""The checkpoints that are pruned, and the operations between two states."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.checkpoint import restore_plan
from agent_dev.checkpoint.restore_plan import DIRECTORY, FILE, WHITEOUT, Node, plan_restore
from agent_dev.snapshot_retention import RetainedItem, RetentionLimits, select_expired

MINUTE = 60 * 10**9
NOW = 10**18


def held(*minutes_ago: int) -> tuple[RetainedItem, ...]:
    return tuple(RetainedItem(number, NOW - ago * MINUTE, 10) for number, ago in enumerate(minutes_ago, 1))


def node(path: str, kind: str = FILE, content: str = "", **more: object) -> Node:
    return Node(path, kind, 0o644, 0, 0, 0, 0, content, "", 1, 1, 0)._replace(**more)  # type: ignore[arg-type]


def table(*nodes: Node) -> dict[str, Node]:
    return {one.path: one for one in nodes}


@given(st.lists(st.integers(0, 10_000), max_size=40), st.integers(1, 20))
def test_thinning_keeps_the_given_number_and_always_the_newest(ages: list[int], number: int) -> None:
    found = held(*sorted(ages, reverse=True))
    gone = select_expired(found, NOW, 5 * MINUTE, RetentionLimits(number))
    assert len(gone) == len(set(gone)) == max(0, len(found) - max(number, 3))
    assert not {one.number for one in found[-3:]} & set(gone)


def test_thinning_leaves_old_checkpoints_sparse_and_recent_ones_dense() -> None:
    every_five_minutes = held(*range(500, -1, -5))
    gone = set(select_expired(every_five_minutes, NOW, 5 * MINUTE, RetentionLimits(12)))
    left = [(NOW - one.time) // MINUTE for one in every_five_minutes if one.number not in gone]
    gaps = [older - younger for older, younger in itertools.pairwise(left)]
    assert gaps[-1] == 5
    assert max(gaps[: len(gaps) // 2]) >= 40
    assert left[0] > 250


def test_after_a_long_pause_the_oldest_checkpoint_is_pruned() -> None:
    assert select_expired(held(5000, 4995, 20, 15, 10, 5, 0), NOW, 5 * MINUTE, RetentionLimits(6)) == (1,)


@pytest.mark.parametrize(
    ("keep", "gone"),
    [
        (RetentionLimits(0), ()),
        (RetentionLimits(0, age=30 * MINUTE), (1, 2)),
        (RetentionLimits(0, size=45), (1, 2)),
        (RetentionLimits(0, size=1), (1, 2, 3)),
    ],
)
def test_age_and_size_prune_the_oldest_but_never_the_newest_three(keep: RetentionLimits, gone: tuple[int, ...]) -> None:
    assert select_expired(held(60, 50, 15, 10, 5, 0), NOW, 5 * MINUTE, keep) == gone


@given(st.lists(st.tuples(st.integers(0, 10_000), st.booleans()), max_size=40), st.integers(1, 20), st.integers(1, 400))
def test_requested_checkpoints_are_pruned_after_automatic_ones(ages: list[tuple[int, bool]], number: int, size: int) -> None:
    minutes = sorted((ago for ago, _ in ages), reverse=True)
    found = tuple(replace(one, is_requested=asked) for one, (_, asked) in zip(held(*minutes), ages, strict=True))
    for keep in (RetentionLimits(number), RetentionLimits(0, size=size)):
        gone = select_expired(found, NOW, 5 * MINUTE, keep)
        asked = [found[number - 1].is_requested for number in gone]
        assert asked == sorted(asked)
        free = {one.number for one in found[:-3] if not one.is_requested}
        assert not any(asked) or free <= set(gone)


def test_equal_states_need_no_operations() -> None:
    one = table(node("", DIRECTORY), node("a", content="x"), node("b", WHITEOUT))
    steps = plan_restore(one, {path: item._replace(inode=9, ctime=9) for path, item in one.items()})
    assert (steps.removed, steps.created, steps.updated_directories) == ((), (), ())


def test_a_file_with_an_extra_hard_link_is_recreated_without_it() -> None:
    wanted = table(node("a", content="x"), node("b", content="x", inode=2))
    current = table(node("a", content="x", links=2), node("b", content="x", links=2))
    assert [one.path for one in plan_restore(current, wanted).created] == ["a", "b"]


def test_removing_an_extra_hard_link_leaves_the_first_unchanged() -> None:
    wanted = table(node("a", content="x"))
    current = table(node("a", content="x", links=2), node("b", content="x", links=2))
    steps = plan_restore(current, wanted)
    assert (steps.removed, steps.created) == (("b",), ())


def test_kept_paths_and_their_parents_stay_and_the_rest_is_restored() -> None:
    wanted = table(node("", DIRECTORY), node("a"), node("b", DIRECTORY), node("b/x", content="1"), node("gone", content="1"))
    current = table(
        *(node("", DIRECTORY), node("a", DIRECTORY), node("a/y", content="2"), node("b", DIRECTORY), node("b/x", content="2")),
        *(node("c", DIRECTORY), node("c/d", DIRECTORY), node("c/d/e", content="2"), node("c/z", content="2")),
    )
    states = restore_plan.keep_paths(current, wanted, ("a/y", "c/d", "gone", "nowhere/at/all"))
    assert states == table(*(current[path] for path in ("", "a", "a/y", "b", "c", "c/d", "c/d/e")), wanted["b/x"])
    assert restore_plan.keep_paths(current, wanted, ()) == wanted
    assert restore_plan.keep_paths(current, wanted, ("", "b")) == current


def test_an_upper_shows_its_own_entries_over_visible_lower_ones() -> None:
    upper = table(node("d", DIRECTORY, attributes=f"{restore_plan.OPAQUE}=79"), node("d/a"), node("gone", WHITEOUT))
    lower = table(node("d", DIRECTORY), node("d/b"), node("gone"), node("plain"))
    assert set(restore_plan.visible_nodes(upper, lower.get, {*upper, *lower})) == {"d", "d/a", "plain"}


class Asked(dict[str, Node]):
    """A state that counts the lookups of paths."""

    asked = 0

    def get(self, path: str, default: Node | None = None) -> Node | None:  # type: ignore[override]
        self.asked += 1
        return super().get(path, default)


def test_each_directory_of_a_deep_tree_is_queried_once() -> None:
    paths = ["/".join("d" * depth) for depth in range(1, 301)]
    upper, lower = Asked(), table(*(node(path, DIRECTORY) for path in paths))
    assert list(restore_plan.visible_nodes(upper, lower.get, paths)) == paths
    assert upper.asked <= 3 * len(paths)
    assert list(restore_plan.visible_nodes(Asked(table(node("d/d", WHITEOUT))), lower.get, paths)) == ["d"]
    assert list(restore_plan.visible_nodes({}, Asked(lower | table(node("d/d/d"))).get, paths)) == ["d", "d/d", "d/d/d"]
