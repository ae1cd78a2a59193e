"""Nested objects whose innermost values stay JSON text."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.fs import checksummed_json
from agent_dev.overlay import raw_json

_NAMES = st.text(st.characters(), max_size=4) | st.sampled_from(("", '"', "\udcff", "a/b", "{}"))
_ROWS = st.dictionaries(_NAMES, st.none() | st.lists(st.integers() | st.text(max_size=3), max_size=3), max_size=4)
_TREES = st.dictionaries(_NAMES.filter(lambda name: name != "check"), _ROWS, min_size=1, max_size=4)
TREE = {"0": {"a": [1, "x"], "b": None}, "1": {}}


def raw(tree: dict[str, dict[str, Any]]) -> dict[str, dict[str, bytes]]:
    """Return the objects with their innermost values as compact JSON."""
    return {
        name: {key: json.dumps(row, separators=(",", ":")).encode() for key, row in rows.items()} for name, rows in tree.items()
    }


def written(path: Path, tree: "raw_json.Tree") -> bytes:
    raw_json.replace_file(str(path), tree, lambda: None)
    return path.read_bytes()


def test_a_file_is_that_of_checksummed_json(tmp_path: Path) -> None:
    assert written(tmp_path / "file", raw(TREE)) == checksummed_json.dumps(TREE)


@given(_TREES)
def test_objects_are_read_as_json_reads_them(tree: dict[str, dict[str, Any]]) -> None:
    data = checksummed_json.dumps(tree)
    for size in (1, 2, 7, 1 << 18):
        with mock.patch.object(raw_json, "_PART", size):
            assert raw_json.loads(data) == raw(tree)
            for skipped in tree:
                assert {name: dict(rows) for name, rows in raw_json.iterate(BytesIO(data)) if name != skipped} == {
                    name: rows for name, rows in raw(tree).items() if name != skipped
                }


def test_pairs_are_written_while_they_are_made(tmp_path: Path) -> None:
    pairs = ((f"{number}", b"%d" % number) for number in range(2500))
    data = written(tmp_path / "file", {"0": pairs})
    assert checksummed_json.loads(data) == {"0": {f"{number}": number for number in range(2500)}}


def test_the_old_file_stays_until_the_replacement_is_prepared(tmp_path: Path) -> None:
    written(tmp_path / "file", raw(TREE))

    def fail() -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        raw_json.replace_file(str(tmp_path / "file"), {"0": b"1"}, fail)
    assert (tmp_path / "file").read_bytes() == checksummed_json.dumps(TREE)


@pytest.mark.parametrize(
    "text",
    [b'{"a":1}', b'{"a":{"b":1}', b'{"a":{"b":1}}x', b'{"a":{b:1}}', b'{"a":[1]}', b'{"a":{"b":}}', b'{"a":{"b" 1}}', b'{"a"'],
)
def test_another_text_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        raw_json.loads(checksummed_json.add_checksum(text))


def test_every_cut_and_flipped_byte_is_refused() -> None:
    data = checksummed_json.dumps(TREE)
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]):
            with pytest.raises(ValueError, match=r"."):
                raw_json.loads(damaged)
