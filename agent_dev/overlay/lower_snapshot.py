"""Read a lower snapshot: the roots when the session began (taken by overlay/lower_snapshot_take), updated by later merges."""

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from agent_dev.fs import checksummed_json, fast_json
from agent_dev.fs.entry import Entry
from agent_dev.git.conversion import restore_line_endings
from agent_dev.overlay import raw_json, rows_before_merge
from agent_dev.overlay.lower_snapshot_row import INODE, STORED, TYPES, entry_of, row_of

if TYPE_CHECKING:
    from agent_dev.git.blob_reader import BlobReader
    from agent_dev.overlay.lower_snapshot_row import Row
    from agent_dev.overlay.lower_snapshot_table import Table

VERSION = 4  # of the manifest: a line of JSON with a checksum of the whole file, then tables of columns
READABLE = (3, VERSION)  # version 3 has no extended attributes
_MERGED = "merged"  # the file with the rows that merges have changed
_PAUSE = 0.05  # seconds between two looks for a manifest
MAX_STORED_FILE = 64 << 20  # bytes; no content of larger files is stored


def read_manifest(folder: str, *, with_merged: bool = True) -> dict[str, Any] | None:
    """Return a snapshot's manifest, its roots as tables, with later merges applied; None if either file is unreadable."""
    try:
        with open(f"{folder}/manifest", "rb") as file:
            data = _decoded(file.read())
        return _with_merged(folder, data) if with_merged else data
    except (OSError, ValueError, LookupError, TypeError):
        return None


