"""Make hostile text visible: names, contents and messages that an agent wrote, before a person sees them."""

# Characters that redraw, reorder or hide text: bidirectional controls, zero-width characters, separators, tags, selectors.
HIDDEN = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
_PICTURES = 0x2400  # U+2400 … U+241F show the control characters U+0000 … U+001F


def _table() -> dict[int, str]:
    table = {code: chr(_PICTURES + code) for code in range(0x20)}
    table[0x7F] = "\u2421"
    table |= {code: f"<{code:02X}>" for code in range(0x80, 0xA0)}
    for first, last in HIDDEN:
        table |= {code: f"<U+{code:04X}>" for code in range(first, last + 1)}
    # os.fsdecode's surrogates for bytes that are not UTF-8: U+DC80 … U+DCFF are the bytes 0x80 … 0xFF.
    table |= {code: f"\\x{code - 0xDC00:02x}" for code in range(0xDC80, 0xDD00)}
    table |= {code: "\ufffd" for code in range(0xD800, 0xE000) if code not in table}
    return table


_TABLE: dict[int, str] = {}


def visible(text: str | bytes, tab: str = "\u2409") -> str:
    r"""Return text that cannot move the cursor, change colours, hide or reorder itself; every byte stays visible.

    Bytes are decoded as UTF-8; invalid bytes are shown as `\xff`. `tab` replaces a tab.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable():
        return text
    if not _TABLE:
        _TABLE.update(_table())
    return text.replace("\t", tab).translate(_TABLE)
