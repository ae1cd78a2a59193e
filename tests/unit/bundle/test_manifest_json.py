"""The JSON of a manifest: its rows stay text, and every other text than the canonical one is noticed."""

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.bundle import manifest_json
from agent_dev.bundle.manifest_json import Rows
from agent_dev.fs import checksummed_json
from agent_dev.overlay import raw_json

_NAMES = st.text(max_size=4) | st.sampled_from(("", '"', "\udcff", "a/b", "roots", "entries"))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_ROOTS = st.lists(st.dictionaries(_NAMES, st.lists(_VALUES, max_size=4) | _VALUES, max_size=3) | _VALUES, max_size=3)
_MANIFESTS = st.dictionaries(_NAMES.filter(lambda name: name != "check"), _VALUES, min_size=1, max_size=4).flatmap(
    lambda value: st.builds(lambda roots: {**value, "roots": roots}, _ROOTS | _VALUES) | st.just(value)
)
ROWS = [{"path": f"{number}", "size": number} for number in range(2500)]
MANIFEST = {"format": "a", "roots": [{"name": "r", "entries": ROWS, "base": []}], "git": {"roots": [[1]]}}


def plain(value: Any) -> Any:
    """Return a manifest with lists in place of rows."""
    if not isinstance(value.get("roots"), list):
        return value
    roots = [
        {name: list(one) if isinstance(one, Rows) else one for name, one in root.items()} if isinstance(root, dict) else root
        for root in value["roots"]
    ]
    return {**value, "roots": roots}


@given(_MANIFESTS, st.sampled_from((1, 2, 7, 1 << 18)))
def test_a_manifest_is_read_and_written_as_json(value: dict[str, Any], size: int) -> None:
    data = checksummed_json.dumps(value)
    with mock.patch.object(raw_json, "_PART", size):
        found = manifest_json.loads(data)
    assert plain(found) == value
    assert manifest_json.dumps(found) == data
    assert manifest_json.is_canonical(data, found)


def test_lists_of_a_root_are_rows() -> None:
    root = manifest_json.loads(checksummed_json.dumps(MANIFEST))["roots"][0]
    assert isinstance(root["entries"], Rows)
    assert (len(root["entries"]), root["entries"][7], list(root["base"])) == (2500, ROWS[7], [])
    assert list(reversed(root["entries"])) == ROWS[::-1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"7"', '"\\u0037"'),  # in a row
        ('{"path"', '{ "path"'),
        ('},{"path":"9"', '},{"path":"9","path":"9"'),
        ('"base":[]', '"base":[],"base":[]'),
        ('{"format"', '{"git":1,"format"'),
        ('"roots":[{', '"roots":[],"roots":[{'),
        ("[[1]]", "[[ 1]]"),
    ],
)
def test_another_text_of_the_same_manifest_is_not_canonical(old: str, new: str) -> None:
    text = json.dumps(MANIFEST, separators=(",", ":"))
    assert old in text
    data = checksummed_json.add_checksum(text.replace(old, new, 1).encode())
    assert not manifest_json.is_canonical(data, manifest_json.loads(data))


def test_a_text_that_goes_on_is_not_canonical() -> None:
    data = checksummed_json.dumps(MANIFEST)
    assert not manifest_json.is_canonical(data + b" ", manifest_json.loads(data))
    assert not manifest_json.is_canonical(data[:-1], manifest_json.loads(data))


def test_every_cut_and_flipped_byte_is_refused() -> None:
    data = checksummed_json.dumps({"format": "a", "roots": [{"entries": [{"path": "x"}, 1], "base": []}], "blobs": {}})
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]):
            with pytest.raises(ValueError, match=r"."):
                manifest_json.loads(damaged)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"a" :1}',
        '{"roots":[{"base":[ ]}]}',
        '{"roots":[',
        '{"roots":[{]}',
        '{"roots":[{"a":[1}]}',
        '{"roots":[1,]}',
        '{"a":1}{}',
        "[]",
    ],
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        manifest_json.loads(checksummed_json.add_checksum(text.encode()))
