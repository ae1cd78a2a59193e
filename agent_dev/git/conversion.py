"""Git's conversions of a blob on checkout (git: convert.c)."""

import codecs
from collections.abc import Mapping
from enum import StrEnum

from agent_dev.git.object_id import blob_id
from agent_dev.quick_dataclass import dataclass

ATTRIBUTES = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")
_UNSET = ("unspecified", "unset")
LFS = "lfs"
# Encodings that Python and glibc's iconv write alike, with the byte order mark that git or iconv writes.
_ENCODINGS = {
    "utf-16": ("utf-16-le", codecs.BOM_UTF16_LE),
    "utf-16le": ("utf-16-le", b""),
    "utf-16be": ("utf-16-be", b""),
    "utf-16le-bom": ("utf-16-le", codecs.BOM_UTF16_LE),
    "utf-16be-bom": ("utf-16-be", codecs.BOM_UTF16_BE),
    "utf-32": ("utf-32-le", codecs.BOM_UTF32_LE),
    "utf-32le": ("utf-32-le", b""),
    "utf-32be": ("utf-32-be", b""),
    "us-ascii": ("ascii", b""),
    "iso-8859-1": ("latin-1", b""),
    "latin1": ("latin-1", b""),
    "iso-8859-2": ("iso8859-2", b""),
    "iso-8859-5": ("iso8859-5", b""),
    "iso-8859-15": ("iso8859-15", b""),
    "koi8-r": ("koi8-r", b""),
}
_UTF8 = ("utf-8", "utf8")


class LineEndings(StrEnum):
    """Line endings that a checkout writes: unchanged, CRLF, or CRLF unless the blob looks binary."""

    NONE = "none"
    CRLF = "crlf"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The steps that convert a path's blob, in this order. `filter_driver` is the user's filter driver, applied last."""

    line_endings: LineEndings = LineEndings.NONE
    expands_ident: bool = False
    encoding: str = ""
    filter_driver: str = ""

    @property
    def is_lfs(self) -> bool:
        """Return whether the blob may be a Git LFS pointer and nothing else converts it."""
        return self == Conversion(filter_driver=LFS)

    @property
    def is_simple(self) -> bool:
        """Return whether a blob and its file on disk differ in line endings at most."""
        return not (self.expands_ident or self.encoding or self.filter_driver)


NO_CONVERSION = Conversion()


def find_conversion(attributes: Mapping[str, str], config: Mapping[str, str]) -> Conversion:
    """Return a path's conversion by its attributes and the user's configuration."""
    driver = attributes.get("filter", "unset")
    encoding = attributes.get("working-tree-encoding", "unset")
    return Conversion(
        _line_ends(attributes, config),
        attributes.get("ident") == "set",
        "" if encoding in _UNSET or encoding.lower() in _UTF8 else encoding,
        driver if _has_filter_program(driver, config) else "",
    )


def _has_filter_program(driver: str, config: Mapping[str, str]) -> bool:
    """Return whether the user configured a smudge or process program for a filter, or requires it; git ignores other filters."""
    is_required = config.get(f"filter.{driver}.required", "false").lower() not in ("false", "no", "off", "0", "")
    has_program = any(config.get(f"filter.{driver}.{name}") for name in ("smudge", "process"))
    return driver not in _UNSET and (has_program or is_required)


def _line_ends(attributes: Mapping[str, str], config: Mapping[str, str]) -> LineEndings:
    text, eol = attributes.get("text", "unspecified"), attributes.get("eol", "unspecified")
    if text == "unspecified":
        text = {"input": "input", "set": "set", "unset": "unset"}.get(attributes.get("crlf", ""), text)
    if text == "unset" or not _is_crlf(text, eol, config):
        return LineEndings.NONE
    is_text = text == "set" or (text == "unspecified" and eol == "crlf")
    return LineEndings.CRLF if is_text else LineEndings.AUTO


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


def smudge(blob: bytes, steps: Conversion, *, is_sha256: bool = False) -> bytes | None:
    """Return the bytes that a blob has on disk, None if only a program can produce them; an LFS pointer is returned unchanged."""
    if steps.filter_driver and not steps.is_lfs:
        return None
    data = _expand_ident(blob, blob_id(blob, is_sha256=is_sha256).encode()) if steps.expands_ident else blob
    data = _convert_line_ends(data, steps.line_endings)
    return _encode(data, steps.encoding) if steps.encoding and data else data


def _convert_line_ends(data: bytes, mode: LineEndings) -> bytes:
    if mode is LineEndings.NONE or (mode is LineEndings.AUTO and (b"\r" in data or b"\0" in data)):
        return data  # binary, or stored with CRs
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _expand_ident(data: bytes, oid: bytes) -> bytes:
    """Expand $Id$ to the blob's id (convert.c, ident_to_worktree); ids of other systems stay."""
    parts, position = [], 0
    while (dollar := data.find(b"$", position)) >= 0:
        start = dollar + 1
        parts.append(data[position:start])
        position = start
        if data[start : start + 3] == b"Id$":
            end = start + 2
        elif data[start : start + 3] == b"Id:":
            end = data.find(b"$", start + 3)
            if end < 0:
                break
            content = data[start + 3 : end]
            if b"\n" in content or 0 <= content.find(b" ", 1) < len(content) - 1:
                continue
        else:
            continue
        parts.append(b"Id: " + oid + b" $")
        position = end + 1
    return b"".join([*parts, data[position:]])


def _encode(data: bytes, encoding: str) -> bytes | None:
    known = _ENCODINGS.get(encoding.lower())
    try:
        return None if known is None else known[1] + data.decode("utf-8").encode(known[0])
    except UnicodeError:
        return None


def restore_line_endings(blob: bytes, size: int) -> bytes | None:
    """Return the bytes of a file of `size` bytes that git stores as `blob`, None if that is not certain.

    For files without filter, ident or encoding (gitattributes): git only strips CRs before LFs on the way in and adds them on the
    way out, so equal sizes mean equal bytes, and one CR per LF means a CR before each LF.
    """
    if len(blob) == size:
        return blob
    if len(blob) + blob.count(b"\n") == size and b"\r" not in blob:
        return blob.replace(b"\n", b"\r\n")
    return None
