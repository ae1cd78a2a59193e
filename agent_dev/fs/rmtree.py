"""Remove whole trees of ours: of any depth, including inaccessible directories, without following symlinks."""

import os

from agent_dev.fs import checksummed_json

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove `path` and all below it, if it exists. The path's parents are trusted."""
    parent = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _remove(parent, os.path.basename(path))
    except FileNotFoundError:
        pass
    finally:
        os.close(parent)


def remove_session(folder: str, *, is_last: bool = False) -> None:
    """Remove a session's hard-linked objects on another file system (git.object_links), then its directory.

    `is_last`: also remove the directory that holds such objects next to the user's, if it is empty then.
    """
    for path in remove_external_objects(folder):
        if is_last:
            try:
                os.rmdir(os.path.dirname(path))
            except OSError:
                continue  # other sessions have objects there
    remove_tree(folder)


def remove_external_objects(folder: str) -> tuple[str, ...]:
    """Remove a session's hard-linked objects on another file system; return the paths of their directories."""
    try:
        fd = os.open(f"{folder}/objects.elsewhere", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ()
    lines = os.read(fd, 1 << 20).split(b"\n")
    os.close(fd)
    paths = []
    for line in lines:
        try:
            paths.append(str(checksummed_json.loads(line)["path"]))
        except ValueError:
            continue  # a damaged line could name the directory above
    for path in filter(os.path.isdir, paths):
        remove_tree(path)
    return tuple(paths)


def _remove(parent: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=parent)
        return
    except (IsADirectoryError, PermissionError):
        pass  # a directory: EISDIR, or EPERM according to POSIX
    # Down by openat, up by `..`: one descriptor for any depth, no recursion.
    here = _enter(parent, name)
    stack = [(name, _unlink_files(here))]
    try:
        while stack:
            name, below = stack[-1]
            if below:
                child = below.pop()
                here, old = _enter(here, child), here
                os.close(old)
                stack.append((child, _unlink_files(here)))
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
        _make_accessible(parent, name)
        return os.open(name, _OPEN, dir_fd=parent)


def _make_accessible(parent: int, name: str) -> None:
    """Make a directory accessible; a symlink that an agent put in its place is not followed."""
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


def _unlink_files(folder: int) -> list[str]:
    """Remove everything but directories; return the names of the directories."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    if found:
        os.chmod(folder, 0o700)
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_directory in found if is_directory]
