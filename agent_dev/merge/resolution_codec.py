"""Conflict resolutions as JSON values."""

from base64 import b64decode, b64encode
from typing import Any

from agent_dev.diff.merge3 import ConflictSide

FileResolution = (
    tuple[ConflictSide | bytes | None, ...] | bytes
)  # one per choice of the merge, None if unresolved; or the content of the whole file


def encode_resolution(resolutions: FileResolution) -> Any:
    """Encode resolutions as a JSON value."""
    return _encode_one(resolutions) if isinstance(resolutions, bytes) else [_encode_one(one) for one in resolutions]


def _encode_one(one: ConflictSide | bytes | None) -> Any:
    return {"bytes": b64encode(one).decode()} if isinstance(one, bytes) else one


def decode_resolution(value: Any) -> FileResolution:
    """Decode resolutions from a JSON value. Raises ValueError, LookupError or TypeError for invalid values."""
    return b64decode(value["bytes"]) if isinstance(value, dict) else tuple(map(_decode_one, value))


def _decode_one(value: Any) -> ConflictSide | bytes | None:
    return None if value is None else b64decode(value["bytes"]) if isinstance(value, dict) else ConflictSide(value)
