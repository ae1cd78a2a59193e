"""Parser for Git LFS pointers, the blobs that stand for contents outside of git (git-lfs: docs/spec.md)."""

from agent_dev.quick_dataclass import dataclass

MAX_POINTER_SIZE = 1024  # bytes, by the specification
_START = b"version https://git-lfs.github.com/spec/v1\n"
_HEX = frozenset(b"0123456789abcdef")


@dataclass(frozen=True, slots=True)
class LfsPointer:
    """A Git LFS pointer: SHA-256 in hex and size in bytes of the content."""

    oid: str
    size: int

    @property
    def store_path(self) -> str:
        """The content's path in an LFS store, below `objects`."""
        return f"{self.oid[:2]}/{self.oid[2:4]}/{self.oid}"


def parse_pointer(data: bytes) -> LfsPointer | None:
    """Return the pointer in a blob, None if it is not a pointer."""
    if len(data) > MAX_POINTER_SIZE or not data.startswith(_START):
        return None
    fields = dict(line.partition(b" ")[::2] for line in data.split(b"\n"))
    kind, _, oid = fields.get(b"oid", b"").partition(b":")
    size = fields.get(b"size", b"")
    is_valid = kind == b"sha256" and len(oid) == 64 and _HEX.issuperset(oid) and size.isdigit() and len(size) < 19
    return LfsPointer(oid.decode("ascii"), int(size)) if is_valid else None
