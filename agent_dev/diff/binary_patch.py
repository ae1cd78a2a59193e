"""Writer for git's binary patch format: two literals, deflated and in base 85 (git: diff.c emit_binary_diff_body, base85.c)."""

import re
import zlib
from base64 import b85encode
from collections.abc import Iterator

_LINE_SIZE = 52  # bytes of a full line; its first character encodes their number
_CHUNK_SIZE = _LINE_SIZE << 12
_CONTROL = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_CONTROL_TEXT = re.compile("[\x80-\x9f\udc80-\udc9f]")  # C1, in UTF-8 or as a lone byte


def has_control_characters(data: bytes) -> bool:
    """Return whether text could control a terminal: control characters except tab, newline and CR before newline."""
    if _CONTROL.search(data):
        return True
    return not data.isascii() and _CONTROL_TEXT.search(data.decode("utf-8", "surrogateescape")) is not None


def format_binary_patch(before: bytes, after: bytes) -> Iterator[bytes]:
    """Yield the body of a binary patch: the forward and the reverse literal."""
    yield b"GIT binary patch\n"
    yield from _literal(after)
    yield from _literal(before)


def _literal(data: bytes) -> Iterator[bytes]:
    yield b"literal %d\n" % len(data)
    packed = zlib.compress(data)
    for start in range(0, len(packed), _CHUNK_SIZE):
        chunk = packed[start : start + _CHUNK_SIZE]
        text = b85encode(chunk, pad=True)
        lengths = (min(_LINE_SIZE, len(chunk) - index) for index in range(0, len(chunk), _LINE_SIZE))
        yield b"".join(_length_prefix(size) + text[index * 65 : index * 65 + 65] + b"\n" for index, size in enumerate(lengths))
    yield b"\n"


def _length_prefix(size: int) -> bytes:
    """Return the first character of a line of `size` bytes: A to Z for 1 to 26, a to z for more."""
    return bytes((size + 64 if size <= 26 else size + 70,))