def wait_until_taken(folder: str, launched: int, seconds: float) -> None:
    """Wait until the snapshot of a run is taken, which happens just after its agent starts, at most some seconds.

    `launched`: when the agent started, ns since 1970. A resumed session has an older manifest until then.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until and not (_is_taken(folder, launched) or os.path.lexists(f"{folder}/problem")):
        time.sleep(_PAUSE)


def _is_taken(folder: str, launched: int) -> bool:
    try:
        return os.stat(f"{folder}/manifest").st_mtime_ns >= launched
    except FileNotFoundError:
        return False


def encode_manifest(about: dict[str, Any], packed: "Sequence[tuple[dict[str, object], list[bytes]]]") -> bytes:
    """Encode a manifest: `about` as JSON, and the packed paths of each root (`lower_snapshot_table.pack`)."""
    header = fast_json.dumps({"version": VERSION, **about, "roots": [header for header, _ in packed]})
    return checksummed_json.add_checksum(header, b"\n", *(column for _, columns in packed for column in columns))


def _decoded(data: bytes) -> dict[str, Any]:
    """Decode a manifest. Raises ValueError, LookupError or TypeError for other bytes."""
    from agent_dev.overlay import lower_snapshot_table  # not loaded before the agent runs

    line = checksummed_json.verify(data).index(b"\n")
    about: Any = fast_json.loads(data[:line])
    if about["version"] not in READABLE:
        raise ValueError("unknown version")
    tables, rest = [], memoryview(data)[line + 1 :]
    for header in about["roots"]:
        table, rest = lower_snapshot_table.unpack(header, rest)
        tables.append(table)
    return {**about, "roots": tables}


def record_merge(
    base: "LowerSnapshot",
    merge_id: str,
    root: int,
    now: Iterable[tuple[bytes, Entry | None]],
    contents: dict[bytes, tuple[bytes, int]] | None = None,
    *,
    edited: frozenset[bytes] = frozenset(),
) -> None:
    """Record the entries that a merge left at some paths of a root (None: deleted) as the new base versions.

    `contents`: base versions other than those on disk, of files that were merged in part: bytes and mode. The previous rows are
    stored for an undo of the merge. `edited`: paths that the user had changed before the merge.
    """
    folder, changed = base.folder, list[bytes]()

    def new_rows() -> Iterator[tuple[bytes, bytes]]:
        for path, entry in now:
            row = row_of(path, entry, "") if entry else None
            if contents and entry and path in contents:
                data, mode = contents[path]
                merged = entry.with_values(size=len(data), mode=mode, inode=0, ctime=0)
                row = row_of(path, merged, _store(folder, data))
            if base.row(root, path) != row:  # equal rows were recorded before a crash
                changed.append(path)
            yield path, _encoded(row)

    def encoded_before(path: bytes) -> bytes:
        return _encoded(base.row(root, path))

    def store_rows() -> None:
        rows_before_merge.store_rows(folder, merge_id, root, changed, encoded_before, edited)

    new = {str(root): lambda known: rows_before_merge.with_new_rows(new_rows(), known)}
    rows_before_merge.update_file(folder, _MERGED, new, store_rows, keeps_damaged=True)  # see `_merged_or_none`


def _encoded(row: "Row | None") -> bytes:
    return raw_json.NULL if row is None else fast_json.dumps(row)


def _write_merged(folder: str, merged: "dict[str, rows_before_merge.Rows]") -> None:
    rows_before_merge.replace_file(folder, _MERGED, merged)


def _store(folder: str, data: bytes) -> str:
    import hashlib  # only used after a run

    name = f"part-{hashlib.sha256(data).hexdigest()}"
    os.makedirs(f"{folder}/content", 0o700, exist_ok=True)
    with open(f"{folder}/content/{name}", "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return name


def forget_edits(folder: str, root: int, paths: frozenset[str], since: int) -> None:
    """Restore the rows from before merges and resumes that took up the user's edits, after a rollback past them.

    `since`: the checkpoint's time, ms since 1970. The session no longer has those edits: compared with the later rows, its files
    would count as the agent's changes to them, and a merge would overwrite them without a conflict.
    """
    before = rows_before_merge.edited(folder, root, since)
    rows = {path: row for path, row in before.items() if path in paths}
    merged = _merged_or_none(folder) if rows else None
    if merged is not None:
        merged.setdefault(str(root), {}).update(rows)
        _write_merged(folder, merged)


def record_new_times(folder: str, root: int, now: dict[bytes, Entry]) -> None:
    """Record that paths of a root have the same content with new times: their stored base versions stay valid."""
    data, merged = read_manifest(folder), _merged_or_none(folder)
    if data is None or merged is None or root >= len(data["roots"]):
        return
    rows = merged.setdefault(str(root), {})
    table = data["roots"][root]
    for path, entry in now.items():
        previous = table.row(path) if path in table else None
        row = row_of(path, _with_settings(entry, previous), table.content_location(path))
        rows[os.fsdecode(path)] = fast_json.dumps(row)
    _write_merged(folder, merged)


def _with_settings(entry: Entry, previous: "Row | None") -> Entry:
    """Return an entry with the mode and attributes of its base version, without a ctime if the user has set others since."""
    base = entry_of(previous) if previous is not None else None
    if base is None or base.type is not entry.type or (base.mode, base.attributes) == (entry.mode, entry.attributes):
        return entry
    return entry.with_values(mode=base.mode, attributes=base.attributes, ctime=0)


def record_undo(
    folder: str,
    merge_id: str,
    root: int,
    paths: Iterable[bytes],
    entry_at: "Callable[[bytes], Entry | None]",
    theirs: frozenset[bytes],
) -> None:
    """Record that an undo restored some paths of a root, with new inodes or times; `entry_at` returns what is there now.

    Their stored base versions stay valid, even if a resumed session has taken a new snapshot. `theirs`: paths that differed from
    the base even before the merge.
    """

    @cache  # rarely needed, and large
    def table() -> "Table | None":
        data = read_manifest(folder, with_merged=False)
        return data["roots"][root] if data is not None and root < len(data["roots"]) else None

    def location(path: bytes) -> str:
        found = table()
        return found.content_location(path) if found is not None else ""

    def restored_row(path: bytes, known: bytes | None) -> bytes | None:
        entry, previous = entry_at(path), _decoded_row(known) if known is not None else None
        if path in theirs or (previous is not None and not previous[INODE]):
            return known
        stored = str(previous[STORED]) if previous is not None else location(path) if entry else ""
        return _encoded(row_of(path, _with_settings(entry, previous), stored) if entry else None)

    def restored_rows() -> Iterator[tuple[bytes, bytes | None]]:
        pending = {path: path for path in paths}
        for name, known in rows_before_merge.stored_rows(folder, merge_id, root):
            path = pending.pop(os.fsencode(name), None)
            if path is not None:
                yield path, restored_row(path, known)
        yield from ((path, restored_row(path, None)) for path in pending)

    new = {str(root): lambda known: rows_before_merge.with_new_rows(restored_rows(), known)}
    rows_before_merge.update_file(folder, _MERGED, new, keeps_damaged=True)


def drop_unmerged_contents(folder: str) -> None:
    """Remove the stored contents of paths that no merge changed: a completely merged session needs only the others."""
    data, merged = read_manifest(folder, with_merged=False), _merged_or_none(folder)
    if data is None or merged is None:
        return
    kept = set()
    for root, rows in merged.items():
        kept |= {data["roots"][int(root)].content_location(os.fsencode(path)) for path in rows}
        kept |= {str(row[STORED]) for row in map(_decoded_row, rows.values()) if row}
    if not os.path.isdir(f"{folder}/content"):
        return
    names = set(os.listdir(f"{folder}/content"))
    for name in names - kept:
        os.unlink(f"{folder}/content/{name}")
    if names.isdisjoint(kept):
        os.rmdir(f"{folder}/content")


def _decoded_row(row: bytes) -> "Row | None":
    decoded: Any = None if row == raw_json.NULL else fast_json.loads(row)
    return decoded  # type: ignore[no-any-return]


def _merged(folder: str) -> "dict[str, rows_before_merge.Rows]":
    """Return the rows that merges have changed, by root and path, as JSON. Raises ValueError for a damaged file."""
    try:
        with open(f"{folder}/{_MERGED}", "rb") as file:
            return raw_json.load(file)
    except FileNotFoundError:
        return {}  # nothing was merged since the snapshot


def _merged_or_none(folder: str) -> "dict[str, rows_before_merge.Rows] | None":
    """Return the same as `_merged`, but None for a damaged file.

    The file is kept: without it, the base would be wrong instead of unknown.
    """
    try:
        return _merged(folder)
    except ValueError:
        return None


def _with_merged(folder: str, data: dict[str, Any]) -> dict[str, Any]:
    """Apply the rows that merges have changed, while they are read. Raises ValueError or LookupError for a damaged file."""
    with contextlib.suppress(FileNotFoundError), open(f"{folder}/{_MERGED}", "rb") as file:
        for root, rows in raw_json.iterate(file):
            data["roots"][int(root)].override(rows)
    return data


def _describe_notes(folder: str, data: dict[str, Any] | None) -> tuple[str, ...]:
    """Return the notes on a snapshot for the user, one line each."""
    if data is None:
        return (f"{_problem(folder)}: paths that you changed since the session started are conflicts",)
    words = []
    if not data["complete"]:
        words.append(f"{data.get('cut') or 'it stopped early'}: other paths that you changed since are conflicts")
    if data.get("dropped"):
        count = f"{data['dropped']:,} files were" if data["dropped"] > 1 else "1 file was"
        words.append(f"{count} over the size limit: later changes there have no base version")
    lines = (f"the lower snapshot is incomplete: {'; '.join(words)}",) if words else ()
    return (*lines, *_describe_marks(data.get("marked", [0])))


def _describe_marks(marked: list[Any]) -> tuple[str, ...]:
    """Name the real paths that the agent cannot see as they are, because an earlier program left overlayfs marks on them."""
    count, *names = marked
    if not count:
        return ()
    more = " …" if count > len(names) else ""
    return (
        f"overlayfs attributes on {', '.join(names)}{more} hide the real content from the agent; remove them with setfattr -x",
    )


def _problem(folder: str) -> str:
    try:
        with open(f"{folder}/problem", encoding="utf-8") as file:
            return file.read()
    except OSError:
        is_there = os.path.lexists(f"{folder}/manifest")
        return "its lower snapshot is damaged or from another version of agent-dev" if is_there else "there is no lower snapshot"


class LowerSnapshot:
    """A lower snapshot, read from disk. Without a manifest every path is unknown. `notes`: warnings for the user."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._loaded: list[Table] | None = []
        self._blobs: dict[int, BlobReader] = {}
        self._parents_blobs: dict[int, BlobReader] = {}
        self.is_complete = False
        data = read_manifest(folder)
        self.notes = _describe_notes(folder, data)
        if data is not None:
            self.is_complete = bool(data["complete"])
            self._loaded = data["roots"]
            self._stores, self._program = data.get("stores", []), data.get("program", "")

    @property
    def folder(self) -> str:
        """Return the snapshot's directory."""
        return self._folder

    def row(self, root: int, path: bytes) -> "Row | None":
        """Return the row of a path; None if the path did not exist."""
        table = self._tables[root] if root < len(self._tables) else None
        return table.row(path) if table is not None and path in table else None

    def knows_attributes(self, root: int, path: bytes) -> bool:
        """Return whether the extended attributes of a path are recorded."""
        return root < len(self._tables) and self._tables[root].knows_attributes(path)

    def exists(self) -> bool:
        """Return whether a snapshot exists."""
        return bool(self._tables)

    def entries(self, root: int) -> "SnapshotEntries":
        """Return the entries of a root."""
        from agent_dev.overlay import lower_snapshot_table  # not loaded before the agent runs

        return SnapshotEntries(self._tables[root] if root < len(self._tables) else lower_snapshot_table.table_of(()))

    def release_index(self) -> None:
        """Free the memory of what finds paths; a later search makes it again."""
        for table in self._loaded or ():
            table.release_index()

    def unload(self) -> None:
        """Free all rows; they are read again when one is needed."""
        self._loaded = None

    def release(self) -> None:
        """Free all rows: from now on every path is unknown."""
        self._loaded, self.is_complete = [], False

    @property
    def _tables(self) -> "list[Table]":
        if self._loaded is None:
            data = read_manifest(self._folder)
            self._loaded = data["roots"] if data is not None else []
        return self._loaded

    def links(self, root: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield a root's symbolic links with their targets."""
        return self._tables[root].links() if root < len(self._tables) else iter(())

    def files_of_sizes(self, root: int, sizes: Collection[int]) -> Iterator[tuple[bytes, int]]:
        """Return a root's regular files of some sizes: paths and sizes."""
        return self._tables[root].files_of_sizes(sizes) if root < len(self._tables) else iter(())

    def stored_paths(self, root: int) -> Iterator[bytes]:
        """Yield the paths of a root that have a stored content."""
        return self._tables[root].stored_paths() if root < len(self._tables) else iter(())

    def stored_path(self, root: int, path: bytes) -> str | None:
        """Return the file with a path's stored content; None if no content was stored."""
        name = self._content_location(root, path)
        return f"{self._folder}/content/{name}" if name and not name.startswith("@") else None

    def is_in_git(self, root: int, path: bytes) -> bool:
        """Return whether a file had the content of a blob that git's index named when the session began."""
        return self._content_location(root, path).startswith("@")

    def blob_of(self, root: int, path: bytes) -> tuple[str, str] | None:
        """Return the object store and the id of the blob that has a path's content; None if it is not known to be in git."""
        store, mark, oid = self._content_location(root, path).partition(":")
        return (self._stores[int(store[1:])], oid) if mark and store.startswith("@") else None

    def content(self, root: int, path: bytes) -> bytes | None:
        """Return the content of a file from the stored copy or git's blob; None if neither is certain.

        A real file that still has the base's identity is read instead: so are ignored and large files, which are not stored.
        """
        name = self._content_location(root, path)
        if not name:
            return None
        if name.startswith("@"):
            entry = entry_of(self._tables[root].row(path))
            store, _, oid = name[1:].partition(":")
            blob = self._blobs_of(int(store)).read(oid, entry.size) if entry.size <= MAX_STORED_FILE else None
            return restore_line_endings(blob, entry.size) if blob is not None else None
        try:
            with open(f"{self._folder}/content/{name}", "rb") as file:
                return file.read()
        except OSError:
            return None

    def close(self) -> None:
        """Stop the readers of blobs; a later read starts them again."""
        for one in self._blobs.values():
            one.close()

    def reset_after_fork(self) -> None:
        """After a fork: leave the blob readers to the parent process and start new ones on demand."""
        self._parents_blobs, self._blobs = self._blobs, {}  # kept referenced: their destructor would stop the parent's git

    def _content_location(self, root: int, path: bytes) -> str:
        return self._tables[root].content_location(path) if root < len(self._tables) else ""

    def _blobs_of(self, store: int) -> "BlobReader":
        if store not in self._blobs:
            from agent_dev.git.blob_reader import BlobReader  # not before the agent runs, nor without changes

            self._blobs[store] = BlobReader(self._program, self._folder, self._stores[store])
        return self._blobs[store]


class SnapshotEntries(MutableMapping[bytes, Entry]):
    """The entries of a root by path, created on first use: of tens of thousands only a few are read."""

    def __init__(self, table: "Table") -> None:
        self._table = table
        self._made: dict[bytes, Entry] = {}

    def __getitem__(self, path: bytes) -> Entry:
        made = self._made.get(path)
        if made is None:
            made = self._made[path] = self._entry(path)
        return made

    def _entry(self, path: bytes) -> Entry:
        fields = self._table.fields(path)
        if fields is None:
            return entry_of(self._table.row(path))
        kind, (mode, size, inode, mtime, ctime, links), target = fields
        return Entry(TYPES[kind], mode & 0o7777, size, inode, mtime, ctime, links, target)

    def get(self, path: bytes, default: Any = None) -> Any:
        """Return the entry of a path; faster than the inherited method, which catches an exception for each new file."""
        made = self._made.get(path)
        return made if made is not None else self[path] if path in self._table else default

    def __contains__(self, path: object) -> bool:
        return path in self._table

    def existing(self, paths: Collection[bytes]) -> set[bytes]:
        """Return those of some paths that have an entry; of a few thousand in less memory than each for itself."""
        return self._table.existing(paths)

    def __setitem__(self, path: bytes, entry: Entry) -> None:
        if path not in self._table:
            raise KeyError(path)
        self._made[path] = entry

    def __delitem__(self, path: bytes) -> None:
        raise TypeError(path)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)
