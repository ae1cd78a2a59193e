"""Parsers for git's ref files. The input may have been written by an agent."""

_HEX = frozenset("0123456789abcdef")


def parse_ref(data: bytes) -> str | None:
    """Return the object id in a ref file; None for a symbolic ref and for anything else."""
    value = data.strip().decode("ascii", "replace")
    return value if len(value) in (40, 64) and _HEX.issuperset(value) else None


def parse_packed_refs(data: bytes) -> dict[str, str]:
    """Parse a packed-refs file: name → object id, without the peeled lines."""
    refs = {}
    for line in data.split(b"\n"):
        if line and line[:1] not in b"#^":
            value, _, name = line.partition(b" ")
            refs[name.decode("utf-8", "surrogateescape")] = value.decode("ascii", "replace")
    return refs


def parse_stash_ids(log: bytes) -> tuple[str, ...]:
    """Return the ids of the stash's entries from its reflog."""
    rows = (line.split(b" ", 2) for line in log.split(b"\n"))
    found = (parse_ref(fields[1]) for fields in rows if len(fields) > 2)
    return tuple(oid for oid in found if oid is not None)


def parse_alternates(data: bytes) -> tuple[bytes, ...]:
    """Return the paths in `objects/info/alternates` (git: parse_alt_odb_entry), one per line, some with C quoting."""
    lines = (line for line in data.split(b"\n") if line and line[:1] != b"#")
    return tuple(_unquote(line) if line[:1] == b'"' and line[-1:] == b'"' and len(line) > 1 else line for line in lines)


def _unquote(line: bytes) -> bytes:
    escapes = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
    text, found = line[1:-1], b""
    while text:
        plain, escape, text = text.partition(b"\\")
        found += plain
        if escape and text[:3].isdigit():
            found, text = found + bytes((int(text[:3], 8) & 0xFF,)), text[3:]
        elif escape:
            found, text = found + escapes.get(text[:1], text[:1]), text[1:]
    return found
