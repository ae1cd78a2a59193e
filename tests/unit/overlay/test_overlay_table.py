"""The changes in an upper relative to the base: the complete table of all pairs of entries."""

import pytest

from agent_dev.fs.entry import FileType, Key
from agent_dev.overlay.changes import ChangeKind
from agent_dev.overlay.interpret import interpret
from tests.unit.overlay.overlay_entries import (
    ADDED,
    DELETED,
    DEVICE,
    DIR,
    EDITED,
    FIFO,
    FILE,
    LIVING,
    METADATA,
    NOTHING,
    OPAQUE,
    RETYPED,
    SOCKET,
    SYMLINK,
    WHITEOUT,
    base_of,
    entry_of,
    found,
    read,
)

TABLE: dict[FileType | str, dict[FileType | str, ChangeKind | None]] = {
    NOTHING: {NOTHING: None, FILE: None, DIR: None, SYMLINK: None, FIFO: None, SOCKET: None, DEVICE: None},
    WHITEOUT: {NOTHING: None, FILE: DELETED, DIR: DELETED, SYMLINK: DELETED, FIFO: DELETED, SOCKET: DELETED, DEVICE: DELETED},
    OPAQUE: {NOTHING: ADDED, FILE: RETYPED, DIR: None, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: RETYPED},
    DIR: {NOTHING: ADDED, FILE: RETYPED, DIR: None, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: RETYPED},
    FILE: {NOTHING: ADDED, FILE: EDITED, DIR: RETYPED, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: RETYPED},
    SYMLINK: {NOTHING: ADDED, FILE: RETYPED, DIR: RETYPED, SYMLINK: EDITED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: RETYPED},
    FIFO: {NOTHING: ADDED, FILE: RETYPED, DIR: RETYPED, SYMLINK: RETYPED, FIFO: None, SOCKET: RETYPED, DEVICE: RETYPED},
    SOCKET: {NOTHING: ADDED, FILE: RETYPED, DIR: RETYPED, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: None, DEVICE: RETYPED},
    DEVICE: {NOTHING: ADDED, FILE: RETYPED, DIR: RETYPED, SYMLINK: RETYPED, FIFO: RETYPED, SOCKET: RETYPED, DEVICE: None},
}
PAIRS = [(upper, base, kind) for upper, row in TABLE.items() for base, kind in row.items()]


def test_the_table_has_a_row_for_each_pair() -> None:
    kinds = {NOTHING, *FileType}

    assert set(TABLE) == {WHITEOUT, OPAQUE, *kinds}
    assert all(set(row) == kinds for row in TABLE.values())


@pytest.mark.parametrize(("upper", "base", "kind"), PAIRS, ids=[f"{upper} over {base}" for upper, base, _ in PAIRS])
def test_each_pair_has_the_kind_of_the_table(upper: FileType | str, base: FileType | str, kind: ChangeKind | None) -> None:
    before = {} if base == NOTHING else {b"x": entry_of(FileType(base)).with_values(target=b"elsewhere")}
    above = [] if upper == NOTHING else [found(b"x", upper)]

    assert read(above, before) == ({} if kind is None else {b"x": kind})


@pytest.mark.parametrize(("upper", "base", "kind"), PAIRS, ids=[f"{upper} over {base}" for upper, base, _ in PAIRS])
def test_a_change_has_its_old_and_new_entry(upper: FileType | str, base: FileType | str, kind: ChangeKind | None) -> None:
    before = {} if base == NOTHING else {b"x": entry_of(FileType(base)).with_values(target=b"elsewhere")}
    above = [] if upper == NOTHING else [found(b"x", upper)]

    for change in interpret(3, above, before, frozenset()):
        assert change.key == Key(3, b"x")
        assert change.before == before.get(b"x")
        assert change.after == (None if upper == WHITEOUT else above[0].entry)


@pytest.mark.parametrize("kind", LIVING)
def test_only_sockets_and_devices_cannot_be_merged(kind: FileType) -> None:
    (change,) = interpret(0, [found(b"x", kind)], {}, frozenset())

    assert (change.obstacle is not None) == (kind in (SOCKET, DEVICE))


@pytest.mark.parametrize("kind", LIVING)
def test_any_deletion_can_be_merged(kind: FileType) -> None:
    (change,) = interpret(0, [found(b"x", WHITEOUT)], {b"x": entry_of(kind)}, frozenset())

    assert change.obstacle is None


@pytest.mark.parametrize("kind", [FILE, DIR, FIFO, SOCKET, DEVICE])
def test_a_mode_change_alone_is_metadata(kind: FileType) -> None:
    upper = [found(b"x", kind, mode=0o700)]

    assert read(upper, {b"x": entry_of(kind)}, frozenset((b"x",))) == {b"x": METADATA}


@pytest.mark.parametrize("kind", [FILE, DIR])
def test_an_attribute_change_alone_is_metadata(kind: FileType) -> None:
    upper = [found(b"x", kind, attributes=(("user.note", b"1"),))]

    assert read(upper, {b"x": entry_of(kind)}, frozenset((b"x",))) == {b"x": METADATA}


@pytest.mark.parametrize("bit", [0o4000, 0o2000, 0o1000])
def test_a_special_bit_is_shown_as_metadata(bit: int) -> None:
    upper = [found(b"x", FILE, mode=0o644 | bit)]

    assert read(upper, base_of(x=FILE), frozenset((b"x",))) == {b"x": METADATA}


def test_an_edit_with_a_mode_change_is_one_edit() -> None:
    assert read([found(b"x", FILE, mode=0o755)], base_of(x=FILE)) == {b"x": EDITED}


def test_a_symlink_is_compared_by_its_target_alone() -> None:
    upper = [found(b"x", SYMLINK, mode=0o755, mtime=9, inode=9)]

    assert read(upper, base_of(x=SYMLINK)) == {}
