"""Overlay attributes and devices in an upper: those that the kernel leaves are no change, forged ones are an error."""

from dataclasses import replace

import pytest

from agent_dev.fs.entry import CorruptUpperError, FileType
from agent_dev.overlay.interpret import files_to_compare
from tests.unit.overlay.overlay_entries import DEVICE, DIR, FIFO, FILE, LIVING, SYMLINK, WHITEOUT, base_of, entry_of, found, read

# --- copied up without a change ---


@pytest.mark.parametrize("kind", LIVING)
def test_a_file_only_copied_up_is_no_change(kind: FileType) -> None:
    upper = [found(b"x", kind, inode=77, mtime=5, ctime=6, links=3)]

    assert read(upper, {b"x": entry_of(kind)}, frozenset((b"x",))) == {}


@pytest.mark.parametrize("name", ["origin", "impure", "uuid", "nlink", "upper", "protattr", "overlay.opaque", "overlay.redirect"])
def test_common_overlay_attributes_are_ignored(name: str) -> None:
    one = replace(found(b"d", DIR), overlay=((name, b"\0\1"),))

    assert read([one], base_of(d=DIR)) == {}


def test_only_files_of_equal_size_are_compared_by_content() -> None:
    base = {name: entry_of(kind).with_values(size=3) for name, kind in ((b"a", FILE), (b"b", FILE), (b"c", SYMLINK), (b"d", DIR))}
    upper = [
        found(b"a", FILE, size=3),
        found(b"b", FILE, size=4),
        found(b"c", SYMLINK, size=3),
        found(b"d", DIR, size=3),
        found(b"e", FILE, size=3),
    ]

    assert files_to_compare(upper, base) == (b"a",)


# --- forged attributes and devices ---

FORGED = [
    ("opaque", b"x"),
    ("opaque", b"n"),
    ("opaque", b""),
    ("redirect", b"/etc"),
    ("metacopy", b""),
    ("whiteout", b"y"),
    ("xwhiteouts", b""),
    ("verity", b""),
    ("fileid", b"1"),
]


@pytest.mark.parametrize("mark", FORGED, ids=[f"{name}={value!r}" for name, value in FORGED])
@pytest.mark.parametrize("kind", [DIR, FILE, SYMLINK, WHITEOUT])
def test_an_overlay_attribute_that_our_mounts_never_write_is_an_error(mark: tuple[str, bytes], kind: FileType | str) -> None:
    forged = replace(found(b"d", kind), overlay=(mark,))

    with pytest.raises(CorruptUpperError, match=mark[0]):
        read([forged], base_of(d=DIR))


@pytest.mark.parametrize("kind", [FILE, SYMLINK, FIFO, WHITEOUT])
def test_only_a_directory_can_be_opaque(kind: FileType | str) -> None:
    forged = replace(found(b"d", kind), overlay=(("opaque", b"y"),))

    with pytest.raises(CorruptUpperError):
        read([forged], base_of(d=DIR))


def test_a_device_with_a_nonzero_number_is_no_whiteout() -> None:
    assert not found(b"x", DEVICE).is_whiteout()
    assert found(b"x", WHITEOUT).is_whiteout()
