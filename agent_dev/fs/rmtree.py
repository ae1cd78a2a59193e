"""Removing whole trees of ours: of any depth, with directories nobody may enter, never following a link."""

import os

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove `path` and all below it; nothing if it is not there. The path's own parents are trusted."""
    parent = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _remove(parent, os.path.basename(path))
    except FileNotFoundError:
        pass
    finally:
        os.close(parent)


def remove_session(folder: str) -> None:
    """Remove a session's folder, and first the hard links of its own that had to lie on another file system (host/farm)."""
    try:
        fd = os.open(f"{folder}/objects.elsewhere", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        remove_tree(folder)
        return
    places = os.read(fd, 1 << 20).split(b"\0")
    os.close(fd)
    for place in places:
        if place and os.path.isdir(place):
            remove_tree(os.fsdecode(place))
    remove_tree(folder)


def _remove(parent: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=parent)
        return
    except (IsADirectoryError, PermissionError):
        pass  # a directory: EISDIR, or EPERM as POSIX has it
    # Down by openat, up by `..`: one descriptor at any depth, no recursion.
    here = _enter(parent, name)
    stack = [(name, _empty_files(here))]
    try:
        while stack:
            name, below = stack[-1]
            if below:
                child = below.pop()
                here, old = _enter(here, child), here
                os.close(old)
                stack.append((child, _empty_files(here)))
                continue
            stack.pop()
            up = _up(here) if stack else os.dup(parent)
            os.close(here)
            here = up
            os.rmdir(name, dir_fd=here)
    finally:
        os.close(here)


def _enter(parent: int, name: str) -> int:
    try:
        return os.open(name, _OPEN, dir_fd=parent)
    except PermissionError:
        _let_us_in(parent, name)
        return os.open(name, _OPEN, dir_fd=parent)


def _let_us_in(parent: int, name: str) -> None:
    """Make a directory ours to enter; a link that an agent put in its place meanwhile is not followed."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)


def _up(here: int) -> int:
    try:
        return os.open("..", _OPEN, dir_fd=here)
    except PermissionError:
        os.chmod(here, 0o700)
        return os.open("..", _OPEN, dir_fd=here)


def _empty_files(folder: int) -> list[str]:
    """Remove what is not a directory; return the names of the directories."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    if found:
        os.chmod(folder, 0o700)
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_directory in found if is_directory]
