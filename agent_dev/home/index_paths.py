"""The paths of an agent home's indexes."""

import os


def index_prefix(state: str, home: str) -> str:
    """Return the path of a home's indexes, without suffix."""
    found = os.stat(home)
    return f"{state}/homes/{found.st_dev:x}-{found.st_ino:x}"
