"""JSON files with a checksum: the first member is a CRC-32 of the rest, so that damage is always detected."""

from binascii import crc32

from agent_dev.fs import fast_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO

_PART = 1 << 18  # bytes that are read at once
HEAD_SIZE = len(b'{"check":"00000000",')


def add_checksum(data: bytes, *more: bytes) -> bytes:
    """Add the checksum to a file that begins with a non-empty JSON object, as the object's first member; join its parts."""
    rest = memoryview(data)[1:]
    check = crc32(rest)
    for part in more:
        check = crc32(part, check)
    return b"".join((head(check), rest, *more))


def head(check: int) -> bytes:
    """Return the start of a file; `check`: the CRC-32 of the rest."""
    return b'{"check":"%08x",' % check


def verify(data: bytes) -> bytes:
    """Return a file unchanged if its checksum is right. Raises ValueError if it was truncated or changed."""
    if data[:HEAD_SIZE] != head(crc32(memoryview(data)[HEAD_SIZE:])):
        raise ValueError("checksum mismatch")
    return data


def verify_file(file: "BinaryIO") -> None:
    """Read an open file to its end. Raises ValueError as `verify`, and OSError."""
    start, check = file.read(HEAD_SIZE), 0
    while part := file.read(_PART):
        check = crc32(part, check)
    if start != head(check):
        raise ValueError("checksum mismatch")


def dumps(value: "Mapping[str, object]") -> bytes:
    """Return an object as JSON with the checksum. Raises as `fast_json.dumps`."""
    return add_checksum(fast_json.dumps(value))


def loads(data: bytes) -> "dict[str, Any]":
    """Return the object that `dumps` encoded, without the checksum. Raises ValueError for anything else."""
    value = fast_json.loads(verify(data))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  (a fault of the text, not of the argument's type)
    del value["check"]
    return value
