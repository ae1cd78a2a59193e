"""Write a file atomically, without following a symlink that an agent may have created."""

import os
import secrets
import stat
from collections.abc import Iterable, Sequence

from agent_dev.errors import UsageError
from agent_dev.fs import durable

_MAX_LINKS = 40  # as the kernel allows
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTRY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_HINT = "agent-dev merge --html FILE (-: stdout)"


def write_file(path: str, pieces: Iterable[str], untrusted: Sequence[str]) -> None:
    """Write a new file, or replace a regular one, durably.

    `untrusted`: directories in which an agent may have created symlinks. Raises UsageError for a path that cannot be used.
    """
    parent, name = os.path.split(os.path.abspath(path))
    folder = _open_directory(parent, path, [os.path.realpath(one) for one in untrusted])
    try:
        _check_target(folder, name, path)
        temporary = f".agent-dev-{secrets.token_hex(8)}".encode()
        try:
            fd = durable.create(temporary, folder, 0o666)
        except OSError as error:
            raise UsageError(message=f"{path}: {error.strerror}", hint=_HINT) from None
        try:
            try:
                _write(fd, pieces)
            finally:
                os.close(fd)
            durable.replace(folder, temporary, os.fsencode(name))
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
        durable.sync_directory(folder)
    finally:
        os.close(folder)


def _write(fd: int, pieces: Iterable[str]) -> None:
    with open(fd, "w", encoding="utf-8", newline="\n", closefd=False) as file:
        file.writelines(pieces)
    durable.fsync(fd)


def _check_target(folder: int, name: str, path: str) -> None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(message=f"{path}: {error.strerror}", hint=_HINT) from None
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(message=f"{path} is not a regular file", hint=_HINT)


def _open_directory(parent: str, path: str, untrusted: Sequence[str]) -> int:
    """Open a directory component by component; follow only symlinks outside of the untrusted directories."""
    fd = os.open("/", _DIRECTORY)
    left = parent.split("/")[::-1]
    links = 0
    try:
        while left:
            name = left.pop()
            if not name:
                continue
            entry = os.open(name, _ENTRY, dir_fd=fd)
            if not stat.S_ISLNK(os.fstat(entry).st_mode):
                os.close(fd)
                fd = entry
                continue
            target = os.readlink("", dir_fd=entry)
            os.close(entry)
            links += 1
            if links > _MAX_LINKS or _is_below(os.readlink(f"/proc/self/fd/{fd}"), untrusted):
                raise UsageError(message=f"{path}: {name} is a symlink, which may be the agent's", hint=_HINT)
            left += target.split("/")[::-1]
            if target.startswith("/"):
                os.close(fd)
                fd = os.open("/", _DIRECTORY)
    except OSError as error:
        os.close(fd)
        raise UsageError(message=f"{path}: {error.strerror}", hint=_HINT) from None
    except UsageError:
        os.close(fd)
        raise
    return fd


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(folder and (path == folder or path.startswith(folder.rstrip("/") + "/")) for folder in folders)
