"""What a copy of the agent's keeps and what it loses: modes, times, attributes, holes, bytes."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.overlay.changes import FileType
from tests.disk.apply_world import SORTS, World, place, world_below
from tests.harness.trees import DIRECTORY, FIFO, FILE, Node


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_below(tmp_path) as made:
        yield made


MIB = 1 << 20


@pytest.mark.parametrize("kind", [FILE, DIRECTORY, FIFO])
@pytest.mark.parametrize("bits", [0o4000, 0o2000, 0o1000, 0o7000])
def test_special_bits_never_arrive(world: World, kind: FileType, bits: int) -> None:
    place(world.upper, {"x": SORTS[kind]})
    (world.upper / "x").chmod(bits | 0o755)
    world.apply(world.add("x"))

    assert (world.real / "x").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o444, 0o777])
def test_a_mode_arrives_whatever_the_umask(world: World, mode: int) -> None:
    place(world.upper, {"x": Node(FILE, b"x", mode)})
    before = os.umask(0o077)
    try:
        world.apply(world.add("x"))
    finally:
        os.umask(before)

    assert (world.real / "x").stat().st_mode & 0o7777 == mode


def test_a_files_mtime_arrives_to_the_nanosecond(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    os.utime(world.upper / "x", ns=(1, 1_234_567_890_123_456_789))
    world.apply(world.add("x"))

    assert (world.real / "x").stat().st_mtime_ns == 1_234_567_890_123_456_789


def test_own_attributes_arrive_and_the_overlays_do_not(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    for name in ("user.note", "user.overlay.origin", "user.overlay.overlay.opaque"):
        os.setxattr(world.upper / "x", name, b"1")
    world.apply(world.add("x"))

    assert os.listxattr(world.real / "x") == ["user.note"]


ACCESS = [(0x01, 6, -1), (0x02, 6, 1), (0x04, 4, -1), (0x10, 6, -1), (0x20, 4, -1)]  # acl(5): tag, permissions, id


@pytest.mark.parametrize("links", [1, 2], ids=["moved", "copied"])
def test_an_access_list_of_the_agents_does_not_arrive(world: World, links: int) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    entries = b"".join(struct.pack("<HHi", *entry) for entry in ACCESS)
    os.setxattr(world.upper / "x", "system.posix_acl_access", struct.pack("<I", 2) + entries)
    if links == 2:
        os.link(world.upper / "x", world.upper / "twin")
    world.apply(world.add("x"))

    assert os.listxattr(world.real / "x") == []
    assert (world.real / "x").read_bytes() == b"content"


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 5])
def test_bytes_arrive_whatever_their_number(world: World, size: int) -> None:
    data = os.urandom(size)
    place(world.upper, {"x": Node(FILE, data)})
    world.apply(world.add("x"))

    assert (world.real / "x").read_bytes() == data


@pytest.mark.parametrize("islands", [(), (0,), (64 * MIB,), (0, 7 * MIB, 64 * MIB)])
def test_holes_stay_holes(world: World, islands: tuple[int, ...]) -> None:
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


def test_what_arrives_shares_no_inode_with_the_session(world: World) -> None:
    place(world.upper, {"x": SORTS[FILE]})
    os.link(world.upper / "x", world.upper / "twin")
    world.apply(world.add("x"), world.add("twin"))
    (world.upper / "x").write_bytes(b"later")

    assert (world.real / "x").read_bytes() == (world.real / "twin").read_bytes() == b"content"
