"""A checkpoint's table comes back from its bytes as it was."""

import marshal

from hypothesis import given
from hypothesis import strategies as st

from agent_dev.core import history
from agent_dev.core.history import Node
from agent_dev.host import node_table

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from("\udc80\udcff"), max_size=8)
_U32, _U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
_I64 = st.integers(-(2**63), 2**63 - 1)
_NODES = st.builds(
    Node,
    _NAMES,
    st.sampled_from((history.FILE, history.WHITEOUT)),
    _U32,
    _I64,
    _I64,
    _U32,
    _U32,
    _NAMES,
    _NAMES,
    _U64,
    _U64,
    _I64,
)


@given(st.lists(_NODES, unique_by=lambda node: node.path))
def test_nodes_come_back_whatever_their_names_and_numbers(nodes: list[Node]) -> None:
    assert node_table.decode(node_table.encode(nodes)) == {node.path: node for node in nodes}


@given(st.lists(_NODES, unique_by=lambda node: node.path))
def test_tables_of_the_first_version_are_read(nodes: list[Node]) -> None:
    assert node_table.decode(marshal.dumps([tuple(node) for node in nodes], 4)) == {node.path: node for node in nodes}
