"""A base's table comes back from its bytes as it was, older manifests are read, and what cannot be read is said."""

import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.fs import fast_json as quick_json
from agent_dev.overlay import lower_snapshot as base
from agent_dev.overlay import lower_snapshot_table as base_table
from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.overlay.changes import Entry, FileType
from agent_dev.overlay.lower_snapshot import Base
from agent_dev.overlay.lower_snapshot_table import Row

_NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\0/") | st.sampled_from("\udc80\udcff\n"), min_size=1, max_size=8
)
_U64 = st.integers(0, 2**64 - 1)
_TIMES = st.integers(-(2**63), 2**63 - 1) | st.just(2**63) | st.just(13_569_465_600 * 10**9)  # the last: the year 2400
_PLACES = st.sampled_from(("", "1f-2a", "@0:" + "ab" * 20, "@12:" + "cd" * 32))
_FEW = st.sampled_from("abc")
_REST = (
    st.sampled_from([str(kind) for kind in FileType]),
    st.integers(0, 0o7777),
    st.integers(0, 2**63 - 1),
    _U64,
    _TIMES,
    _TIMES,
    _U64,
    _NAMES | st.just(""),
    _PLACES,
)
_ROWS, _TWINS = (st.tuples(names, *_REST).map(list) for names in (_NAMES, _FEW))
_TABLES, _TWIN_TABLES = (st.lists(rows, unique_by=lambda row: row[0], max_size=6) for rows in (_ROWS, _TWINS))


def bytes_of(tables: list[list[Row]], **about: object) -> bytes:
    return b"".join(base.encoded({"complete": True, "stores": [], "program": "git", **about}, tables))


def first_version(tables: list[list[Row]]) -> bytes:
    """Return a manifest as agent-dev wrote it before it wrote columns."""
    return quick_json.dumps({"version": 1, "complete": True, "roots": tables, "stores": [], "program": "git"})


def read(folder: Path, data: bytes) -> Base:
    (folder / "manifest").write_bytes(data)
    return Base(str(folder))


def rows_of(table: base_table.Table) -> list[Row]:
    return [table.row(path) for path in table]


@given(_TABLES, _TABLES)
def test_rows_come_back_whatever_their_names_and_numbers(one: list[Row], other: list[Row]) -> None:
    for rows in (one, other):
        table = base_table.of_rows(rows)
        assert sorted(rows_of(table), key=repr) == sorted(rows, key=repr)
        assert len(table) == len(rows)
        assert [table.stored(os.fsencode(str(row[0]))) for row in rows] == [row[9] for row in rows]


@given(_TWIN_TABLES, _TWIN_TABLES, st.lists(_FEW))
def test_what_is_set_over_a_table_stands_in_place_of_what_was_there(rows: list[Row], others: list[Row], gone: list[str]) -> None:
    table = base_table.of_rows(rows)
    over: dict[str, Row | None] = {str(row[0]): row for row in others} | dict.fromkeys(gone)
    table.set_over(over)
    expected = {str(row[0]): row for row in rows} | over
    assert {os.fsdecode(path): table.row(path) for path in table} == {name: row for name, row in expected.items() if row}
    assert all((os.fsencode(name) in table) == (row is not None) for name, row in expected.items())
    assert [table.stored(os.fsencode(name)) for name in expected] == [row[9] if row else "" for row in expected.values()]


ROWS: list[Row] = [
    ["a", "file", 0o644, 3, 7, 8, 9, 1, "", "1f-2a"],
    ["b", "symlink", 0o777, 1, 10, 11, 13_569_465_600 * 10**9, 1, "a", ""],
]


@pytest.mark.parametrize("write", [bytes_of, first_version])
def test_a_manifest_of_either_version_says_the_same(tmp_path: Path, write: object) -> None:
    one = read(tmp_path, write([ROWS, []]))  # type: ignore[operator]
    assert dict(one.entries(0)) == {
        b"a": Entry(FileType.FILE, 0o644, 3, 7, 8, 9, 1),
        b"b": Entry(FileType.SYMLINK, 0o777, 1, 10, 11, 13_569_465_600 * 10**9, 1, b"a"),
    }
    assert (one.stored(0, b"a"), one.stored(0, b"b"), len(one.entries(1)), one.notes) == (
        f"{tmp_path}/content/1f-2a",
        None,
        0,
        (),
    )


@pytest.mark.parametrize(
    "data",
    [
        bytes_of([ROWS])[:-1],
        bytes_of([ROWS]).replace(b'"version":2', b'"version":3'),
        bytes_of([ROWS]).replace(b'"count":1', b'"count":2'),
        bytes_of([ROWS]).replace(b'"sizes":[1,1', b'"sizes":[1,0'),
        re.sub(rb'"sizes":\[[^]]*\]', b'"sizes":[]', bytes_of([ROWS])),
    ],
    ids=["torn", "newer", "another number", "another length", "no columns"],
)
def test_a_manifest_that_cannot_be_read_is_no_base_and_said(tmp_path: Path, data: bytes) -> None:
    assert data != bytes_of([ROWS])
    one = read(tmp_path, data)
    assert not one.is_known()
    assert [note for note in one.notes if "another version of agent-dev" in note] == list(one.notes) != []


def test_a_file_of_the_year_2400_has_a_base(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    far = tmp_path / "root/far"
    far.write_bytes(b"far\n")
    os.utime(far, ns=(0, 13_569_465_600 * 10**9))
    base_take.take(str(tmp_path / "base"), base_take.Wish(roots=(str(tmp_path / "root"),)))
    entry, status = Base(str(tmp_path / "base")).entries(0)[b"far"], far.lstat()
    assert (entry.mtime, entry.inode, entry.mode) == (status.st_mtime_ns, status.st_ino, stat.S_IMODE(status.st_mode))
