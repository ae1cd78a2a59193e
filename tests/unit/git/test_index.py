"""Git's index is parsed byte by byte; the tests build indexes according to gitformat-index."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.git.formats.index_format import GITLINK, IndexEntry, IndexUnreadableError, parse_index, parse_split_index

SECOND = 10**9


@dataclass(frozen=True, slots=True)
class Written:
    """An index entry that a test writes."""

    path: bytes
    stage: int = 0
    extended: bool = False
    mode: int = 0o100644
    size: int = 3


def variable(number: int) -> bytes:
    """Encode a number like an offset in git's packs: 7 bits a byte, each continuation minus one."""
    coded = bytes((number & 127,))
    while number := number >> 7:
        number -= 1
        coded = bytes((128 | number & 127,)) + coded
    return coded


def index(version: int, written: list[Written], oid_size: int = 20) -> bytes:
    data, before = b"DIRC" + version.to_bytes(4, "big") + len(written).to_bytes(4, "big"), b""
    for number, one in enumerate(written):
        data += entry(version, number, one, before, oid_size)
        before = one.path
    return data + bytes(oid_size)


def entry(version: int, number: int, one: Written, before: bytes, oid_size: int) -> bytes:
    numbers = (100 + number, 1, 200 + number, 2, 7, 1000 + number, one.mode, 0, 0, one.size)
    flags = min(len(one.path), 0xFFF) | one.stage << 12 | (0x4000 if one.extended else 0)
    data = b"".join(value.to_bytes(4, "big") for value in numbers) + bytes((number % 256,)) * oid_size + flags.to_bytes(2, "big")
    data += b"\x20\0" if one.extended else b""
    if version == 4:
        same = next(
            (n for n, (a, b) in enumerate(zip(before, one.path, strict=False)) if a != b), min(len(before), len(one.path))
        )
        return data + variable(len(before) - same) + one.path[same:] + b"\0"
    data += one.path
    return data + bytes(8 - len(data) % 8)


def paths(data: bytes, oid_size: int = 20) -> list[bytes]:
    return [one.path for one in parse_index(data, oid_size)]


PATHS = st.lists(st.binary(min_size=1, max_size=40).filter(lambda path: 0 not in path), unique=True, max_size=8).map(sorted)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_entry_is_parsed_field_by_field(version: int) -> None:
    (one,) = parse_index(index(version, [Written(b"a/b", mode=0o100755, size=9)]))

    assert one == IndexEntry(b"a/b", bytes(20), 0o100755, 9, 1000, 200 * SECOND + 2, 100 * SECOND + 1)


@pytest.mark.parametrize("oid_size", [20, 32])
@pytest.mark.parametrize("version", [2, 3, 4])
@given(names=PATHS)
def test_every_path_round_trips_in_order(version: int, oid_size: int, names: list[bytes]) -> None:
    assert paths(index(version, [Written(name) for name in names], oid_size), oid_size) == names


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("length", [*range(1, 18), 0xFFE, 0xFFF, 0x1000, 5000])
def test_a_name_of_any_length_is_read_completely(version: int, length: int) -> None:
    names = [b"a" * length, b"b"]

    assert paths(index(version, [Written(name) for name in names])) == names


@pytest.mark.parametrize("version", [3, 4])
def test_extended_flags_are_skipped(version: int) -> None:
    assert paths(index(version, [Written(b"a", extended=True), Written(b"b")])) == [b"a", b"b"]


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_an_unmerged_path_is_no_entry(version: int, stage: int) -> None:
    assert paths(index(version, [Written(b"a"), Written(b"ab", stage=stage), Written(b"ac")])) == [b"a", b"ac"]


def test_a_submodule_is_an_entry_with_its_own_mode() -> None:
    (one,) = parse_index(index(2, [Written(b"sub", mode=GITLINK)]))

    assert one.mode == GITLINK


def test_an_index_without_entries_is_empty() -> None:
    assert paths(index(2, [])) == []


