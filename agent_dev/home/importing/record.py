"""The record of an import, in the state directory: the version of each item in the real home, and that of its copy."""

import json
import os
import time

from agent_dev.errors import NewerFile
from agent_dev.fs import state_files
from agent_dev.home import index_paths
from agent_dev.home.importing.items import Imported

_VERSION = 1
_LARGEST = 64 << 20  # bytes


def read(state: str, home: str) -> dict[str, Imported]:
    """Return the imports into an agent home, by name; none if the record is missing or damaged. Raises NewerFile."""
    path = _path(state, home)
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read(_LARGEST))
        version = document["version"]
        if version == _VERSION:
            return {
                name: Imported(int(row["time"]), dict(row["marks"]), dict(row["copies"]))
                for name, row in document["items"].items()
            }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    if type(version) is int and version > _VERSION:
        hint = "upgrade agent-dev, or remove the file: every item counts as not imported then"
        raise NewerFile(path=path, found=version, known=_VERSION, hint=hint)
    return {}


def add(state: str, home: str, name: str, marks: dict[str, str], copies: dict[str, str]) -> None:
    """Record an import of an item. Raises NewerFile."""
    rows = {one: {"time": row.time, "marks": row.marks, "copies": row.copies} for one, row in read(state, home).items()}
    rows[name] = {"time": int(time.time()), "marks": marks, "copies": copies}
    os.makedirs(f"{state}/homes", 0o700, exist_ok=True)
    state_files.replace_file(_path(state, home), json.dumps({"version": _VERSION, "items": rows}).encode())


def _path(state: str, home: str) -> str:
    return f"{index_paths.index_prefix(state, home)}.import"
