"""Look up programs on the host."""

import os

from agent_dev.paths import is_below


def find_program(name: str, environ: dict[str, str], untrusted: tuple[str, ...] = ()) -> str | None:
    """Return the absolute path of a program on PATH, or of an absolute one; relative and agent-writable ones are skipped.

    The default agent home is never trusted, even if another one is in use.
    """
    excluded = (*untrusted, os.path.realpath(environ.get("HOME", "/") + "/aihome"))
    folders = environ.get("PATH", os.defpath).split(":")
    for path in [name] if name.startswith("/") else [f"{folder}/{name}" for folder in folders]:
        if path.startswith("/") and os.access(path, os.X_OK) and os.path.isfile(path):
            real = os.path.realpath(path)
            if not any(is_below(real, below) or is_below(path, below) for below in excluded):
                return path
    return None
