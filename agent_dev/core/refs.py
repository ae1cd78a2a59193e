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
