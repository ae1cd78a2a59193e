"""The rows of a lower snapshot before a merge, and before a resumed session took a new snapshot.

An undo of the merge restores the former, whatever happened since. A rollback past either restores the rows of edited paths.
"""

import contextlib
import os
from typing import TYPE_CHECKING

from agent_dev.fs import durable
from agent_dev.overlay import raw_json

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence
    from typing import BinaryIO

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
    if paths:
        edited_paths = [path for path in paths if path in edited]
        new = {
            str(root): lambda known: with_new_rows(((path, encoded_row(path)) for path in paths), known),
            _EDITED + str(root): lambda known: with_new_rows(((path, raw_json.NULL) for path in edited_paths), known),
        }
        update_file(folder, FILE_PREFIX + merge_id, new)


def with_new_rows(
    new: "Iterable[tuple[bytes, bytes | None]]", known: "Iterable[tuple[str, bytes]]"
) -> "Iterator[tuple[str, bytes]]":
    """Yield new rows (None: no row any more), then the others, while they are read: those of a large merge need much memory."""
    paths = set()
    for path, row in new:
        paths.add(path)
        if row is not None:
            yield os.fsdecode(path), row
    yield from ((name, row) for name, row in known if os.fsencode(name) not in paths)


def update_file(
    folder: str,
    name: str,
    new: "dict[str, Callable[[Iterable[tuple[str, bytes]]], Iterator[tuple[str, bytes]]]]",
    prepare_replacement: "Callable[[], None]" = lambda: None,
    *,
    keeps_damaged: bool = False,
) -> None:
    """Replace some objects of a file of a snapshot, each made from its known rows while these are read. Raises OSError.

    `prepare_replacement`: see `raw_json.replace_file`. `keeps_damaged`: leave a damaged file as it is.
    """
    with contextlib.ExitStack() as stack:
        file = None
        try:
            file = stack.enter_context(open(f"{folder}/{name}", "rb"))
            for _ in raw_json.iterate(file):
                pass  # reads each object to its end
        except FileNotFoundError:
            pass
        except ValueError:
            if keeps_damaged:
                return
            file = None
        replace_file(folder, name, _updated(file, new), prepare_replacement)


def _updated(
    file: "BinaryIO | None", new: "dict[str, Callable[[Iterable[tuple[str, bytes]]], Iterator[tuple[str, bytes]]]]"
) -> "Iterator[tuple[str, Iterator[tuple[str, bytes]]]]":
    missing = dict(new)
    for name, known in raw_json.iterate(file) if file is not None else ():
        replaced = missing.pop(name, None)
        yield name, known if replaced is None else replaced(known)
    yield from ((name, replaced(())) for name, replaced in missing.items())


def replace_file(folder: str, name: str, tree: "raw_json.Tree", prepare_replacement: "Callable[[], None]" = lambda: None) -> None:
    """Replace a file of a snapshot atomically, durable on return; create its directory if needed. Raises OSError.

    `tree` and `prepare_replacement`: see `raw_json.replace_file`.
    """
    os.makedirs(folder, 0o700, exist_ok=True)
    raw_json.replace_file(f"{folder}/{name}", tree, prepare_replacement)
    durable.sync_path(folder)


def stored_rows(folder: str, merge_id: str, root: int) -> "Iterator[tuple[str, bytes]]":
    """Yield the rows that were stored for a merge, while they are read; none of a damaged file."""
    try:
        with open(f"{folder}/{FILE_PREFIX}{merge_id}", "rb") as file:
            for _ in raw_json.iterate(file):
                pass  # reads each object to its end
            for name, rows in raw_json.iterate(file):
                if name == str(root):
                    yield from rows
    except (OSError, ValueError):
        return  # nothing was merged yet


def edited(folder: str, root: int, since: int) -> Rows:
    """Return the rows of paths that the user had changed before a merge or a resume; they precede the first one after `since`."""
    found: Rows = {}
    names = os.listdir(folder) if os.path.isdir(folder) else ()
    merge_ids = [name.removeprefix(FILE_PREFIX) for name in names if name.startswith(FILE_PREFIX) and not name.endswith(".new")]
    for merge_id in sorted(merge_ids, key=id_time_ms, reverse=True):
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
            return raw_json.load(file)
    except (OSError, ValueError):
        return {}  # nothing was merged yet