def test_extensions_after_the_entries_are_not_read() -> None:
    data = index(2, [Written(b"a")])

    assert paths(data[:-20] + b"TREE" + (4).to_bytes(4, "big") + b"\xff" * 4 + data[-20:]) == [b"a"]


@pytest.mark.parametrize("data", [b"", b"DIRC", b"DIRC\0\0\0\2", b"PACK\0\0\0\2\0\0\0\0", b"ref: refs/heads/main\n"])
def test_an_invalid_index_is_refused(data: bytes) -> None:
    with pytest.raises(IndexUnreadableError):
        paths(data)


@pytest.mark.parametrize("version", [0, 1, 5, 2**32 - 1])
def test_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(IndexUnreadableError, match="version"):
        paths(b"DIRC" + version.to_bytes(4, "big") + bytes(24))


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("cut", range(12, 76, 3))
def test_a_torn_index_is_refused(version: int, cut: int) -> None:
    data = index(version, [Written(b"a/name"), Written(b"a/other")])[:-20]

    with pytest.raises(IndexUnreadableError):
        paths(data[:cut])


def test_a_version_4_entry_cannot_reuse_more_than_the_previous_name() -> None:
    data = index(4, [Written(b"a"), Written(b"b")])
    forged = data.replace(b"\x01b\0", b"\x09b\0")

    assert forged != data
    with pytest.raises(IndexUnreadableError):
        paths(forged)


@given(st.binary(max_size=200), st.sampled_from([2, 3, 4]))
def test_any_bytes_are_parsed_or_refused(rest: bytes, version: int) -> None:
    try:
        paths(b"DIRC" + version.to_bytes(4, "big") + rest)
    except IndexUnreadableError:
        pass


def bitmap(bits: set[int], length: int) -> bytes:
    """Encode a bitmap as git does, with literal words only."""
    words = [sum(1 << (bit - at) for bit in bits if at <= bit < at + 64) for at in range(0, length, 64)]
    marked = [len(words) << 33, *words]
    return (
        length.to_bytes(4, "big") + len(marked).to_bytes(4, "big") + b"".join(one.to_bytes(8, "big") for one in marked) + bytes(4)
    )


def split(own: list[Written], link: bytes) -> bytes:
    data = index(2, own)[:-20]
    return data + b"link" + len(link).to_bytes(4, "big") + link + bytes(20)


SHARED = [Written(b"n%03d" % number) for number in range(200)]
LIVE = st.sets(st.integers(0, 199), max_size=20)


@given(gone=LIVE, replaced=LIVE)
def test_a_split_index_is_applied_over_the_shared_one(gone: set[int], replaced: set[int]) -> None:
    replaced -= gone
    own = [Written(b"", size=9) for _ in replaced] + [Written(b"x", size=8)]
    link = b"\1" * 20 + bitmap(gone, 200) + bitmap(replaced, 200)
    found = {one.path: one.size for one in parse_split_index(split(own, link), 20, {"01" * 20: index(2, SHARED)}.__getitem__)}

    expected = {b"n%03d" % number: 9 if number in replaced else 3 for number in range(200) if number not in gone}
    assert found == expected | {b"x": 8}


@pytest.mark.parametrize("link", [b"", bytes(20)])
def test_a_split_index_without_a_shared_one_has_its_own_entries(link: bytes) -> None:
    assert [one.path for one in parse_split_index(split([Written(b"x")], link), 20, lambda _: b"")] == [b"x"]


def test_runs_of_ones_are_expanded_without_filling_the_memory() -> None:
    run = (2**32 - 1) << 1 | 1
    link = b"\1" * 20 + (200).to_bytes(4, "big") + (1).to_bytes(4, "big") + run.to_bytes(8, "big") + bytes(4) + bitmap(set(), 0)

    assert list(parse_split_index(split([], link), 20, lambda _: index(2, SHARED))) == []


@given(st.binary(max_size=120))
def test_any_link_extension_is_parsed_or_refused(rest: bytes) -> None:
    try:
        list(parse_split_index(split([Written(b"x")], b"\1" * 20 + rest), 20, lambda _: index(2, SHARED)))
    except IndexUnreadableError:
        pass
