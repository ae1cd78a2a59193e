"""A tree's nodes as bytes, a column for each field: ten thousand rows are written and read for each checkpoint."""

import marshal
from array import array
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from agent_dev.core.history import Node

_FORMAT = 4  # of marshal, which every Python since 3.4 reads; the digest of the table vouches for it
_TEXT = "."  # else a type code of `array`; of a size that is the same wherever this runs
_COLUMNS = (_TEXT, _TEXT, "I", "q", "q", "I", "I", _TEXT, _TEXT, "Q", "Q", "q")  # as the fields of Node


def encode(nodes: Iterable[Node]) -> bytes:
    """Return nodes as bytes."""
    columns = tuple(zip(*nodes, strict=True)) or ((),) * len(_COLUMNS)
    packed = [_packed(kind, column) for kind, column in zip(_COLUMNS, columns, strict=True)]
    return marshal.dumps((len(columns[0]), *packed), _FORMAT)


def _packed(kind: str, column: "tuple[Any, ...]") -> str | bytes:
    return "\0".join(column) if kind == _TEXT else array(kind, column).tobytes()


def decode(data: bytes) -> dict[str, Node]:
    """Return nodes by path, of bytes whose digest was compared: marshal trusts what it reads."""
    read = marshal.loads(data)  # noqa: S302  (ours, as was compared)
    if isinstance(read, list):  # row by row, as the first version wrote
        return {row[0]: Node._make(row) for row in read}
    count, *packed = read
    if not count:
        return {}
    columns: list[Any] = [_unpacked(kind, one) for kind, one in zip(_COLUMNS, packed, strict=True)]
    nodes = map(partial(tuple.__new__, Node), zip(*columns, strict=True))  # Node._make does the same at four times the cost
    return dict(zip(columns[0], nodes, strict=True))


def _unpacked(kind: str, packed: str | bytes) -> "Sequence[str] | array[int]":
    if isinstance(packed, str):
        return packed.split("\0")
    found: array[int] = array(kind)
    found.frombytes(packed)
    return found
