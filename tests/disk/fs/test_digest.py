"""File digests: equal bytes have the same digest, with or without holes; different bytes have different digests."""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.checkpoint import content_pool
from agent_dev.fs import digest, dir_tree

MIB = 1 << 20
PIECES = st.lists(st.tuples(st.integers(0, 3 * MIB), st.binary(min_size=1, max_size=40)), max_size=5)
SIZES = st.sampled_from([MIB, MIB + 1, 2 * MIB, 2 * MIB + digest.BLOCK_SIZE, 3 * MIB - 1])


def name_of(path: Path) -> str:
    with path.open("rb") as file:
        return content_pool.digest_of(file.fileno())


def content(pieces: list[tuple[int, bytes]], size: int) -> bytes:
    data = bytearray(size)
    for at, piece in pieces:
        data[at : at + len(piece)] = piece
    return bytes(data[:size])


def lay_out(path: Path, data: bytes, *, is_sparse: bool) -> Path:
    with path.open("wb") as file:
        for at in range(0, len(data), 4096):
            piece = data[at : at + 4096]
            if not is_sparse or any(piece):
                file.seek(at)
                file.write(piece)
        file.truncate(len(data))
    return path


@given(pieces=PIECES, size=SIZES)
def test_holes_and_zero_bytes_have_the_same_digest(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, bytes]], size: int
) -> None:
    folder, data = tmp_path_factory.mktemp("files"), content(pieces, size)
    dense, sparse = (lay_out(folder / str(is_sparse), data, is_sparse=is_sparse) for is_sparse in (False, True))
    assert name_of(dense) == name_of(sparse)
    copy = folder / "copy"
    with sparse.open("rb") as source, copy.open("wb") as target:
        if size > dir_tree.CHUNK_SIZE:
            assert content_pool._copy(source.fileno(), target.fileno(), size) == name_of(dense)
            assert copy.read_bytes() == data


@given(one=PIECES, other=PIECES, sizes=st.tuples(SIZES, SIZES))
def test_different_bytes_have_different_digests(
    tmp_path_factory: pytest.TempPathFactory, one: list[tuple[int, bytes]], other: list[tuple[int, bytes]], sizes: tuple[int, int]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    contents = [content(pieces, size) for pieces, size in zip((one, other), sizes, strict=True)]
    names = [name_of(lay_out(folder / str(n), data, is_sparse=True)) for n, data in enumerate(contents)]
    assert (names[0] == names[1]) == (contents[0] == contents[1])


def test_the_digest_of_a_file_without_zeros_is_its_sha256(tmp_path: Path) -> None:
    data = os.urandom(3 * MIB + 5)
    assert name_of(lay_out(tmp_path / "x", data, is_sparse=False)) == hashlib.sha256(data).hexdigest()


@given(pieces=PIECES, change=st.tuples(st.integers(0, 2 * MIB - 1), st.integers(0, 255)))
def test_two_files_are_equal_if_their_bytes_are_equal(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, bytes]], change: tuple[int, int]
) -> None:
    folder, data = tmp_path_factory.mktemp("trees"), content(pieces, 2 * MIB)
    other = data[: change[0]] + bytes([change[1]]) + data[change[0] + 1 :]
    for name, one in (("a", data), ("b", other)):
        (folder / name).mkdir()
        lay_out(folder / name / "x", one, is_sparse=name == "a")
    trees = [dir_tree.Tree(str(folder / name)) for name in "ab"]
    assert dir_tree.have_same_content(trees[0], trees[1], b"x") == (data == other)
    for tree in trees:
        tree.close()
