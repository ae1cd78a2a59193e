"""Directories below the agent home, made and opened step by step without ever following a link."""

import os

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def walk(start: int, path: str, *, last_is_file: bool = False) -> int:
    """Return an O_PATH descriptor of `path` below the directory `start`; a link or a file in the way is an OSError."""
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
        raise OSError(22, f"{path} leaves its directory")
    return parts


def make(start: int, path: str) -> tuple[str, ...]:
    """Make the directories of `path` below `start` that are missing; return those made, outermost first."""
    made: list[str] = []
    here = os.dup(start)
    try:
        done = ""
        for part in _parts(path):
            done = f"{done}/{part}" if done else part
            try:
                os.mkdir(part, 0o755, dir_fd=here)
                made.append(done)
            except FileExistsError:
                pass
            below = os.open(part, _STEP | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)
    return tuple(made)


def make_file(start: int, path: str) -> tuple[str, ...]:
    """Make an empty file at `path` below `start` where nothing is; return what was made, outermost first."""
    folder, _, name = "/".join(_parts(path)).rpartition("/")
    made = make(start, folder)
    parent = walk(start, folder)
    try:
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_WRONLY, 0o444, dir_fd=parent)
        os.close(fd)
        made += (path,)
    except FileExistsError:
        pass
    finally:
        os.close(parent)
    return made


def unmake(start: int, paths: tuple[str, ...]) -> None:
    """Remove again what `make` and `make_file` made, innermost first, as far as it is still empty and ours."""
    for path in reversed(paths):
        folder, _, name = path.rpartition("/")
        try:
            parent = walk(start, folder)
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
        pass  # the agent put something there, or took it away: it is the agent's now
