"""Parse a terminal's byte stream: control sequences by kind, and everything else."""

import re
import unicodedata
from collections.abc import Iterator

_CSI = re.compile(rb"\x1b\[([0-?]*)([ -/]*[@-~])")
_STRING = re.compile(rb"\x1b([\]PX^_])(.*?)(?:\x1b\\|\x07)", re.DOTALL)
_SHORT = re.compile(rb"\x1b[ -/]*[0-Z\\`-~]")
_NUMBER = re.compile(rb"\d+")
_MADE = {b"m", b"H"}  # colours and positions have arbitrary numbers
_INVISIBLE = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


def sequence_kinds(raw: bytes) -> set[bytes]:
    """Return the control sequences; of colours and cursor positions only their kind."""
    return {kind for kind, _ in _parsed(raw) if kind}


def colours(raw: bytes) -> set[bytes]:
    """Return the numbers of all colours and attributes; those of a direct colour count as one."""
    found = set()
    for match in _CSI.finditer(raw):
        if match[2] == b"m":
            found |= set(re.sub(rb"[34]8;(2;\d+;\d+;\d+|5;\d+)", b"colour", match[1]).split(b";"))
    return found


def invisible_characters(raw: bytes) -> set[str]:
    """Return the invisible characters outside of control sequences, except line ends."""
    text = b"".join(plain for _, plain in _parsed(raw)).decode("utf-8", "surrogateescape")
    return {one for one in text if unicodedata.category(one) in _INVISIBLE and one not in "\r\n"}


def _parsed(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(raw):
        if raw[at] != 0x1B:
            end = raw.find(b"\x1b", at)
            end = len(raw) if end < 0 else end
            yield b"", raw[at:end]
            at = end
            continue
        match = _CSI.match(raw, at) or _STRING.match(raw, at) or _SHORT.match(raw, at)
        if match is None:
            yield b"stray escape", b""
            at += 1
            continue
        whole = match[0]
        if match.re is _CSI:
            yield (match[2] if match[2] in _MADE else whole), b""
        else:
            yield whole, b""
        at = match.end()
