"""Git's ref files as bytes → values; everything here may have been written by an agent."""

_HEX = frozenset("0123456789abcdef")


def parse_ref(data: bytes) -> str | None:
    """Return the object id that a ref file holds; None for a symbolic ref and for anything else."""
    value = data.strip().decode("ascii", "replace")
    return value if len(value) in (40, 64) and _HEX.issuperset(value) else None


def packed_refs(data: bytes) -> dict[str, str]:
    """Parse a packed-refs file: name → object id, without the peeled lines."""
    refs = {}
    for line in data.split(b"\n"):
        if line and line[:1] not in b"#^":
            value, _, name = line.partition(b" ")
            refs[name.decode("utf-8", "surrogateescape")] = value.decode("ascii", "replace")
    return refs


def stash_ids(log: bytes) -> tuple[str, ...]:
    """Return the ids of a stash's entries by its reflog."""
    words = (line.split(b" ", 2) for line in log.split(b"\n"))
    found = (parse_ref(row[1]) for row in words if len(row) > 2)
    return tuple(oid for oid in found if oid is not None)


def alternates(data: bytes) -> tuple[bytes, ...]:
    """Return the paths in an `objects/info/alternates` (git: parse_alt_odb_entry): a line each, some quoted as in C."""
    lines = (line for line in data.split(b"\n") if line and line[:1] != b"#")
    return tuple(_unquoted(line) if line[:1] == b'"' and line[-1:] == b'"' and len(line) > 1 else line for line in lines)


def _unquoted(line: bytes) -> bytes:
    letters = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
    text, found = line[1:-1], b""
    while text:
        plain, escape, text = text.partition(b"\\")
        found += plain
        if escape and text[:3].isdigit():
            found, text = found + bytes((int(text[:3], 8) & 0xFF,)), text[3:]
        elif escape:
            found, text = found + letters.get(text[:1], text[:1]), text[1:]
    return found
