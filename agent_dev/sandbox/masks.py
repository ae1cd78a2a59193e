"""Mask credentials: find them in shown directories and repositories, and create empty files to mount over them."""

import os

from agent_dev.errors import Refused, UnusableStateDirectory
from agent_dev.paths import is_below
from agent_dev.sandbox.plan import MaskEntry
from agent_dev.value import Value

_MAX_ENTRIES = 200_000  # entries of a repository searched for `mask:`
_MAX_MASKED_ENTRIES = 20_000  # entries of masked directories, searched for matches of other patterns


def create_mask_layer(path: str, blanks: tuple[MaskEntry, ...]) -> None:
    """Create a mask layer unless it exists: a file for each entry, an empty opaque directory for a name that ends in a slash."""
    try:
        os.utime(path)  # as `clean` removes those that were not used for long
    except FileNotFoundError:
        _create_mask_layer(path, blanks)


def _create_mask_layer(path: str, blanks: tuple[MaskEntry, ...]) -> None:
    temp = f"{path}.{os.getpid()}"
    os.makedirs(temp, 0o755)
    fill_mask_layer(temp, blanks)
    try:
        os.rename(temp, path)
    except OSError:
        from agent_dev.fs.rmtree import remove_tree  # another start created it first

        remove_tree(temp)


def fill_mask_layer(folder: str, blanks: tuple[MaskEntry, ...]) -> None:
    """Create the files and empty directories in the upper layer of an overlay."""
    for mask in blanks:
        path = f"{folder}/{mask.name.rstrip('/')}"
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        if not mask.name.endswith("/"):
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444)
            os.write(fd, mask.data)
            os.close(fd)
            continue
        os.makedirs(path, 0o755, exist_ok=True)
        try:
            os.setxattr(path, "user.overlay.opaque", b"y")
        except OSError as error:
            hint = "set `state:` in config.yaml to a directory on a local disk"
            raise UnusableStateDirectory(path=folder, reason=f"no extended attributes ({error.strerror})", hint=hint) from None


class MaskedPaths(Value):
    """The outermost files and directories of a root that patterns match, and the patterns that match nothing."""

    paths: tuple[str, ...]
    unmatched: tuple[str, ...]


def find_masked(root: str, patterns: tuple[str, ...], upper: str = "") -> MaskedPaths:
    """Find the files and directories of a root that `mask:` patterns match; links are not followed.

    `upper`: the upper layer of a resumed session, which may hide the root's own entries. Raises Refused for a tree too large.
    """
    masked, unmatched = _search(root, [""], patterns, _MAX_ENTRIES)
    if unmatched and (folders := [path[len(root) + 1 :] for path in masked if os.path.isdir(path)]):
        unmatched = _unmatched_below(root, folders, unmatched)
    paths = tuple(path for path in masked if not (upper and _is_hidden(upper, path[len(root) + 1 :])))
    return MaskedPaths(paths, unmatched)


def _unmatched_below(root: str, folders: list[str], patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns that match nothing in masked directories; none if there is too much to search."""
    try:
        return _search(root, folders, patterns, _MAX_MASKED_ENTRIES)[1]
    except Refused:
        return ()


def _search(root: str, folders: list[str], patterns: tuple[str, ...], limit: int) -> tuple[list[str], tuple[str, ...]]:
    """Return the outermost paths below some directories that patterns match, and the patterns that match nothing."""
    from agent_dev.path_patterns import PatternIndex  # most runs mask nothing

    matcher = PatternIndex(tuple((pattern, number) for number, pattern in enumerate(patterns)))
    paths: list[str] = []
    matched: set[int] = set()
    entries_left = limit
    while folders:
        for entry in _entries(root, folders.pop()):
            entries_left -= 1
            if entries_left < 0:
                raise Refused(
                    message=f"mask: {root} has more than {limit} entries to search", hint="remove `mask:` from the profile"
                )
            path = entry.path[len(root) + 1 :]
            if path == ".git":
                continue
            if numbers := matcher.matching_path(os.fsencode(path)):
                if targets := _mask_target(root, path, ""):
                    paths += targets
                    matched |= numbers
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
    return paths, tuple(pattern for number, pattern in enumerate(patterns) if number not in matched)


def filter_unmasked(root: str, patterns: tuple[str, ...], paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of a root that no pattern masks, directly or by a parent directory."""
    hidden = find_masked(root, patterns).paths
    return tuple(path for path in paths if not any(is_below(os.path.realpath(f"{root}/{path}"), mask) for mask in hidden))


def find_credentials(root: str, names: tuple[str, ...], upper: str) -> tuple[str, ...]:
    """Return the paths of the named credentials that exist in a root."""
    return tuple(path for name in names for path in _mask_target(root, name.rstrip("/"), upper))


def _entries(root: str, folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(f"{root}/{folder}" if folder else root) as entries:
            return list(entries)
    except PermissionError:
        return []  # the agent runs as the same user and cannot read it either


def _mask_target(root: str, path: str, upper: str) -> tuple[str, ...]:
    """Return the path to mask so that `path` cannot be read: of a link its target within the root; nothing if there is none."""
    real = os.path.realpath(f"{root}/{path}")
    if not real.startswith(root + "/") or not (os.path.isfile(real) or os.path.isdir(real)):
        return ()
    return () if upper and _is_hidden(upper, real[len(root) + 1 :]) else (real,)


def _is_hidden(upper: str, path: str) -> bool:
    """Return whether the upper layer hides a path: then the root's own entry cannot be read."""
    entry = upper
    for part in path.split("/"):
        entry = f"{entry}/{part}"
        if not os.path.lexists(entry):
            return False
        if not os.path.isdir(entry) or os.path.islink(entry):
            return not os.path.isfile(entry) or os.path.islink(entry)
        if "user.overlay.opaque" in os.listxattr(entry, follow_symlinks=False):
            return True
    return False
