"""Resolutions of commit conflicts, saved in their session for the next review; each is identified by the ids of all sides."""

import os
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from agent_dev.fs import checksummed_json
from agent_dev.fs.state_files import replace_file
from agent_dev.git.formats.packed_blobs import Blob
from agent_dev.git.merge_tree_conflict import PathConflict
from agent_dev.merge.resolution_codec import FileResolution, decode_resolution, encode_resolution
from agent_dev.quick_dataclass import dataclass, field

_VERSION = 1
_NAME = "conflicts.json"


@dataclass(frozen=True, slots=True)
class SavedResolutions:
    """Resolutions by conflict, the selected conflicts, and the path of the current one."""

    resolutions: Mapping[PathConflict, FileResolution] = field(default_factory=dict)
    selected: frozenset[PathConflict] = frozenset()
    current_path: bytes = b""


def load_resolutions(folder: str) -> SavedResolutions:
    """Return the saved resolutions of a session's folder; none if they cannot be read."""
    try:
        with open(f"{folder}/{_NAME}", "rb") as file:
            return _read(checksummed_json.loads(file.read()))
    except (OSError, ValueError, LookupError, TypeError):
        return SavedResolutions()


def save_resolutions(folder: str, resolutions: SavedResolutions) -> None:
    """Save resolutions in a session's folder, or remove the file if there are none. Errors are ignored."""
    path = f"{folder}/{_NAME}"
    try:
        if not resolutions.resolutions:
            os.unlink(path)
            return
        rows = [
            [*_row(conflict), encode_resolution(resolution), conflict in resolutions.selected]
            for conflict, resolution in resolutions.resolutions.items()
        ]
        document = {"version": _VERSION, "at": b64encode(resolutions.current_path).decode(), "answers": rows}
        replace_file(path, checksummed_json.dumps(document))
    except OSError:
        return  # losing them is harmless


def _read(document: Any) -> SavedResolutions:
    if document["version"] != _VERSION:
        return SavedResolutions()
    resolutions: dict[PathConflict, FileResolution] = {}
    selected: set[PathConflict] = set()
    for path, base, yours, agent, data, is_selected in document["answers"]:
        conflict = PathConflict(b64decode(path), _blob(base), _blob(yours), _blob(agent))
        resolutions[conflict] = decode_resolution(data)
        if is_selected:
            selected.add(conflict)
    return SavedResolutions(resolutions, frozenset(selected), b64decode(document["at"]))


def _row(conflict: PathConflict) -> tuple[str, Blob, Blob, Blob]:
    return b64encode(conflict.path).decode(), conflict.base, conflict.yours, conflict.agent


def _blob(row: Sequence[Any]) -> Blob:
    mode, oid = row
    return int(mode), str(oid)
