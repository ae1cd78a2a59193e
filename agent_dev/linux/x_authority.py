"""The entries of an Xauthority file (Xau(3)) for one display, made valid in a sandbox, which has its own host name."""

_LOCAL, _WILD = 256, 0xFFFF  # families: this host by name, any host
_PARTS = 4  # of an entry: address, number of the display, name of the method, key


def wild_entries(data: bytes, number: str) -> bytes:
    """Return the entries for a local display as ones for any host and display; incomplete ones are left out."""
    found = b""
    offset = 0
    while offset + 2 <= len(data):
        family = int.from_bytes(data[offset : offset + 2])
        offset += 2
        parts = []
        for _ in range(_PARTS):
            size = int.from_bytes(data[offset : offset + 2])
            parts.append(data[offset + 2 : offset + 2 + size])
            offset += 2 + size
        if offset > len(data):
            break
        _, display, method, key = parts
        if family in (_LOCAL, _WILD) and display in (b"", number.encode()):
            found += _WILD.to_bytes(2) + b"".join(len(part).to_bytes(2) + part for part in (b"", b"", method, key))
    return found
