"""The table of a checkpoint round-trips, and the difference of two tables restores the same as a comparison of all nodes."""

import marshal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.checkpoint import node_table, restore_plan
from agent_dev.checkpoint.node_table import ROOT, Pieces
from agent_dev.checkpoint.restore_plan import Node

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/") | st.sampled_from("\udc80\udcff"), min_size=1, max_size=8)
_KINDS = st.sampled_from((restore_plan.FILE, restore_plan.WHITEOUT, restore_plan.DIRECTORY))
_U32, _U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
_I64 = st.integers(-(2**63), 2**63 - 1)
_TIME = st.integers(-(2**63), 2**65)  # in ns; after the year 2262 it needs more than 64 bits
_NODES = st.builds(
    Node, _NAMES, _KINDS, _U32, _I64, _TIME, _U32, _U32, _NAMES | st.just(""), _NAMES | st.just(""), _U64, _U64, _I64
)
_COLLIDING = st.builds(
    Node,
    st.sampled_from("abcd"),
    _KINDS,
    *(st.just(0),) * 5,
    st.sampled_from("xy"),
    st.just(""),
    *(st.integers(1, 2),) * 2,
    st.just(0),
)


def of(nodes: list[Node]) -> Pieces:
    """Distribute nodes over three directories and the root; return the encoded tables."""
    placed: dict[str, list[Node]] = {ROOT: [], "": [], "a": [], "a/b": []}
    for number, node in enumerate(nodes):
        folder = (*placed,)[number % 4]
        name = {ROOT: "", "": node.path}.get(folder, f"{folder}/{node.path}")
        if folder != ROOT or not placed[ROOT]:
            placed[folder].append(node._replace(path=name))
    return {folder: node_table.encode_piece(found) for folder, found in placed.items()}


def table(pieces: Pieces) -> dict[str, Node]:
    return node_table.all_nodes(node_table.decode_table(node_table.encode_table(pieces)))


@given(st.lists(_NODES, unique_by=lambda node: node.path))
def test_nodes_round_trip_whatever_their_names_and_numbers(nodes: list[Node]) -> None:
    found = node_table.decode_piece(node_table.encode_piece([node._replace(path=f"in/{node.path}") for node in nodes]))
    assert [node._replace(path=node.path[3:]) for node in found.nodes("in")] == nodes
    assert (found.node_count, found.files) == (len(nodes), sum(node.kind == restore_plan.FILE for node in nodes))
    assert found.size == sum(node.size for node in nodes if node.kind == restore_plan.FILE)
    assert list(found.folder_names()) == [node.path for node in nodes if node.kind == restore_plan.DIRECTORY]


@pytest.mark.parametrize("field", ["name", "st_ctime_ns", "st_ino", "st_size", "st_nlink"])
def test_a_directory_is_unchanged_only_if_its_whole_stat_is_equal(field: str) -> None:
    before = SimpleNamespace(name="a", st_ctime_ns=1, st_ino=2, st_size=3, st_nlink=4)
    after = SimpleNamespace(**vars(before) | {field: "b" if field == "name" else 9})
    own = Node("in/a", restore_plan.FILE, 0o644, 3, 0, 0, 0, "x", "", 2, 4, 1)
    piece = node_table.decode_piece(node_table.encode_piece((own, own._replace(path="in/z"))))
    assert piece.is_current("a\0z", (before, before))
    assert not piece.is_current(f"{after.name}\0z", (after, before))


@given(st.lists(_NODES, unique_by=lambda node: node.path))
def test_tables_of_version_1_are_read(nodes: list[Node]) -> None:
    wanted = table(of(nodes))
    assert table(node_table.decode_table(marshal.dumps([tuple(node) for node in wanted.values()], 4))) == wanted


@given(st.lists(_COLLIDING, max_size=12), st.lists(_COLLIDING, max_size=12))
def test_the_difference_alone_yields_the_same_restore_as_the_whole(before: list[Node], after: list[Node]) -> None:
    one, other = of(before), of(after)
    assert restore_plan.plan_restore(*node_table.nodes_to_compare(one, other)) == restore_plan.plan_restore(
        table(one), table(other)
    )
    assert node_table.changed_paths(one, other) == restore_plan.changed_paths(table(one), table(other))
