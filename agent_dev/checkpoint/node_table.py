"""Encode the nodes of a tree in one piece per directory, so that unchanged directories are neither read nor written again."""

import marshal
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from agent_dev.checkpoint import restore_plan
from agent_dev.checkpoint.restore_plan import Node

_FORMAT = 4  # of marshal, readable since Python 3.4; a digest protects the table
_TEXT = "."  # else a type code of `array`, of the same size on all platforms
_COLUMNS = (_TEXT, _TEXT, "I", "q", "q", "I", "I", _TEXT, _TEXT, "Q", "Q", "q")  # as the fields of Node
ROOT = "."  # the key of the root's own node: a piece of one unnamed node

Pieces = dict[str, bytes]  # by the directory's path


class TablePiece(NamedTuple):
    """The nodes directly in one directory, a column per field; texts are joined by NUL, numbers are packed.

    A column with a number that is too large is stored as text.

    `node_count`: count of nodes; `files` and `size`: count and bytes of files.
    """

    node_count: int
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

    def is_current(self, names: str, status: Sequence[Any]) -> bool:
        """Return whether the piece was made from exactly these stat results, in this order: nothing has changed since."""
        return (
            self.names == names
            and self.ctimes == array("q", [one.st_ctime_ns for one in status]).tobytes()
            and self.inodes == array("Q", [one.st_ino for one in status]).tobytes()
            and self.sizes == array("q", [one.st_size for one in status]).tobytes()
            and self.links == array("Q", [one.st_nlink for one in status]).tobytes()
        )

    def folder_names(self) -> Iterator[str]:
        """Yield the names of the subdirectories."""
        if restore_plan.DIRECTORY in self.kinds:
            pairs = zip(self.names.split("\0"), self.kinds.split("\0"), strict=True)
            yield from (name for name, kind in pairs if kind == restore_plan.DIRECTORY)

    def nodes(self, folder: str) -> Iterable[Node]:
        """Return the nodes, for a directory at this path."""
        if not self.node_count:
            return ()
        columns: list[Any] = [_decode_column(kind, one) for kind, one in zip(_COLUMNS, tuple[Any, ...](self)[3:], strict=True)]
        if folder and folder != ROOT:
            columns[0] = [f"{folder}/{name}" for name in columns[0]]
        return map(partial(tuple.__new__, Node), zip(*columns, strict=True))  # Node._make does the same at four times the cost


EMPTY_PIECE = TablePiece(0, 0, 0, "", "", *(b"",) * 5, "", "", *(b"",) * 3)


def encode_piece(nodes: Sequence[Node]) -> bytes:
    """Encode the nodes of one directory."""
    columns: tuple[Any, ...] = tuple(zip(*nodes, strict=True)) or ((),) * len(_COLUMNS)
    columns = ([path.rpartition("/")[2] for path in columns[0]], *columns[1:])
    sizes = [node.size for node in nodes if node.kind == restore_plan.FILE]
    texts = [_encode_column(kind, one) for kind, one in zip(_COLUMNS, columns, strict=True)]
    return marshal.dumps((len(nodes), len(sizes), sum(sizes), *texts), _FORMAT)


def _encode_column(kind: str, values: Sequence[Any]) -> str | bytes:
    if kind == _TEXT:
        return "\0".join(values)
    try:
        return array(kind, values).tobytes()
    except OverflowError:  # a time after the year 2262
        return "\0".join(map(str, values))


def decode_piece(data: bytes) -> TablePiece:
    """Decode the result of `encode_piece`."""
    return TablePiece._make(marshal.loads(data))  # noqa: S302  (the digest of the table was verified)


def _decode_column(kind: str, column: str | bytes) -> "Sequence[str] | Sequence[int]":
    if isinstance(column, str):
        return column.split("\0") if kind == _TEXT else [int(number) for number in column.split("\0")]
    found: array[int] = array(kind)
    found.frombytes(column)
    return found


def encode_table(pieces: Pieces) -> bytes:
    """Encode a whole table."""
    return marshal.dumps(pieces, _FORMAT)


def decode_table(data: bytes) -> Pieces:
    """Decode a table whose digest was verified: marshal trusts its input."""
    read = marshal.loads(data)  # noqa: S302  (the digest of the table was verified)
    return _from_rows(read) if isinstance(read, list) else read


def _from_rows(rows: list[tuple[Any, ...]]) -> Pieces:
    """Convert a table of the first version, which had a row per path."""
    found: dict[str, list[Node]] = {}
    for node in map(Node._make, rows):
        found.setdefault(node.path.rpartition("/")[0] if node.path else ROOT, []).append(node)
    return {folder: encode_piece(nodes) for folder, nodes in found.items()}


def iterate_nodes(pieces: Pieces) -> Iterator[Node]:
    """Yield all nodes of a table, decoded one directory at a time: those of 200,000 files need 100 MB."""
    return (node for folder, piece in pieces.items() for node in decode_piece(piece).nodes(folder))


def all_nodes(pieces: Pieces) -> dict[str, Node]:
    """Return all nodes of a table by path."""
    return {node.path: node for node in iterate_nodes(pieces)}


def changed_paths(one: Pieces, other: Pieces) -> tuple[str, ...]:
    """Return the paths that differ between two tables, sorted; decoded as `iterate_nodes` does."""
    found: list[str] = []
    for folder in one.keys() | other.keys():
        pieces = [{folder: table[folder]} if folder in table else {} for table in (one, other)]
        if pieces[0] != pieces[1]:
            found += restore_plan.changed_paths(*map(all_nodes, pieces))
    return tuple(sorted(found))


def differing_nodes(one: Pieces, other: Pieces) -> tuple[dict[str, Node], dict[str, Node]]:
    """Return the nodes of two tables in the directories that differ."""
    differ = [
        {folder: piece for folder, piece in this.items() if that.get(folder) != piece} for this, that in _both_orders(one, other)
    ]
    return all_nodes(differ[0]), all_nodes(differ[1])


def _both_orders(one: Pieces, other: Pieces) -> tuple[tuple[Pieces, Pieces], tuple[Pieces, Pieces]]:
    return (one, other), (other, one)


def nodes_to_compare(one: Pieces, other: Pieces) -> tuple[dict[str, Node], dict[str, Node]]:
    """Return the parts of two tables that a restore must compare: everything if a file with several links is among them."""
    found = differing_nodes(one, other)
    has_hard_links = any(node.links > 1 and node.kind == restore_plan.FILE for table in found for node in table.values())
    return (all_nodes(one), all_nodes(other)) if has_hard_links else found
