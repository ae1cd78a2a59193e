"""JSON files with a checksum: the first member is a CRC-32 of the rest, so that damage is always detected."""

from binascii import crc32

from agent_dev.fs import fast_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HEAD_SIZE = len(b'{"check":"00000000",')


def add_checksum(data: bytes) -> bytes:
    """Add the checksum to a file that begins with a non-empty JSON object, as the object's first member."""
    rest = memoryview(data)[1:]
    return b"".join((head(crc32(rest)), rest))


def head(check: int) -> bytes:
    """Return the start of a file; `check`: the CRC-32 of the rest."""
    return b'{"check":"%08x",' % check


def verify(data: bytes) -> bytes:
    """Return a file unchanged if its checksum is right. Raises ValueError if it was truncated or changed."""
    if data[:HEAD_SIZE] != b'{"check":"%08x",' % crc32(memoryview(data)[HEAD_SIZE:]):
        raise ValueError("checksum mismatch")
    return data


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
