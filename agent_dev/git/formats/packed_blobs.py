"""Two blobs of one path, packed: what changes of trees and of the index consist of."""

from struct import Struct
from struct import error as StructError  # noqa: N812

from agent_dev.packed import Packed

Blob = tuple[int, str]  # git's mode, 0 for none, and an object id in hex, "" for none
_LAYOUT = Struct("<IIBB")  # both modes, and how long the ids are that follow
_OLD_SIZE, _NEW_SIZE = 8, 9  # offsets


def pack_blobs(old: Blob, new: Blob, rest: bytes) -> bytes:
    """Pack two blobs and what follows them. Raises ValueError for an id that is not in hex or an impossible mode."""
    ids = bytes.fromhex(old[1]), bytes.fromhex(new[1])
    try:
        return b"".join((_LAYOUT.pack(old[0], new[0], len(ids[0]), len(ids[1])), *ids, rest))
    except StructError as error:
        raise ValueError(f"no blobs have these values: {error}") from error


class PackedBlobs(Packed):
    """The values that `pack_blobs` packed."""

    __slots__ = ()

    @property
    def old(self) -> Blob:
        """The old blob."""
        old, _, size, _ = _LAYOUT.unpack_from(self)
        return old, self[_LAYOUT.size : _LAYOUT.size + size].hex()

    @property
    def new(self) -> Blob:
        """The new blob."""
        _, new, skipped, size = _LAYOUT.unpack_from(self)
        return new, self[_LAYOUT.size + skipped : _LAYOUT.size + skipped + size].hex()

    @property
    def rest(self) -> bytes:
        """The bytes after the blobs."""
        return self[_LAYOUT.size + self[_OLD_SIZE] + self[_NEW_SIZE] :]
