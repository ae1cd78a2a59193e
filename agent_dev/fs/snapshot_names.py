"""Names of file-system snapshots that are stored in the tree they were taken of."""

import os

_SUBVOLUME = 256  # the inode of the root of every btrfs subvolume


def snapshot_name(name: str) -> str:
    """Return the file name for a snapshot that is next to its directory or in it."""
    return f".agent-dev-snapshot.{name}"


def snapshots_in(root: str) -> tuple[str, ...]:
    """Return the names in a directory that are snapshots of it, created by us or by snapper."""
    own = tuple(name for name in os.listdir(root) if name.startswith(snapshot_name("")))
    is_snapper = os.path.isdir(f"{root}/.snapshots") and os.stat(f"{root}/.snapshots").st_ino == _SUBVOLUME
    return (*own, ".snapshots") if is_snapper else own
