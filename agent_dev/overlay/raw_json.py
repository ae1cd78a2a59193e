"""Nested JSON objects whose innermost values stay JSON text: few of 100,000 rows are decoded, and the text needs little memory.

Files have the checksum of `checksummed_json`. The text must be compact, as `fast_json.dumps` writes it.
"""

import os
from binascii import crc32
from io import BytesIO
from itertools import islice

from agent_dev.fs import checksummed_json, fast_json
from agent_dev.linux import streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, BinaryIO, TypeVar

    Item = TypeVar("Item")
    Tree = dict[str, Any] | Iterable[tuple[str, Any]]

NULL = b"null"
_PART = 1 << 18  # bytes that are read at once
_BATCH = 1000  # members that are written at once


def loads(data: bytes) -> "dict[str, dict[str, bytes]]":
    """Return the objects of a file's content; their values are the bytes of their JSON text.

    Raises ValueError for a wrong checksum or another text.
    """
    return load(BytesIO(data))


def load(file: "BinaryIO") -> "dict[str, dict[str, bytes]]":
    """Return the objects of a file, as `loads`. Raises ValueError, OSError."""
    return {name: dict(rows) for name, rows in iterate(file)}


def iterate(file: "BinaryIO") -> "Iterator[tuple[str, Iterator[tuple[str, bytes]]]]":
    """Yield the objects of a file, with their members, as `load` would return them, while they are read.

    Raises ValueError, before the first one for a wrong checksum, and OSError.
    """
    file.seek(0)
    checksummed_json.verify_file(file)
    file.seek(checksummed_json.HEAD_SIZE - 1)
    text = JsonText(file)
    while text.take(","):
        name = text.take_name()
        if not text.take("{"):
            raise ValueError("not an object")
        rows = _members_of(text)
        yield name, rows
        for _ in rows:
            pass
    if not text.take("}") or not text.is_at_end():
        raise ValueError("more than one JSON value")


def _members_of(text: "JsonText") -> "Iterator[tuple[str, bytes]]":
    """Yield the members of an object whose brace was taken. Raises ValueError."""
    return text.take_items(_take_member, "}")


def _take_member(text: "JsonText") -> "tuple[str, bytes]":
    name = text.take_name()
    row = text.take_value()[1]
    return name, NULL if row == "null" else row.encode("ascii")  # one object for each null


class JsonText:
    """The text of a file from its position, read in parts: that of 100,000 rows has 30 MB."""

    def __init__(self, file: "BinaryIO") -> None:
        self._file, self._part, self._at = file, "", 0

    def take(self, character: str) -> bool:
        """Skip a character if it is the next one; return whether it is."""
        is_next = not self.is_at_end() and self._part[self._at] == character
        self._at += is_next
        return is_next

    def take_name(self) -> str:
        """Return the name of a member, and skip it and its colon. Raises ValueError."""
        name, _ = self.take_value()
        if not isinstance(name, str) or not self.take(":"):
            raise ValueError("not a member of an object")
        return name

    def take_value(self) -> "tuple[object, str]":
        """Return a value, which is never the end of the text, and its JSON, and skip it. Raises ValueError."""
        while True:
            start = self._at
            try:
                value, end = _scan(self._part, start)
            except ValueError:
                end = len(self._part)
            if end < len(self._part):  # it is complete
                self._at = end
                return value, self._part[start:end]
            if not self._read():
                raise ValueError("not a value, or incomplete")

    def take_items(self, take: "Callable[[JsonText], Item]", end: str) -> "Iterator[Item]":
        """Yield the items of an array or object whose start was taken, and skip its end. Raises ValueError."""
        if self.take(end):
            return
        while True:
            yield take(self)
            if not self.take(","):
                break
        if not self.take(end):
            raise ValueError("an array or object without an end")

    def is_at_end(self) -> bool:
        """Return whether nothing follows."""
        return self._at == len(self._part) and not self._read()

    def _read(self) -> bool:
        data = self._file.read(max(_PART, len(self._part) - self._at))  # of a long value twice as much: it is scanned again
        self._part, self._at = self._part[self._at :] + data.decode("ascii"), 0
        return bool(data)


def _scan(text: str, at: int) -> "tuple[object, int]":
    return (None, at + 4) if text.startswith("null", at) else fast_json.scan(text, at)


def find_members(text: str, at: int) -> "Iterator[tuple[str, int]]":
    """Yield the name of each member of an object whose brace is at a position, and where that name is in the text.

    Only closing braces may follow the object. Raises ValueError.
    """
    while True:
        start = at + 1
        name, value = _name(text, start)
        yield name, start
        at = _scan(text, value)[1]
        if text[at : at + 1] != ",":
            break
    if text[at:] != "}" * max(1, len(text) - at):
        raise ValueError("an object without an end, or more than one JSON value")


def member_at(text: str, at: int) -> "tuple[str, bytes]":
    """Return the name and the JSON text of the member whose name is at a position. Raises ValueError."""
    name, start = _name(text, at)
    return name, text[start : _scan(text, start)[1]].encode("ascii")


def _name(text: str, at: int) -> "tuple[str, int]":
    """Return the name of a member at a position, and the position of its value."""
    name, at = fast_json.scan(text, at)
    if not isinstance(name, str) or text[at : at + 1] != ":":
        raise ValueError("not a member of an object")
    return name, at + 1


def replace_file(path: str, tree: "Tree", prepare_replacement: "Callable[[], None]") -> None:
    """Replace a file atomically, its content durable; the caller syncs the folder. Raises OSError.

    `tree`: objects as mappings or as pairs, made while they are written. `prepare_replacement` is called before the old file is
    replaced.
    """
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        streams.write_all(fd, checksummed_json.head(0))
        check = 0
        for part in encode_members(tree):
            check = crc32(part, check)
            streams.write_all(fd, part)
        os.pwrite(fd, checksummed_json.head(check), 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    prepare_replacement()
    os.rename(f"{path}.new", path)


def encode_members(tree: "Tree") -> "Iterator[bytes]":
    """Yield an object's text without the opening brace, in parts."""
    members = _members(tree)
    while part := b"".join(islice(members, _BATCH)):
        yield part


def _members(tree: "Tree") -> "Iterator[bytes]":
    separator = b""
    for name, value in tree.items() if isinstance(tree, dict) else tree:
        if isinstance(value, bytes):
            yield b"%b%b:%b" % (separator, fast_json.dumps(name), value)
        else:
            yield b"%b%b:{" % (separator, fast_json.dumps(name))
            yield from _members(value)
        separator = b","
    yield b"}"
