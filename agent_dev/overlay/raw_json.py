"""Nested JSON objects whose innermost values stay JSON text: few of 100,000 rows are decoded, and the text needs little memory.

Files have the checksum of `checksummed_json`. The text must be compact, as `fast_json.dumps` writes it.
"""

import os
from binascii import crc32
from itertools import islice

from agent_dev.fs import checksummed_json, fast_json
from agent_dev.linux import streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Tree = dict[str, Any] | Iterable[tuple[str, Any]]

NULL = b"null"
_BATCH = 1000  # members that are written at once


def loads(data: bytes) -> "dict[str, dict[str, bytes]]":
    """Return the objects of a file; their values are the bytes of their JSON text.

    Raises ValueError for a wrong checksum or another text.
    """
    return {name: dict(rows) for name, rows in iterate(data)}


def iterate(data: bytes) -> "Iterator[tuple[str, Iterator[tuple[str, bytes]]]]":
    """Yield the objects of a file, with their members, as `loads` would return them, while they are read.

    Raises ValueError, before the first one for a wrong checksum.
    """
    text = checksummed_json.verify(data).decode("ascii")
    del data  # may be large
    return _objects(text)


def _objects(text: str) -> "Iterator[tuple[str, Iterator[tuple[str, bytes]]]]":
    at = checksummed_json.HEAD_SIZE - 1
    while text[at : at + 1] == ",":
        name, at = _name(text, at + 1)
        if text[at : at + 1] != "{":
            raise ValueError("not an object")
        ends: list[int] = []
        rows = _members_of(text, at, ends)
        yield name, rows
        for _ in rows:
            pass
        [at] = ends
    if text[at:] != "}":
        raise ValueError("more than one JSON value")


def find_members(text: str, at: int) -> "Iterator[tuple[str, int]]":
    """Yield the name of each member of an object whose brace is at a position, and where that name is in the text.

    Only closing braces may follow the object. Raises ValueError.
    """
    ends: list[int] = []
    yield from ((name, start) for name, start, _, _ in _places(text, at, ends))
    if not text.startswith("}" * (len(text) - ends[0]), ends[0]):
        raise ValueError("more than one JSON value")


def member_at(text: str, at: int) -> "tuple[str, bytes]":
    """Return the name and the JSON text of the member whose name is at a position. Raises ValueError."""
    name, start = _name(text, at)
    return name, text[start : _end(text, start)].encode("ascii")


def _members_of(text: str, at: int, ends: "list[int]") -> "Iterator[tuple[str, bytes]]":
    """Yield the members of an object whose brace is at a position, and append its end to `ends`. Raises ValueError."""
    for name, _, start, end in _places(text, at, ends):  # one object for each null
        yield name, NULL if text.startswith("null", start) else text[start:end].encode("ascii")


def _places(text: str, at: int, ends: "list[int]") -> "Iterator[tuple[str, int, int, int]]":
    """Yield each member of an object: its name, and where the name, the value and what follows start. Raises ValueError."""
    if text.startswith("{}", at):
        ends.append(at + 2)
        return
    while True:
        start = at + 1
        name, value = _name(text, start)
        at = _end(text, value)
        yield name, start, value, at
        if text[at : at + 1] != ",":
            break
    if text[at : at + 1] != "}":
        raise ValueError("an object without an end")
    ends.append(at + 1)


def _end(text: str, at: int) -> int:
    return at + 4 if text.startswith("null", at) else fast_json.scan(text, at)[1]


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
