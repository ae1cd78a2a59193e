"""Look up programs on the host."""

import os

from agent_dev.paths import is_below


def find_program(name: str, environ: dict[str, str], untrusted: tuple[str, ...] = ()) -> str | None:
    """Return the absolute path of a program on PATH; relative and agent-writable directories are skipped.

    The default agent home is never trusted, even if another one is in use.
    """
    excluded = (*untrusted, os.path.realpath(environ.get("HOME", "/") + "/aihome"))
    for folder in environ.get("PATH", os.defpath).split(":"):
        path = f"{folder}/{name}"
        if folder.startswith("/") and os.access(path, os.X_OK) and os.path.isfile(path):
            real = os.path.realpath(path)
            if not any(is_below(real, below) or is_below(path, below) for below in excluded):
                return path
    return None
