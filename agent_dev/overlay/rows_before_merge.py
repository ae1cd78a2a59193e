"""The rows of a lower snapshot before a merge. An undo restores them, even if a resumed session has taken a new snapshot."""

import os
from typing import TYPE_CHECKING, Any

from agent_dev.fs import durable
from agent_dev.overlay import raw_json

if TYPE_CHECKING:
    from collections.abc import Callable, Container

FILE_NAME = "before"
_EDITED = "edited-"  # prefix of a root's number
Rows = dict[str, bytes]  # by path, as JSON; null for a path that did not exist


def store_rows(folder: str, merge_id: str, root: int, rows: Rows, edited: "Container[bytes]" = frozenset()) -> None:
    """Store the rows that a snapshot had for some paths, durable on return. Raises OSError.

    `edited`: paths that the user had changed before the merge.
    """
    if not rows:
        return
    everything: dict[str, Any] = _read(folder)
    own = _decoded(everything.get(merge_id, b"{}"))
    own.setdefault(str(root), {}).update(rows)
    own.setdefault(_EDITED + str(root), {}).update({path: raw_json.NULL for path in rows if os.fsencode(path) in edited})
    replace_file(folder, FILE_NAME, everything | {merge_id: own})


def replace_file(folder: str, name: str, tree: "raw_json.Tree", prepare_replacement: "Callable[[], None]" = lambda: None) -> None:
    """Replace a file of a snapshot atomically, durable on return; create its directory if needed. Raises OSError.

    `tree` and `prepare_replacement`: see `raw_json.replace_file`.
    """
    os.makedirs(folder, 0o700, exist_ok=True)
    raw_json.replace_file(f"{folder}/{name}", tree, prepare_replacement)
    durable.sync_path(folder)


def stored_rows(folder: str, merge_id: str, root: int) -> Rows:
    """Return the rows that were stored for a merge."""
    return _decoded(_read(folder).get(merge_id, b"{}")).get(str(root), {})


def edited(folder: str, root: int, since: int) -> Rows:
    """Return the rows of paths that the user had changed before a merge; the rows precede the first such merge after `since`."""
    found: Rows = {}
    everything = _read(folder)
    for merge_id in sorted(everything, reverse=True):
        if id_time_ms(merge_id) > since:
            of_merge = _decoded(everything[merge_id])
            own, paths = of_merge.get(str(root), {}), of_merge.get(_EDITED + str(root), {})
            found |= {path: row for path, row in own.items() if path in paths}
    return found


def id_time_ms(merge_id: str) -> int:
    """Return the time in a merge's id, in ms since 1970; 0 for an invalid id."""
    try:
        return int(merge_id.rpartition(".")[2], 16)
    except ValueError:
        return 0


def _read(folder: str) -> Rows:
    """Return what was stored for each merge, as JSON: only that of one merge is needed."""
    try:
        with open(f"{folder}/{FILE_NAME}", "rb") as file:
            return raw_json.loads(file.read(), 1)
    except (OSError, ValueError):
        return {}  # nothing was merged yet


def _decoded(of_merge: bytes) -> dict[str, Rows]:
    """Return the rows of a merge by root."""
    text = of_merge.decode("ascii")
    try:
        return raw_json.read_members(text, 0, 2) if text != "{}" else {}
    except ValueError:
        return {}
