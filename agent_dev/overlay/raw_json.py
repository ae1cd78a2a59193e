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


def loads(data: bytes, depth: int) -> "dict[str, Any]":
    """Return the objects of a file; the values of those at `depth` (1: the outermost) are the bytes of their JSON text.

    Raises ValueError for a wrong checksum or another text.
    """
    text = checksummed_json.verify(data).decode("ascii")
    del data  # may be large
    return read_members(text, checksummed_json.HEAD_SIZE - 1, depth)


def read_members(text: str, at: int, depth: int) -> "dict[str, Any]":
    """Return the members of an object after its brace, or a comma, at a position; only closing braces may follow it.

    Raises ValueError.
    """
    try:
        found, end = _read_members(text, at, depth)
    except IndexError:
        raise ValueError("truncated") from None
    if not text.startswith("}" * (len(text) - end), end):
        raise ValueError("more than one JSON value")
    return found


def _read_members(text: str, at: int, depth: int) -> "tuple[dict[str, Any], int]":
    """Return the members after the brace or the comma at a position, and the end of their object."""
    found: dict[str, Any] = {}
    while True:
        name, at = fast_json.scan(text, at + 1)
        if not isinstance(name, str) or text[at] != ":":
            raise ValueError("not a member of an object")
        found[name], at = _read_value(text, at + 1, depth)
        if text[at] != ",":
            break
    if text[at] != "}":
        raise ValueError("an object without an end")
    return found, at + 1


def _read_value(text: str, start: int, depth: int) -> "tuple[dict[str, Any] | bytes, int]":
    if depth == 1:
        _, end = fast_json.scan(text, start)
        return text[start:end].encode("ascii"), end
    if text.startswith("{}", start):
        return {}, start + 2
    if text[start] != "{":
        raise ValueError("not an object")
    return _read_members(text, start, depth - 1)


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
