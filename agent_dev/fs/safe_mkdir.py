"""Directories below the agent home, created and opened component by component without following symlinks."""

import os

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def open_below(start: int, path: str, *, last_is_file: bool = False) -> int:
    """Return an O_PATH descriptor of `path` below the directory `start`. Raises OSError for a symlink or a file on the way."""
    here = os.dup(start)
    try:
        parts = _parts(path)
        for number, part in enumerate(parts):
            kind = 0 if last_is_file and number == len(parts) - 1 else os.O_DIRECTORY
            below = os.open(part, _STEP | kind, dir_fd=here)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        raise OSError(22, f"{path} contains ..")
    return parts


def make_directories(start: int, path: str, mode: int = 0o755) -> tuple[str, ...]:
    """Create the missing directories of `path` below `start`; return those created, outermost first."""
    created: list[str] = []
    here = os.dup(start)
    try:
        path_so_far = ""
        for part in _parts(path):
            path_so_far = f"{path_so_far}/{part}" if path_so_far else part
            try:
                os.mkdir(part, mode, dir_fd=here)
                created.append(path_so_far)
            except FileExistsError:
                pass
            below = os.open(part, _STEP | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)
    return tuple(created)


def make_file(start: int, path: str) -> tuple[str, ...]:
    """Create an empty file at `path` below `start` if nothing exists there; return what was created, outermost first."""
    folder, _, name = "/".join(_parts(path)).rpartition("/")
    created = make_directories(start, folder)
    parent = open_below(start, folder)
    try:
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_WRONLY, 0o444, dir_fd=parent)
        os.close(fd)
        created += (path,)
    except FileExistsError:
        pass
    finally:
        os.close(parent)
    return created


def remove_made(start: int, paths: tuple[str, ...]) -> None:
    """Remove the entries that `make_directories` and `make_file` created, innermost first, if still empty and ours."""
    for path in reversed(paths):
        folder, _, name = path.rpartition("/")
        try:
            parent = open_below(start, folder)
        except OSError:
            continue
        try:
            _remove_empty(parent, name)
        finally:
            os.close(parent)


def _remove_empty(parent: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=parent)
    except NotADirectoryError:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if found.st_size == 0 and found.st_mode & 0o777 == 0o444:
            os.unlink(name, dir_fd=parent)
    except OSError:
        pass  # the agent filled or removed it: now it belongs to the agent
