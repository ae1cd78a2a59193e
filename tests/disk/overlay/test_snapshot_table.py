"""The table of a lower snapshot round-trips, older manifests are read, and unreadable ones are reported."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_dev.fs import checksummed_json, fast_json
from agent_dev.fs.entry import Entry, FileType
from agent_dev.overlay import lower_snapshot, lower_snapshot_request, lower_snapshot_table, lower_snapshot_take
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.overlay.lower_snapshot_row import Row, recorded_path

_NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\0/") | st.sampled_from("\udc80\udcff\n"), min_size=1, max_size=8
)
_LARGEST = 2**64 - 1
_U64 = st.integers(0, _LARGEST)
_TIMES = st.integers(-(2**63), 2**63 - 1) | st.just(2**63) | st.just(13_569_465_600 * 10**9)  # the last: the year 2400
_PLACES = st.sampled_from(("", "1f-2a", "@0:" + "ab" * 20, "@12:" + "cd" * 32))
_FEW = st.sampled_from("abc")
_REST = (
    st.sampled_from([str(kind) for kind in FileType]),
    st.integers(0, 0o7777),
    _U64,
    _U64,
    _TIMES,
    _TIMES,
    st.integers(0, 2**32 - 1),
    _NAMES | st.just(""),
    _PLACES,
)
_ATTRIBUTES = st.lists(st.tuples(_NAMES, st.binary(max_size=3).map(bytes.hex)).map(list), max_size=2)
_ROWS, _COLLIDING = (
    st.tuples(names, *_REST, _ATTRIBUTES).map(list) | st.tuples(names, *_REST).map(list) for names in (_NAMES, _FEW)
)
_TABLES, _PAIRS_OF_TABLES = (st.lists(rows, unique_by=lambda row: row[0], max_size=6) for rows in (_ROWS, _COLLIDING))


def bytes_of(tables: list[list[Row]], **about: object) -> bytes:
    return lower_snapshot.encode_manifest(
        {"complete": True, "stores": [], "program": "git", **about},
        [lower_snapshot_table.pack(map(recorded_path, rows)) for rows in tables],
    )


def read(folder: Path, data: bytes) -> LowerSnapshot:
    (folder / "manifest").write_bytes(data)
    return LowerSnapshot(str(folder))


def stored(rows: Iterable[Row | None]) -> list[bytes]:
    return sorted(os.fsencode(str(row[0])) for row in rows if row and str(row[9])[:1] not in ("", "@"))


def table_of(rows: Iterable[Row]) -> lower_snapshot_table.Table:
    return lower_snapshot_table.table_of(map(recorded_path, rows))


def rows_of(table: lower_snapshot_table.Table) -> list[Row]:
    return [table.row(path) for path in table]


@given(_TABLES, _TABLES)
@example([], [["a", "file", 0o7777, _LARGEST, _LARGEST, -(2**63), 2**63 - 1, 2**32 - 1, "", "", []]])
def test_rows_round_trip_whatever_their_names_and_numbers(one: list[Row], other: list[Row]) -> None:
    for rows, batch in ((one, 2), (other, 5000)):
        with mock.patch.object(lower_snapshot_table, "_BATCH", batch):
            table = table_of(rows)
        assert sorted(rows_of(table), key=repr) == sorted(rows, key=repr)
        assert len(table) == len(rows)
        assert sorted(table.stored_paths()) == stored(rows)
        assert [table.content_location(os.fsencode(str(row[0]))) for row in rows] == [row[9] for row in rows]
        assert [table.knows_attributes(os.fsencode(str(row[0]))) for row in rows] == [len(row) > 10 for row in rows]


@given(_TABLES | _PAIRS_OF_TABLES, _PAIRS_OF_TABLES, st.lists(_NAMES | _FEW), st.integers(0, 4))
def test_searches_without_an_index_find_the_same(rows: list[Row], others: list[Row], names: list[str], searches: int) -> None:
    found = []
    for limit in (searches, 0):
        table = table_of(rows)
        paths = [os.fsencode(str(row[0])) for row in (*rows, *others)] + list(map(os.fsencode, names))
        with mock.patch.object(lower_snapshot_table, "_MAX_SEARCHES", limit):
            first = [(path in table, table.fields(path), table.content_location(path)) for path in paths]
            table.override((str(row[0]), fast_json.dumps(row)) for row in others)
            found.append((first, [(path in table, table.fields(path), table.knows_attributes(path)) for path in paths]))
    assert found[0] == found[1]


@given(_TABLES | _PAIRS_OF_TABLES, _PAIRS_OF_TABLES, st.lists(_FEW), st.lists(_NAMES | _FEW | st.just("")))
def test_many_paths_are_looked_up_at_once(rows: list[Row], others: list[Row], gone: list[str], names: list[str]) -> None:
    table = table_of(rows)
    over: dict[str, Row | None] = {str(row[0]): row for row in others} | dict.fromkeys(gone)
    table.override((name, fast_json.dumps(row)) for name, row in over.items())
    paths = {os.fsencode(str(row[0])) for row in (*rows, *others)} | {*map(os.fsencode, (*names, *gone))}
    without_index = table.existing(paths)
    assert without_index == {path for path in paths if path in [*table]}  # makes an index
    assert table.existing(paths) == without_index


def test_many_paths_are_looked_up_without_an_index() -> None:
    table = table_of([[f"f{number}", *ROWS[0][1:]] for number in range(20)])
    with mock.patch.object(lower_snapshot_table.Table, "_at", mock.PropertyMock(side_effect=AssertionError)):
        assert table.existing([b"f%d" % number for number in range(10, 30)]) == {b"f%d" % number for number in range(10, 20)}


def test_a_few_searches_make_no_index() -> None:
    table = table_of([[f"f{number}", *ROWS[0][1:]] for number in range(20)])
    with mock.patch.object(lower_snapshot_table.Table, "_at", mock.PropertyMock(side_effect=AssertionError)):
        assert [table.content_location(b"f%d" % number) for number in (3, 19, 0, 3)] == ["1f-2a"] * 4
        assert b"none" not in table
        assert b"" not in table_of([])
        assert [*table.links(), *table.files_of_sizes([4])] == []
        assert [path for path, _ in table.files_of_sizes([3])] == [b"f%d" % number for number in range(20)]


@given(_PAIRS_OF_TABLES, _PAIRS_OF_TABLES, st.lists(_FEW), st.sampled_from(("kept", "released")))
def test_rows_set_over_a_table_replace_those_below(rows: list[Row], others: list[Row], gone: list[str], index: str) -> None:
    table = table_of(rows)
    over: dict[str, Row | None] = {str(row[0]): row for row in others} | dict.fromkeys(gone)
    table.override((name, fast_json.dumps(row)) for name, row in over.items())
    if index == "released":
        table.release_index()
    expected = {str(row[0]): row for row in rows} | over
    assert sorted(table.stored_paths()) == stored(expected.values())
    assert {os.fsdecode(path): table.row(path) for path in table} == {name: row for name, row in expected.items() if row}
    assert all((os.fsencode(name) in table) == (row is not None) for name, row in expected.items())
    assert [table.content_location(os.fsencode(name)) for name in expected] == [
        row[9] if row else "" for row in expected.values()
    ]


ROWS: list[Row] = [
    ["a", "file", 0o644, 3, 7, 8, 9, 1, "", "1f-2a", []],
    ["b", "symlink", 0o777, 1, 10, 11, 13_569_465_600 * 10**9, 1, "a", "", []],
    ["c", "dir", 0o755, 1, 12, 13, 14, 2, "", "", [["user.a", "00ff"]]],
]


def test_a_manifest_round_trips(tmp_path: Path) -> None:
    one = read(tmp_path, bytes_of([ROWS, []]))
    assert dict(one.entries(0)) == {
        b"a": Entry(FileType.FILE, 0o644, 3, 7, 8, 9, 1),
        b"b": Entry(FileType.SYMLINK, 0o777, 1, 10, 11, 13_569_465_600 * 10**9, 1, b"a"),
        b"c": Entry(FileType.DIRECTORY, 0o755, 1, 12, 13, 14, 2, attributes=(("user.a", b"\0\xff"),)),
    }
    assert (one.stored_path(0, b"a"), one.stored_path(0, b"b"), len(one.entries(1)), one.notes) == (
        f"{tmp_path}/content/1f-2a",
        None,
        0,
        (),
    )


def test_an_unloaded_snapshot_is_read_again(tmp_path: Path) -> None:
    one = read(tmp_path, bytes_of([ROWS, []]))
    before = dict(one.entries(0))
    one.unload()
    assert dict(one.entries(0)) == before
    one.unload()
    (tmp_path / "manifest").unlink()
    assert one.row(0, b"a") is None


def test_a_manifest_of_version_3_has_no_attributes(tmp_path: Path) -> None:
    newer = bytes_of([[row[:10] for row in ROWS]], version=3).replace(b',"attributes":true', b"")
    one = read(tmp_path, checksummed_json.add_checksum(b"{" + newer.partition(b",")[2]))
    assert dict(one.entries(0)).keys() == {b"a", b"b", b"c"}
    assert not any(one.knows_attributes(0, path) for path in one.entries(0))


@pytest.mark.parametrize(
    "data",
    [
        bytes_of([ROWS])[:-1],
        bytes_of([ROWS], version=99),
        bytes_of([ROWS]).replace(b'"count":1', b'"count":2'),
        bytes_of([ROWS])[:-1] + b"x",
    ],
    ids=["torn", "newer", "another number", "another byte at the end"],
)
def test_an_unreadable_manifest_is_reported_and_gives_no_lower_snapshot(tmp_path: Path, data: bytes) -> None:
    assert data != bytes_of([ROWS])
    one = read(tmp_path, data)
    assert not one.exists()
    assert [note for note in one.notes if "another version of agent-dev" in note] == list(one.notes) != []


def test_a_file_with_a_time_in_2400_has_a_base_version(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    far = tmp_path / "root/far"
    far.write_bytes(b"far\n")
    os.utime(far, ns=(0, 13_569_465_600 * 10**9))
    lower_snapshot_take.take_snapshot(
        str(tmp_path / "base"), lower_snapshot_request.SnapshotRequest(roots=(str(tmp_path / "root"),))
    )
    entry, status = LowerSnapshot(str(tmp_path / "base")).entries(0)[b"far"], far.lstat()
    assert (entry.mtime, entry.inode, entry.mode) == (status.st_mtime_ns, status.st_ino, stat.S_IMODE(status.st_mode))
