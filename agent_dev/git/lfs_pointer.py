"""Pointers of Git LFS: what stands in a blob for a file whose content is kept beside git (git-lfs: docs/spec.md)."""

from dataclasses import dataclass

LARGEST = 1024  # bytes of a pointer, says the specification
_START = b"version https://git-lfs.github.com/spec/v1\n"
_HEX = frozenset(b"0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Pointer:
    """Which content is meant: its SHA-256 in hex, and its size in bytes."""

    oid: str
    size: int


def parse(data: bytes) -> Pointer | None:
    """Return what a blob points to, None for one that is no pointer."""
    if len(data) > LARGEST or not data.startswith(_START):
        return None
    rows = dict(line.partition(b" ")[::2] for line in data.split(b"\n"))
    kind, _, oid = rows.get(b"oid", b"").partition(b":")
    size = rows.get(b"size", b"")
    is_good = kind == b"sha256" and len(oid) == 64 and _HEX.issuperset(oid) and size.isdigit() and len(size) < 19
    return Pointer(oid.decode("ascii"), int(size)) if is_good else None
