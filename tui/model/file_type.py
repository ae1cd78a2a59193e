"""Recognize the type of a binary file by its first bytes."""

import struct

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"\x7fELF", "ELF program or library"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"\xca\xfe\xba\xbe", "Java class or universal Mach-O program"),
    (b"\0asm", "WebAssembly"),
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\0", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"OggS", "Ogg media"),
    (b"wOFF", "WOFF font"),
    (b"wOF2", "WOFF2 font"),
)


def describe_type(data: bytes) -> str:
    """Return the type of a file, and the size of an image in pixels."""
    name = next((name for start, name in _MAGIC if data.startswith(start)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        name = "WebP image"
    size = _pixels(data)
    return f"{name or 'binary'}{f', {size[0]} by {size[1]} pixels' if size else ''}"


def _pixels(data: bytes) -> tuple[int, int] | None:
    if data.startswith(b"\x89PNG") and data[12:16] == b"IHDR" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return int(width), int(height)
    if data[:4] == b"GIF8" and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return int(width), int(height)
    return _jpeg(data) if data.startswith(b"\xff\xd8\xff") else None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Walk the segments to the one that starts a frame (ITU T.81, B.2.2)."""
    offset = 2
    while offset + 9 <= len(data) and data[offset] == 0xFF:
        marker = data[offset + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[offset + 5 : offset + 9])
            return int(width), int(height)
        offset += 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
    return None
