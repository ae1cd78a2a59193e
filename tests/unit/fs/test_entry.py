"""Packed entries: the values that were packed are read, equal values are equal entries, and other values are refused."""

import copy
import pickle
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_dev.fs.entry import TYPE_BY_CODE, Entry, FileType, number_columns

_UINT64 = st.integers(0, (1 << 64) - 1)
_TIME = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-(1 << 95), 1 << 95)
_NAME = st.text(st.characters(), max_size=9) | st.just("user.\udcff")
VALUES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(FileType),
        "mode": st.integers(0, 0o7777),
        "size": _UINT64,
        "inode": _UINT64,
        "mtime": _TIME,
        "ctime": _TIME,
        "links": st.integers(0, (1 << 32) - 1),
        "target": st.binary(max_size=5),
        "attributes": st.lists(st.tuples(_NAME, st.binary(max_size=4)), max_size=2).map(tuple),
    }
)
SMALLEST: dict[str, Any] = {"type": FileType.FILE, "mtime": -(1 << 63), "ctime": -(1 << 63) - 1}
LARGEST: dict[str, Any] = {"type": FileType.SYMLINK, "mtime": (1 << 63) - 1, "ctime": 1 << 63, "target": b"there"}


@given(VALUES)
@example(SMALLEST)
@example(LARGEST)
def test_the_packed_values_are_read(values: dict[str, Any]) -> None:
    entry = Entry(**values)
    assert {name: getattr(entry, name) for name in values} == values
    assert entry.stat_numbers == (entry.inode, entry.size, entry.mtime, entry.ctime)
    assert copy.deepcopy(entry) == pickle.loads(pickle.dumps(entry)) == entry.with_values() == entry  # noqa: S301


@given(VALUES, VALUES)
def test_only_equal_values_are_equal_entries(one: dict[str, Any], other: dict[str, Any]) -> None:
    equal = copy.deepcopy(one)  # no value is the same object: whether values are shared makes no difference
    equal["attributes"] = tuple(("".join([*name]), bytes([*value])) for name, value in equal["attributes"])
    assert Entry(**equal) == Entry(**one)
    assert hash(Entry(**equal)) == hash(Entry(**one))
    assert (Entry(**other) == Entry(**one)) == (other == one)
    for name, value in other.items():
        assert (Entry(**(one | {name: value})) == Entry(**one)) == (value == one[name])


@given(st.lists(VALUES))
@example([SMALLEST, LARGEST, {"type": FileType.FILE}])
def test_what_fits_into_columns_is_in_them(all_values: list[dict[str, Any]]) -> None:
    entries = [one for values in all_values if (one := Entry(**values)).fits_columns]
    assert len(entries) == sum(_fits_columns(values) for values in all_values)
    columns = number_columns(entries)
    assert [tuple(column[place] for column in columns) for place in range(len(entries))] == [
        (TYPE_BY_CODE.index(one.type), *one.stat_numbers, one.mode, one.links) for one in entries
    ]


def _fits_columns(values: dict[str, Any]) -> bool:
    return not values.get("attributes") and all(-(1 << 63) <= values.get(name, 0) < 1 << 63 for name in ("mtime", "ctime"))


@pytest.mark.parametrize("time", [0, -1, 1 << 63, -(1 << 63) - 1])
def test_times_that_are_packed_alike_are_different_identities(time: int) -> None:
    for other in (time + (1 << 64), time - (1 << 64)):
        one = Entry(FileType.FILE, mtime=time, ctime=time)
        assert one.with_values(ctime=other).identity != one.identity
        assert one.with_values(mtime=other).identity != one.identity
        assert one.with_values(mtime=other).content_identity != one.content_identity
        for same in (one.with_values(ctime=other), one.with_values(ctime=5, attributes=(("user.a", b"b"),), links=2)):
            assert same.content_identity == one.content_identity


@pytest.mark.parametrize(
    "values",
    [{"size": -1}, {"inode": 1 << 64}, {"mode": 1 << 16}, {"links": -1}, {"mtime": "now"}, {"ctime": 1.5}, {"size": "large"}],
    ids=str,
)
def test_values_that_no_entry_has_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no entry has these values"):
        Entry(FileType.FILE, **values)


def test_an_entry_is_shown_with_its_values() -> None:
    entry = Entry(FileType.SYMLINK, size=5, target=b"there")
    assert str(entry) == repr(entry)
    assert "type=<FileType.SYMLINK: 'symlink'>, mode=420, size=5" in repr(entry)
    assert "target=b'there'" in repr(entry)


@given(VALUES)
def test_a_plain_entry_has_one_link_and_nothing_else(values: dict[str, Any]) -> None:
    is_usual = all(-(1 << 63) <= values[name] < 1 << 63 for name in ("mtime", "ctime"))
    is_plain = values["links"] == 1 and not values["target"] and not values["attributes"] and is_usual
    assert Entry(**values).is_plain == is_plain
