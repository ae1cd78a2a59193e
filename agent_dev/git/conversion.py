"""What git's conversions do to a blob on its way to the disk (git: convert.c)."""

from collections.abc import Mapping
from enum import StrEnum

ATTRIBUTES = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")
_NOTHING = ("unspecified", "unset")


class Conversion(StrEnum):
    """What becomes of a blob: nothing, CRs before its LFs, the same unless it is no text, or what only a program knows."""

    NONE = "none"
    CRLF = "crlf"
    AUTO = "auto"
    PROGRAM = "program"


def conversion(attributes: Mapping[str, str], config: Mapping[str, str]) -> Conversion:
    """Tell by a path's attributes and the user's configuration what its blob becomes."""
    if any(attributes.get(name, "unset") not in _NOTHING for name in ("filter", "ident", "working-tree-encoding")):
        return Conversion.PROGRAM
    text, eol = attributes.get("text", "unspecified"), attributes.get("eol", "unspecified")
    if text == "unspecified":
        text = {"input": "input", "set": "set", "unset": "unset"}.get(attributes.get("crlf", ""), text)
    if text == "unset" or not _is_crlf(text, eol, config):
        return Conversion.NONE
    is_told = text == "set" or (text == "unspecified" and eol == "crlf")
    return Conversion.CRLF if is_told else Conversion.AUTO


def _is_crlf(text: str, eol: str, config: Mapping[str, str]) -> bool:
    if text == "input" or eol == "lf":
        return False
    if eol == "crlf":
        return True
    automatic = config.get("core.autocrlf", "false").lower()
    if text == "unspecified":
        return automatic == "true"
    if automatic in ("true", "input"):
        return automatic == "true"
    return config.get("core.eol", "").lower() == "crlf"


def smudged(blob: bytes, how: Conversion) -> bytes:
    """Return the bytes that a blob has on the disk; one that needs a program stays as it is."""
    if how in (Conversion.NONE, Conversion.PROGRAM):
        return blob
    if how is Conversion.AUTO and (b"\r" in blob or b"\0" in blob):
        return blob  # it is no text, or has been kept as it is
    return blob.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def on_disk(blob: bytes, size: int) -> bytes | None:
    """Return the bytes of a file of `size` bytes that git keeps as `blob`, None when that is not certain.

    For files without a filter, an ident or an encoding (gitattributes): what is left takes CRs before LFs away on the way
    into git, and adds them on the way out, so that equal sizes are equal bytes, and one CR for each LF is one before each.
    """
    if len(blob) == size:
        return blob
    if len(blob) + blob.count(b"\n") == size and b"\r" not in blob:
        return blob.replace(b"\n", b"\r\n")
    return None
