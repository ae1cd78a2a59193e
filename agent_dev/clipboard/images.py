"""Requests for the clipboard, and the images that may be passed on, recognized by their first bytes. Pure."""

TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
MAX_SIZE = 32 << 20  # bytes of an image
LIST = "types"  # the request for the types of the images; any other request is a type
MAX_REQUEST = 64  # bytes of a request, with its newline
_MAGIC = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/bmp": (b"BM",),
}
_RIFF, _WEBP, _WEBP_AT = b"RIFF", b"WEBP", 8
_BMP_SIZE_AT = slice(2, 6)  # a BMP states its own size


def parse_request(line: bytes) -> str:
    """Return a request: LIST or one of TYPES. Raises ValueError with a reason in our own words."""
    text = line.decode("ascii", "replace")
    if text == LIST or text in TYPES:
        return text
    raise ValueError("only images are read from the clipboard: " + ", ".join(one.removeprefix("image/") for one in TYPES))


def offered_types(listing: bytes) -> tuple[str, ...]:
    """Return the types of images in a list of the clipboard's types, one a line."""
    offered = {line.strip() for line in listing.decode("ascii", "replace").splitlines()}
    return tuple(one for one in TYPES if one in offered)


def is_image(kind: str, data: bytes) -> bool:
    """Return whether data begins as an image of a type does."""
    if kind == "image/webp":
        return data.startswith(_RIFF) and data[_WEBP_AT:].startswith(_WEBP)
    if kind == "image/bmp" and int.from_bytes(data[_BMP_SIZE_AT], "little") != len(data):
        return False  # two letters alone may begin a text
    return data.startswith(_MAGIC[kind])
