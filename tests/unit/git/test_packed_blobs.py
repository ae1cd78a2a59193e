"""Packed changes of trees and of the index: the values that were packed are read, and other values are refused."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.git.formats.commit_format import TreeChange, parse_diff
from agent_dev.git.updates import NO_ENTRY, IndexUpdate

_MODE = st.sampled_from([0, 0o100644, 0o100755, 0o120000, 0o160000]) | st.integers(0, (1 << 32) - 1)
_ID = st.binary(min_size=20, max_size=20).map(bytes.hex) | st.binary(min_size=32, max_size=32).map(bytes.hex) | st.just("")
_PATH = st.binary(max_size=9)
CHANGES = st.fixed_dictionaries(
    {
        "path": _PATH,
        "old_mode": _MODE,
        "new_mode": _MODE,
        "old_oid": _ID,
        "new_oid": _ID,
        "status": st.sampled_from("ADMT"),
    }
)
UPDATES = st.fixed_dictionaries({"path": _PATH, "old": st.tuples(_MODE, _ID), "new": st.tuples(_MODE, _ID)})


@given(CHANGES)
def test_the_values_of_a_tree_change_are_read(values: dict[str, Any]) -> None:
    change = TreeChange(**values)
    assert {name: getattr(change, name) for name in values} == values
    assert pickle.loads(pickle.dumps(change)) == change.with_values() == change  # noqa: S301
    assert change.with_values(new_mode=0, new_oid="").old == change.old
    assert change.with_values(new_mode=0, new_oid="").new == NO_ENTRY


@given(UPDATES)
def test_the_values_of_an_index_update_are_read(values: dict[str, Any]) -> None:
    update = IndexUpdate(**values)
    assert {name: getattr(update, name) for name in values} == values
    assert pickle.loads(pickle.dumps(update)) == update.with_values() == update  # noqa: S301


@given(CHANGES, CHANGES)
def test_only_equal_values_are_equal_changes(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name, value in other.items():
        assert (TreeChange(**(one | {name: value})) == TreeChange(**one)) == (value == one[name])


@pytest.mark.parametrize("digits", [40, 64])
def test_the_output_of_git_is_parsed(digits: int) -> None:
    old, new = "0" * digits, "ab" * (digits // 2)
    (change,) = parse_diff(f":000000 100644 {old} {new} A\0d/new\0".encode())[""]
    assert change == TreeChange(b"d/new", 0, 0o100644, old, new, "A")
    assert (change.kind, change.path, change.old_oid, change.new_oid) == ("added", b"d/new", old, new)


@pytest.mark.parametrize(
    ("old", "new"), [((0, "none"), NO_ENTRY), (NO_ENTRY, (-1, "")), ((1 << 32, ""), NO_ENTRY), (NO_ENTRY, (0, "abc"))]
)
def test_values_that_git_cannot_have_are_refused(old: tuple[int, str], new: tuple[int, str]) -> None:
    with pytest.raises(ValueError, match=r"no blobs have|non-hexadecimal|fromhex"):
        IndexUpdate(b"f", old, new)
