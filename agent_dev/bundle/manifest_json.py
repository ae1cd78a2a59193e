"""The JSON of a manifest. Its rows stay JSON text: as objects, those of 100,000 changes would take 100 MB."""

from binascii import crc32
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any

from agent_dev.fs import checksummed_json, fast_json
from agent_dev.overlay.raw_json import JsonText

_BATCH = 1000  # rows that are written at once


class Rows:
    """Rows of a manifest, as JSON text in canonical form; each is decoded when it is read."""

    __slots__ = ("_texts",)

    def __init__(self, rows: Iterable[object]) -> None:
        self._texts = [fast_json.dumps(row) for row in rows]

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> Any:
        return fast_json.loads(self._texts[index])

    def __iter__(self) -> Iterator[Any]:
        return map(fast_json.loads, self._texts)

    def __reversed__(self) -> Iterator[Any]:
        return map(fast_json.loads, reversed(self._texts))

    def encode(self) -> Iterator[bytes]:
        """Yield the rows as a JSON array, in parts."""
        yield b"["
        for start in range(0, len(self._texts), _BATCH):
            yield (b"," if start else b"") + b",".join(self._texts[start : start + _BATCH])
        yield b"]"


def dumps(manifest: Mapping[str, Any]) -> bytes:
    """Return a manifest as JSON with a checksum (`checksummed_json`)."""
    check, file = 0, BytesIO(checksummed_json.head(0))
    file.seek(checksummed_json.HEAD_SIZE)
    for part in _members(manifest):
        check = crc32(part, check)
        file.write(part)
    file.seek(0)
    file.write(checksummed_json.head(check))
    return file.getvalue()


def is_canonical(data: bytes, manifest: Mapping[str, Any]) -> bool:
    """Return whether `dumps` would write a manifest as this text, whose checksum is right."""
    at = checksummed_json.HEAD_SIZE
    for part in _members(manifest):
        if data[at : at + len(part)] != part:
            return False
        at += len(part)
    return at == len(data)


def _members(value: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield an object as JSON without its opening brace, in parts."""
    separator = b""
    for name, member in value.items():
        yield b"%b%b:" % (separator, fast_json.dumps(name))
        separator = b","
        if isinstance(member, Rows):
            yield from member.encode()
        elif name == "roots" and isinstance(member, list):
            yield from _roots(member)
        else:
            yield fast_json.dumps(member)
    yield b"}"


def _roots(roots: list[Any]) -> Iterator[bytes]:
    separator = b"["
    for root in roots:
        yield separator
        separator = b","
        if isinstance(root, dict):
            yield b"{"
            yield from _members(root)
        else:
            yield fast_json.dumps(root)
    yield b"]" if roots else b"[]"


def loads(data: bytes) -> dict[str, Any]:
    """Return a manifest, the rows of its roots as `Rows`. Raises ValueError for a wrong checksum or another text."""
    file = BytesIO(checksummed_json.verify(data))
    file.seek(checksummed_json.HEAD_SIZE - 1)
    text = JsonText(file)
    manifest = {}
    while text.take(","):
        name = text.take_name()
        manifest[name] = _take_roots(text) if name == "roots" else _take_value(text)
    if not text.take("}") or not text.is_at_end():
        raise ValueError("more than one JSON value")
    return manifest


def _take_value(text: JsonText) -> object:
    return text.take_value()[0]


def _take_roots(text: JsonText) -> object:
    return list(text.take_items(_take_root, "]")) if text.take("[") else _take_value(text)


def _take_root(text: JsonText) -> object:
    return dict(text.take_items(_take_member, "}")) if text.take("{") else _take_value(text)


def _take_member(text: JsonText) -> tuple[str, object]:
    return text.take_name(), Rows(text.take_items(_take_value, "]")) if text.take("[") else _take_value(text)
