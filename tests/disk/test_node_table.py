"""A checkpoint's table comes back from its bytes as it was, and two tell the same of what differs as a whole comparison does."""

import marshal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.checkpoint import node_table
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.node_table import ROOT, Pieces
from agent_dev.checkpoint.restore_plan import Node

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/") | st.sampled_from("\udc80\udcff"), min_size=1, max_size=8)
_KINDS = st.sampled_from((history.FILE, history.WHITEOUT, history.DIRECTORY))
_U32, _U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
_I64 = st.integers(-(2**63), 2**63 - 1)
_TIME = st.integers(-(2**63), 2**65)  # ns: past the year 2262 it has more than 64 bits
_NODES = st.builds(
    Node, _NAMES, _KINDS, _U32, _I64, _TIME, _U32, _U32, _NAMES | st.just(""), _NAMES | st.just(""), _U64, _U64, _I64
)
_TWINS = st.builds(
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
    """Put nodes into three directories and the root."""
    placed: dict[str, list[Node]] = {ROOT: [], "": [], "a": [], "a/b": []}
    for number, node in enumerate(nodes):
        folder = (*placed,)[number % 4]
        name = {ROOT: "", "": node.path}.get(folder, f"{folder}/{node.path}")
        if folder != ROOT or not placed[ROOT]:
            placed[folder].append(node._replace(path=name))
    return {folder: node_table.packed(found) for folder, found in placed.items()}


def table(pieces: Pieces) -> dict[str, Node]:
    return node_table.nodes(node_table.decode(node_table.encode(pieces)))


@given(st.lists(_NODES, unique_by=lambda node: node.path))
def test_nodes_come_back_whatever_their_names_and_numbers(nodes: list[Node]) -> None:
    found = node_table.unpacked(node_table.packed([node._replace(path=f"in/{node.path}") for node in nodes]))
    assert [node._replace(path=node.path[3:]) for node in found.nodes("in")] == nodes
    assert (found.number, found.files) == (len(nodes), sum(node.kind == history.FILE for node in nodes))
    assert found.size == sum(node.size for node in nodes if node.kind == history.FILE)
    assert list(found.folders()) == [node.path for node in nodes if node.kind == history.DIRECTORY]


@pytest.mark.parametrize("field", ["name", "st_ctime_ns", "st_ino", "st_size", "st_nlink"])
def test_a_directory_is_as_before_only_while_all_is_that_tells_of_a_change(field: str) -> None:
    before = SimpleNamespace(name="a", st_ctime_ns=1, st_ino=2, st_size=3, st_nlink=4)
    after = SimpleNamespace(**vars(before) | {field: "b" if field == "name" else 9})
    own = Node("in/a", history.FILE, 0o644, 3, 0, 0, 0, "x", "", 2, 4, 1)
    piece = node_table.unpacked(node_table.packed((own, own._replace(path="in/z"))))
    assert piece.holds("a\0z", (before, before))
    assert not piece.holds(f"{after.name}\0z", (after, before))


@given(st.lists(_NODES, unique_by=lambda node: node.path))
def test_tables_of_the_first_version_are_read(nodes: list[Node]) -> None:
    wanted = table(of(nodes))
    assert table(node_table.decode(marshal.dumps([tuple(node) for node in wanted.values()], 4))) == wanted


@given(st.lists(_TWINS, max_size=12), st.lists(_TWINS, max_size=12))
def test_what_is_unlike_tells_the_same_restore_as_all_of_it(before: list[Node], after: list[Node]) -> None:
    one, other = of(before), of(after)
    assert history.restoring(*node_table.to_restore(one, other)) == history.restoring(table(one), table(other))
    assert history.changed(*node_table.unlike(one, other)) == history.changed(table(one), table(other))
