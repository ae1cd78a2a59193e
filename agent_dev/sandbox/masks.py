"""What hides secrets: fronts of empty files laid over directories that have or could have some, and masks in a repository."""

import os

from agent_dev.errors import Refused, StateUnusable
from agent_dev.sandbox.plan import is_below

_MOST = 200_000  # entries of a repository that are looked at for `mask:`


def make(place: str, names: tuple[str, ...]) -> None:
    """Make a front once: an empty file for each name, an empty and opaque directory for one that ends in a slash."""
    if os.path.isdir(place):
        return
    temp = f"{place}.{os.getpid()}"
    os.makedirs(temp, 0o755)
    fill(temp, names)
    try:
        os.rename(temp, place)
    except OSError:
        from agent_dev.fs.rmtree import remove_tree  # another start was quicker

        remove_tree(temp)


def fill(folder: str, names: tuple[str, ...]) -> None:
    """Put the empty files and directories into the upper layer of an overlay."""
    for name in names:
        path = f"{folder}/{name.rstrip('/')}"
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        if not name.endswith("/"):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444))
            continue
        os.makedirs(path, 0o755, exist_ok=True)
        try:
            os.setxattr(path, "user.overlay.opaque", b"y")
        except OSError as error:
            hint = "set `state:` in config.yaml to a directory on a local disk"
            raise StateUnusable(path=folder, reason=f"no extended attributes ({error.strerror})", hint=hint) from None


def masked(root: str, patterns: tuple[str, ...], upper: str = "") -> tuple[str, ...]:
    """Return the files and directories of a root that patterns of `mask:` mean, outermost only; no link is followed.

    `upper` is a resumed session's: what stands there hides the root's own. Raises Refused for a tree that is too large.
    """
    from agent_dev.path_patterns import Patterns  # most runs mask nothing

    known = Patterns(tuple((pattern, 0) for pattern in patterns))
    found: list[str] = []
    folders = [""]
    left = _MOST
    while folders:
        for entry in _entries(root, folders.pop()):
            left -= 1
            if left < 0:
                raise Refused(message=f"mask: {root} has more than {_MOST} entries", hint="take `mask:` out of the profile")
            path = entry.path[len(root) + 1 :]
            if path == ".git":
                continue
            if known.matching(os.fsencode(path)):
                found += _shown(root, path, upper)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
    return tuple(found)


def unmasked(root: str, patterns: tuple[str, ...], paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of a root that no pattern hides, by themselves or by a directory above."""
    hidden = masked(root, patterns)
    return tuple(path for path in paths if not any(is_below(os.path.realpath(f"{root}/{path}"), one) for one in hidden))


def credentials(root: str, names: tuple[str, ...], upper: str) -> tuple[str, ...]:
    """Return the paths of credentials that a root has."""
    return tuple(path for name in names for path in _shown(root, name.rstrip("/"), upper))


def _entries(root: str, folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(f"{root}/{folder}" if folder else root) as entries:
            return list(entries)
    except PermissionError:
        return []  # the agent, the same user, cannot read it either


def _shown(root: str, path: str, upper: str) -> tuple[str, ...]:
    """Return what must be covered so that a path cannot be read: a link's target in the root too, nothing for what is gone."""
    real = os.path.realpath(f"{root}/{path}")
    if not real.startswith(root + "/") or not (os.path.isfile(real) or os.path.isdir(real)):
        return ()
    return () if upper and _is_hidden(upper, real[len(root) + 1 :]) else (real,)


def _is_hidden(upper: str, path: str) -> bool:
    """Whether an upper shows something else there, or nothing: then the root's own cannot be read."""
    place = upper
    for part in path.split("/"):
        place = f"{place}/{part}"
        if not os.path.lexists(place):
            return False
        if not os.path.isdir(place) or os.path.islink(place):
            return not os.path.isfile(place) or os.path.islink(place)
        if "user.overlay.opaque" in os.listxattr(place, follow_symlinks=False):
            return True
    return False
