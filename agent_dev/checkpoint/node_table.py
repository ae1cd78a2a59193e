"""A tree's nodes as bytes: a piece for each directory, so that one in which nothing changed is neither read nor written anew."""

import marshal
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.restore_plan import Node

_FORMAT = 4  # of marshal, which every Python since 3.4 reads; the digest of the table vouches for it
_TEXT = "."  # else a type code of `array`; of a size that is the same wherever this runs
_COLUMNS = (_TEXT, _TEXT, "I", "q", "q", "I", "I", _TEXT, _TEXT, "Q", "Q", "q")  # as the fields of Node
ROOT = "."  # where the root's own node stands: a piece of one node without a name

Pieces = dict[str, bytes]  # by the directory's path


class Piece(NamedTuple):
    """The nodes right in one directory, a column for each field; texts are joined by NUL, numbers packed.

    Numbers of which one is too large for that are joined, too.

    `number`: how many there are; `files` and `size`: how many are files, and their bytes.
    """

    number: int
    files: int
    size: int
    names: str
    kinds: str
    modes: bytes
    sizes: bytes
    mtimes: bytes
    owners: bytes
    groups: bytes
    contents: str
    attributes: str
    inodes: bytes
    links: bytes
    ctimes: bytes

    def holds(self, names: str, status: Sequence[Any]) -> bool:
        """Whether it was written of just these, by their stat results in this order: nothing changed there since."""
        return (
            self.names == names
            and self.ctimes == array("q", [one.st_ctime_ns for one in status]).tobytes()
            and self.inodes == array("Q", [one.st_ino for one in status]).tobytes()
            and self.sizes == array("q", [one.st_size for one in status]).tobytes()
            and self.links == array("Q", [one.st_nlink for one in status]).tobytes()
        )

    def folders(self) -> Iterator[str]:
        """Yield the names of directories among them."""
        if history.DIRECTORY in self.kinds:
            pairs = zip(self.names.split("\0"), self.kinds.split("\0"), strict=True)
            yield from (name for name, kind in pairs if kind == history.DIRECTORY)

    def nodes(self, folder: str) -> Iterable[Node]:
        """Return the nodes, of a directory that has this path."""
        if not self.number:
            return ()
        columns: list[Any] = [_unpacked(kind, one) for kind, one in zip(_COLUMNS, tuple[Any, ...](self)[3:], strict=True)]
        if folder and folder != ROOT:
            columns[0] = [f"{folder}/{name}" for name in columns[0]]
        return map(partial(tuple.__new__, Node), zip(*columns, strict=True))  # Node._make does the same at four times the cost


NOTHING = Piece(0, 0, 0, "", "", *(b"",) * 5, "", "", *(b"",) * 3)


def packed(nodes: Sequence[Node]) -> bytes:
    """Return the nodes of one directory as bytes."""
    columns: tuple[Any, ...] = tuple(zip(*nodes, strict=True)) or ((),) * len(_COLUMNS)
    columns = ([path.rpartition("/")[2] for path in columns[0]], *columns[1:])
    sizes = [node.size for node in nodes if node.kind == history.FILE]
    texts = [_column(kind, one) for kind, one in zip(_COLUMNS, columns, strict=True)]
    return marshal.dumps((len(nodes), len(sizes), sum(sizes), *texts), _FORMAT)


def _column(kind: str, values: Sequence[Any]) -> str | bytes:
    if kind == _TEXT:
        return "\0".join(values)
    try:
        return array(kind, values).tobytes()
    except OverflowError:  # of a time past the year 2262: a file system may hold it
        return "\0".join(map(str, values))


def unpacked(data: bytes) -> Piece:
    """Return what `packed` made bytes of."""
    return Piece._make(marshal.loads(data))  # noqa: S302  (ours: the digest of the table was compared)


def _unpacked(kind: str, column: str | bytes) -> "Sequence[str] | Sequence[int]":
    if isinstance(column, str):
        return column.split("\0") if kind == _TEXT else [int(number) for number in column.split("\0")]
    found: array[int] = array(kind)
    found.frombytes(column)
    return found


def encode(pieces: Pieces) -> bytes:
    """Return a whole table as bytes."""
    return marshal.dumps(pieces, _FORMAT)


def decode(data: bytes) -> Pieces:
    """Return a table of bytes whose digest was compared: marshal trusts what it reads."""
    read = marshal.loads(data)  # noqa: S302  (ours, as was compared)
    return _pieces(read) if isinstance(read, list) else read


def _pieces(rows: list[tuple[Any, ...]]) -> Pieces:
    """Return a table of the first version, which had a row for each path."""
    found: dict[str, list[Node]] = {}
    for node in map(Node._make, rows):
        found.setdefault(node.path.rpartition("/")[0] if node.path else ROOT, []).append(node)
    return {folder: packed(nodes) for folder, nodes in found.items()}


def nodes(pieces: Pieces) -> dict[str, Node]:
    """Return all nodes of a table by path."""
    return {node.path: node for folder, piece in pieces.items() for node in unpacked(piece).nodes(folder)}


def unlike(one: Pieces, other: Pieces) -> tuple[dict[str, Node], dict[str, Node]]:
    """Return the nodes of two tables, without those in directories in which both hold the same."""
    differ = [{folder: piece for folder, piece in this.items() if that.get(folder) != piece} for this, that in _both(one, other)]
    return nodes(differ[0]), nodes(differ[1])


def _both(one: Pieces, other: Pieces) -> tuple[tuple[Pieces, Pieces], tuple[Pieces, Pieces]]:
    return (one, other), (other, one)


def to_restore(one: Pieces, other: Pieces) -> tuple[dict[str, Node], dict[str, Node]]:
    """Return as much of two tables as tells what makes one of the other: all of it when a file with other names is concerned."""
    found = unlike(one, other)
    has_twins = any(node.links > 1 and node.kind == history.FILE for table in found for node in table.values())
    return (nodes(one), nodes(other)) if has_twins else found
