"""A directory of an overlay."""

from agent_dev.value import Value


class OverlayDirectory(Value):
    """A directory of an overlay: the overlay's number, the path in it, and its device and inode."""

    overlay: int
    path: bytes
    identity: tuple[int, int]
