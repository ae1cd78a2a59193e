"""Paths of the host and of the sandbox, as text."""

import os

from agent_dev.errors import Refused

GIT = b".git"
RUN = "/run/agent-dev"  # our files in the sandbox: sockets, programs, object stores, terminfo


def worker_folder(environ: dict[str, str]) -> str:
    """Return the folder of the repositories in which this machine runs tasks of others. Nothing is created."""
    data = environ.get("XDG_DATA_HOME", "")
    return f"{data if data.startswith('/') else environ.get('HOME', '') + '/.local/share'}/agent-dev-fleet"


def expand(path: str, home: str) -> str:
    """Return `path` with a leading `~` replaced by `home`."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def escape_in_string(path: str) -> str:
    """Return a path as it is written within the quotes of a string in JSON or TOML."""
    return "".join(f"\\u{ord(one):04x}" if one < " " or one == "\x7f" else f"\\{one}" if one in '"\\' else one for one in path)


def split_optional(path: str) -> tuple[str, bool]:
    """Return a path of a settings file without its trailing `?`, and whether it had one: then it may be absent."""
    return (path[:-1], True) if path.endswith("?") else (path, False)


def is_below(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_under_git(path: bytes) -> bytes | None:
    """Return the `.git` that a path is or is below, None without one; compares names case-insensitively."""
    if b".git" not in path.lower():
        return None
    parts = path.split(b"/")
    for number, part in enumerate(parts):
        if part.lower() == GIT:
            return b"/".join(parts[: number + 1])
    return None


def absolute(path: str) -> str:
    """Return `path` as an absolute path. Raises Refused if the current directory was removed."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        hint = "cd to an existing directory, or name one with -C"
        raise Refused(message="the current directory no longer exists", hint=hint) from None
