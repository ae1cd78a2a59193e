"""Users of the host."""

import os
import pwd

from agent_dev.errors import CannotStart


def home_directory(environ: dict[str, str]) -> str:
    """Return the user's home directory. Raises CannotStart when there is none; it is never created."""
    path = environ.get("HOME", "")
    if not path.startswith("/"):
        raise CannotStart(message="HOME is not set to an absolute path", hint="set HOME")
    if not os.path.isdir(path):
        raise CannotStart(
            message=f"HOME is {path}, which is not a directory", hint="create it, or set HOME to an existing directory"
        )
    return os.path.realpath(path)


def user_name(uid: int) -> str:
    """Return an account's name, or its number if it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
