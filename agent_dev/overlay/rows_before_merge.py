"""The rows of a lower snapshot before a merge. An undo restores them, even if a resumed session has taken a new snapshot."""

import os
from typing import TYPE_CHECKING

from agent_dev.fs import checksummed_json, durable, state_files

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from agent_dev.overlay.lower_snapshot_table import Row

FILE_NAME = "before"
_EDITED = "edited-"  # prefix of a root's number
Rows = dict[str, "Row | None"]


def store_rows(
    folder: str, merge_id: str, root: int, rows: "Mapping[bytes, Row | None]", edited: "Container[bytes]" = frozenset()
) -> None:
    """Store the rows that a snapshot had for some paths (None: it had none), durable on return. Raises OSError.

    `edited`: paths that the user had changed before the merge.
    """
    if not rows:
        return
    everything = _read(folder)
    own = everything.setdefault(merge_id, {}).setdefault(str(root), {})
    own |= {os.fsdecode(path): row for path, row in rows.items()}
    everything[merge_id].setdefault(_EDITED + str(root), {}).update({os.fsdecode(path): None for path in rows if path in edited})
    replace_file(folder, FILE_NAME, checksummed_json.dumps(everything))


def replace_file(folder: str, name: str, data: bytes) -> None:
    """Replace a file of a snapshot atomically, durable on return; create its directory if needed. Raises OSError."""
    os.makedirs(folder, 0o700, exist_ok=True)
    state_files.replace_file(f"{folder}/{name}", data, is_durable=True)
    durable.sync_path(folder)


def stored_rows(folder: str, merge_id: str, root: int) -> Rows:
    """Return the rows that were stored for a merge."""
    return _read(folder).get(merge_id, {}).get(str(root), {})


def edited(folder: str, root: int, since: int) -> Rows:
    """Return the rows of paths that the user had changed before a merge; the rows precede the first such merge after `since`."""
    found: Rows = {}
    everything = _read(folder)
    for merge_id in sorted(everything, reverse=True):
        if id_time_ms(merge_id) > since:
            own, paths = everything[merge_id].get(str(root), {}), everything[merge_id].get(_EDITED + str(root), {})
            found |= {path: row for path, row in own.items() if path in paths}
    return found


def id_time_ms(merge_id: str) -> int:
    """Return the time in a merge's id, in ms since 1970; 0 for an invalid id."""
    try:
        return int(merge_id.rpartition(".")[2], 16)
    except ValueError:
        return 0


def _read(folder: str) -> dict[str, dict[str, Rows]]:
    try:
        with open(f"{folder}/{FILE_NAME}", "rb") as file:
            return checksummed_json.loads(file.read())
    except (OSError, ValueError):
        return {}  # nothing was merged yet
