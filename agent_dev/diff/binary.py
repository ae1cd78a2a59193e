"""Detection of binary data, which has no lines to show."""

_HEAD_SIZE = 8000  # git looks at as many bytes (xdiff-interface.c)
_MIN_TEXT_SIZE = 8  # bytes of a text that contains NULs
_CONTROLS = bytes((*range(9), 0x0B, *range(0x0E, 0x20), 0x7F))


def is_binary(data: bytes) -> bool:
    """Return whether data is binary: a NUL near the start, as in git, and the rest is not text.

    By git's rule alone, one NUL would hide a whole text from a review. A tar archive of texts is binary.
    """
    head = data[:_HEAD_SIZE]
    return b"\0" in head and (data[257:262] == b"ustar" or not _is_text(head.replace(b"\0", b"")))


def _is_text(data: bytes) -> bool:
    """Return whether nearly all bytes are printable, or UTF-8."""
    unprintable = len(data) - len(data.translate(None, _CONTROLS))
    if not data.isascii():
        unprintable += data.decode("utf-8", "replace").count("\ufffd")
    return b"\n" in data and len(data) >= _MIN_TEXT_SIZE and unprintable * 32 <= len(data)
