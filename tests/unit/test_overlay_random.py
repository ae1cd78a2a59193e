"""What an upper means, over random trees against a reference."""

from hypothesis import given

from agent_dev.overlay.interpret import Found, candidates, interpret
from tests.harness import trees
from tests.harness.trees import Tree
from tests.unit.overlay_entries import read


def same_bytes(upper: list[Found], base: Tree, agent: Tree) -> frozenset[bytes]:
    return frozenset(path for path in candidates(upper, trees.entries(base)) if base[path].content == agent[path].content)


@given(trees.pairs())
def test_reading_the_upper_of_any_two_trees_gives_back_their_differences(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    upper = trees.founds(trees.upper_of(base, agent, noise))

    assert read(upper, trees.entries(base), same_bytes(upper, base, agent)) == trees.differences(base, agent)


@given(trees.pairs())
def test_an_agent_that_changed_nothing_leaves_no_change(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, _, noise = pair
    upper = trees.founds(trees.upper_of(base, base, noise))

    assert read(upper, trees.entries(base), frozenset(candidates(upper, trees.entries(base)))) == {}


@given(trees.pairs())
def test_what_a_change_needs_is_a_change_itself(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    changes = interpret(0, trees.founds(trees.upper_of(base, agent, noise)), trees.entries(base), frozenset())
    keys = {one.key for one in changes}

    assert all(keys.issuperset(one.requires) for one in changes)
