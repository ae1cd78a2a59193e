"""Modes, times, attributes, holes and bytes of a file that a merge copies from the session: which are kept, which are dropped."""

import os
import struct

import pytest

from agent_dev.fs.entry import FileType
from tests.disk.merge_engine.apply_world import OTHERS, SORTS, World, place
from tests.harness.trees import DIRECTORY, FIFO, FILE, SYMLINK, Node

MIB = 1 << 20


@pytest.mark.parametrize("kind", [FILE, DIRECTORY, FIFO])
@pytest.mark.parametrize("bits", [0o4000, 0o2000, 0o1000, 0o7000])
def test_special_bits_are_never_applied(world: World, kind: FileType, bits: int) -> None:
    place(world.upper, {"x": SORTS[kind]})
    (world.upper / "x").chmod(bits | 0o755)
    world.apply(world.add("x"))

    assert (world.real / "x").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o444, 0o777])
def test_a_mode_is_applied_regardless_of_the_umask(world: World, mode: int) -> None:
    place(world.upper, {"x": Node(FILE, b"x", mode)})
    before = os.umask(0o077)
    try:
        world.apply(world.add("x"))
    finally:
        os.umask(before)

    assert (world.real / "x").stat().st_mode & 0o7777 == mode


def test_a_files_mtime_is_applied_to_the_nanosecond(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    os.utime(world.upper / "x", ns=(1, 1_234_567_890_123_456_789))
    world.apply(world.add("x"))

    assert (world.real / "x").stat().st_mtime_ns == 1_234_567_890_123_456_789


@pytest.mark.parametrize("kind", [SYMLINK, FIFO])
@pytest.mark.parametrize("is_replacing", [True, False])
def test_the_mtime_of_a_symlink_or_fifo_is_applied_to_the_nanosecond(world: World, kind: FileType, *, is_replacing: bool) -> None:
    if is_replacing:
        place(world.real, {"x": OTHERS[kind]})
    place(world.upper, {"x": SORTS[kind]})
    os.utime(world.upper / "x", ns=(1, 1_234_567_890_123_456_789), follow_symlinks=False)
    world.apply(world.put("x") if is_replacing else world.add("x"))

    assert (world.real / "x").lstat().st_mtime_ns == 1_234_567_890_123_456_789


def test_own_attributes_are_applied_and_the_overlays_are_not(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    for name in ("user.note", "user.overlay.origin", "user.overlay.overlay.opaque"):
        os.setxattr(world.upper / "x", name, b"1")
    world.apply(world.add("x"))

    assert os.listxattr(world.real / "x") == ["user.note"]


ACCESS = [(0x01, 6, -1), (0x02, 6, 1), (0x04, 4, -1), (0x10, 6, -1), (0x20, 4, -1)]  # acl(5): tag, permissions, id


@pytest.mark.parametrize("links", [1, 2], ids=["moved", "copied"])
def test_an_acl_of_the_agent_is_not_applied(world: World, links: int) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    entries = b"".join(struct.pack("<HHi", *entry) for entry in ACCESS)
    os.setxattr(world.upper / "x", "system.posix_acl_access", struct.pack("<I", 2) + entries)
    if links == 2:
        os.link(world.upper / "x", world.upper / "twin")
    world.apply(world.add("x"))

    assert os.listxattr(world.real / "x") == []
    assert (world.real / "x").read_bytes() == b"content"


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 5])
def test_any_number_of_bytes_is_copied(world: World, size: int) -> None:
    data = os.urandom(size)
    place(world.upper, {"x": Node(FILE, data)})
    world.apply(world.add("x"))

    assert (world.real / "x").read_bytes() == data


@pytest.mark.parametrize("islands", [(), (0,), (64 * MIB,), (0, 7 * MIB, 64 * MIB)])
def test_holes_are_preserved(world: World, islands: tuple[int, ...]) -> None:
    size = 65 * MIB
    with open(world.upper / "x", "xb") as file:
        for place_of_data in islands:
            file.seek(place_of_data)
            file.write(b"data")
        file.truncate(size)
    world.apply(world.add("x"))
    arrived = (world.real / "x").stat()

    assert arrived.st_size == size
    assert arrived.st_blocks * 512 <= MIB
    with open(world.real / "x", "rb") as file:
        for place_of_data in islands:
            file.seek(place_of_data)
            assert file.read(5) == b"data\0"


def test_an_applied_file_shares_no_inode_with_the_session(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    os.link(world.upper / "x", world.upper / "twin")
    world.apply(world.add("x"), world.add("twin"))
    (world.upper / "x").write_bytes(b"later")

    assert (world.real / "x").read_bytes() == (world.real / "twin").read_bytes() == b"content"
