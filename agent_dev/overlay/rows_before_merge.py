"""The rows of a lower snapshot before a merge. An undo restores them, even if a resumed session has taken a new snapshot."""

import os
from itertools import chain
from typing import TYPE_CHECKING, Any

from agent_dev.fs import durable
from agent_dev.overlay import raw_json

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

FILE_PREFIX = "before-"  # of a merge's id: one file per merge, since each may have 100,000 rows
_EDITED = "edited-"  # prefix of a root's number
Rows = dict[str, bytes]  # by path, as JSON; null for a path that did not exist


def store_rows(
    folder: str,
    merge_id: str,
    root: int,
    paths: "Sequence[bytes]",
    encoded_row: "Callable[[bytes], bytes]",
    edited: "Container[bytes]" = frozenset(),
) -> None:
    """Store the rows that a snapshot had for some paths, as JSON, durable on return. Raises OSError.

    `edited`: paths that the user had changed before the merge.
    """
    if not paths:
        return
    tree: dict[str, Any] = _read(folder, merge_id)
    edited_paths = [path for path in paths if path in edited]
    for name, changed, row_of in (
        (str(root), paths, encoded_row),
        (_EDITED + str(root), edited_paths, lambda _: raw_json.NULL),
    ):
        known = tree.get(name, {})
        for path in changed if known else ():
            known.pop(os.fsdecode(path), None)
        tree[name] = chain(known.items(), _encoded_rows(changed, row_of))
    replace_file(folder, FILE_PREFIX + merge_id, tree)


def _encoded_rows(paths: "Sequence[bytes]", encoded_row: "Callable[[bytes], bytes]") -> "Iterator[tuple[str, bytes]]":
    """Yield rows while they are written: all rows of a large merge need much memory."""
    return ((os.fsdecode(path), encoded_row(path)) for path in paths)


def replace_file(folder: str, name: str, tree: "raw_json.Tree", prepare_replacement: "Callable[[], None]" = lambda: None) -> None:
    """Replace a file of a snapshot atomically, durable on return; create its directory if needed. Raises OSError.

    `tree` and `prepare_replacement`: see `raw_json.replace_file`.
    """
    os.makedirs(folder, 0o700, exist_ok=True)
    raw_json.replace_file(f"{folder}/{name}", tree, prepare_replacement)
    durable.sync_path(folder)


def stored_rows(folder: str, merge_id: str, root: int) -> Rows:
    """Return the rows that were stored for a merge."""
    return _read(folder, merge_id).get(str(root), {})


def edited(folder: str, root: int, since: int) -> Rows:
    """Return the rows of paths that the user had changed before a merge; the rows precede the first such merge after `since`."""
    found: Rows = {}
    names = os.listdir(folder) if os.path.isdir(folder) else ()
    merge_ids = [name.removeprefix(FILE_PREFIX) for name in names if name.startswith(FILE_PREFIX) and not name.endswith(".new")]
    for merge_id in sorted(merge_ids, reverse=True):
        if id_time_ms(merge_id) > since:
            of_merge = _read(folder, merge_id)
            own, paths = of_merge.get(str(root), {}), of_merge.get(_EDITED + str(root), {})
            found |= {path: row for path, row in own.items() if path in paths}
    return found


def id_time_ms(merge_id: str) -> int:
    """Return the time in a merge's id, in ms since 1970; 0 for an invalid id."""
    try:
        return int(merge_id.rpartition(".")[2], 16)
    except ValueError:
        return 0


def _read(folder: str, merge_id: str) -> dict[str, Rows]:
    """Return what was stored for a merge, by root."""
    try:
        with open(f"{folder}/{FILE_PREFIX}{merge_id}", "rb") as file:
            return raw_json.loads(file.read())
    except (OSError, ValueError):
        return {}  # nothing was merged yet
