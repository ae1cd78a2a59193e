"""The changes in an upper, over random trees against a reference."""

from hypothesis import given

from agent_dev.fs.entry import WalkedEntry
from agent_dev.overlay.interpret import files_to_compare, interpret
from tests.harness import trees
from tests.harness.trees import Tree
from tests.unit.overlay.overlay_entries import read


def same_bytes(upper: list[WalkedEntry], base: Tree, agent: Tree) -> frozenset[bytes]:
    return frozenset(path for path in files_to_compare(upper, trees.entries(base)) if base[path].content == agent[path].content)


@given(trees.pairs())
def test_the_upper_of_any_two_trees_yields_their_differences(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    upper = trees.walked_entries(trees.upper_of(base, agent, noise))

    assert read(upper, trees.entries(base), same_bytes(upper, base, agent)) == trees.differences(base, agent)


@given(trees.pairs())
def test_an_agent_without_changes_leaves_no_change(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, _, noise = pair
    upper = trees.walked_entries(trees.upper_of(base, base, noise))

    assert read(upper, trees.entries(base), frozenset(files_to_compare(upper, trees.entries(base)))) == {}


@given(trees.pairs())
def test_a_requirement_of_a_change_is_itself_a_change(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    changes = interpret(0, trees.walked_entries(trees.upper_of(base, agent, noise)), trees.entries(base), frozenset())
    keys = {one.key for one in changes}

    assert all(keys.issuperset(one.requires) for one in changes)
