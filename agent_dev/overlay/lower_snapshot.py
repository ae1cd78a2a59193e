"""Base snapshots read: what the roots held when the session began (host/base_take), and what was merged since."""

import os
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_dev.fs import durable as disk
from agent_dev.fs import fast_json as quick_json
from agent_dev.git.conversion import on_disk
from agent_dev.overlay.changes import Entry, FileType
from agent_dev.overlay.interpret import Found

if TYPE_CHECKING:
    from agent_dev.git.blob_reader import Blobs
    from agent_dev.overlay.lower_snapshot_table import Row, Table


VERSION = 2  # of the manifest: a line of JSON, and tables of columns; the first was JSON as a whole, a row for each path
LARGE_FILE = 64 << 20  # bytes: of larger ones no content is kept


def manifest(folder: str, *, with_merged: bool = True) -> dict[str, Any] | None:
    """Return what was noted of a base, its roots as tables, with what was merged since; None where nothing can be read."""
    try:
        with open(f"{folder}/manifest", "rb") as file:
            data = _decoded(file.read())
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return _with_merged(folder, data) if with_merged else data


def encoded(about: dict[str, Any], tables: "list[list[Row]]") -> Iterator[bytes]:
    """Yield the bytes of a manifest: what there is to say of it, and the rows of each root."""
    from agent_dev.overlay import lower_snapshot_table as base_table  # never before an agent runs

    packed = [base_table.packed(rows) for rows in tables]
    yield quick_json.dumps({"version": VERSION, **about, "roots": [header for header, _ in packed]})
    yield b"\n"
    for _, columns in packed:
        yield from columns


def _decoded(data: bytes) -> dict[str, Any]:
    """Return what `encoded` made bytes of, or an earlier version. Raises ValueError, LookupError, TypeError for all else."""
    from agent_dev.overlay import lower_snapshot_table as base_table  # never before an agent runs

    line = data.find(b"\n")
    about: Any = quick_json.loads(data if line < 0 else data[:line])
    if about["version"] == 1:
        return {**about, "roots": [base_table.of_rows(rows) for rows in about["roots"]]}
    if about["version"] != VERSION:
        raise ValueError("another version")
    tables, rest = [], memoryview(data)[line + 1 :]
    for header in about["roots"]:
        table, rest = base_table.unpacked(header, rest)
        tables.append(table)
    return {**about, "roots": tables}


def learn(folder: str, root: int, now: dict[bytes, Entry | None], contents: dict[bytes, bytes] | None = None) -> None:
    """Note what a merge made of some paths of a root (None: gone): what is left in the session is compared with that.

    `contents`: bytes to compare with instead of those on the disk, of files that a merge brought only in part.
    """
    merged = _merged(folder)
    rows = merged.setdefault(str(root), {})
    rows |= {os.fsdecode(path): row_of(Found(path, entry), "") if entry else None for path, entry in now.items()}
    for path, data in (contents or {}).items():
        entry = now[path]
        if entry is not None:
            name = _store(folder, data)
            rows[os.fsdecode(path)] = row_of(Found(path, replace(entry, size=len(data), inode=0, ctime=0)), name)
    _write_merged(folder, merged)


def _write_merged(folder: str, merged: "dict[str, dict[str, Row | None]]") -> None:
    os.makedirs(folder, 0o700, exist_ok=True)
    with open(f"{folder}/merged.new", "wb") as file:
        file.write(quick_json.dumps(merged))
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{folder}/merged.new", f"{folder}/merged")
    disk.sync_path(folder)


def _store(folder: str, data: bytes) -> str:
    import hashlib  # only after a run

    name = f"part-{hashlib.sha256(data).hexdigest()}"
    os.makedirs(f"{folder}/content", 0o700, exist_ok=True)
    with open(f"{folder}/content/{name}", "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return name


def unlearn(folder: str, root: int, now: dict[bytes, Entry | None], theirs: frozenset[bytes] = frozenset()) -> None:
    """Note that some paths of a root are again what they were when the base was taken, by other inodes or times.

    What the base stored of them is still true. `theirs`: paths that were not as the base even before the merge.
    """
    data = manifest(folder, with_merged=False)
    table = data["roots"][root] if data is not None and root < len(data["roots"]) else None
    merged = _merged(folder)
    rows = merged.setdefault(str(root), {})
    for path, entry in now.items():
        if path in theirs:
            rows.pop(os.fsdecode(path), None)
        else:
            rows[os.fsdecode(path)] = row_of(Found(path, entry), table.stored(path) if table else "") if entry else None
    _write_merged(folder, merged)


def _merged(folder: str) -> "dict[str, dict[str, Row | None]]":
    try:
        with open(f"{folder}/merged", "rb") as file:
            found = quick_json.loads(file.read())
    except OSError:
        return {}  # nothing was merged since the base was taken
    return found if isinstance(found, dict) else {}


def _with_merged(folder: str, data: dict[str, Any]) -> dict[str, Any]:
    for root, rows in _merged(folder).items():
        data["roots"][int(root)].set_over(rows)
    return data


def row_of(found: Found, stored: str) -> "Row":
    """Return the row of a path."""
    entry = found.entry
    path, target = os.fsdecode(found.path), os.fsdecode(entry.target)
    return [
        path,
        str(entry.type),
        entry.mode,
        entry.size,
        entry.inode,
        entry.mtime,
        entry.ctime,
        entry.links,
        target,
        stored,
    ]


def _notes(folder: str, data: dict[str, Any] | None) -> tuple[str, ...]:
    """Say what a person should know of a base, a line each."""
    if data is None:
        return (f"{_problem(folder)}: what changed here since the start is a conflict",)
    words = []
    if not data["complete"]:
        words.append(f"{data.get('cut') or 'it was cut'}: of the rest, what changed here since the start is a conflict")
    if data.get("dropped"):
        count = f"{data['dropped']:,} files were" if data["dropped"] > 1 else "1 file was"
        words.append(f"{count} past its bounds: what changes here of that has no base")
    lines = (f"the base is not complete; {'; '.join(words)}",) if words else ()
    return (*lines, *_marks(data.get("marked", [0])))


def _marks(marked: list[Any]) -> tuple[str, ...]:
    """Name the real paths that an agent cannot see as they are: an earlier program left marks of an overlay on them."""
    count, *names = marked
    if not count:
        return ()
    more = " …" if count > len(names) else ""
    return (f"marks of an overlay on {', '.join(names)}{more} here: no agent sees that as it is; setfattr -x takes them off",)


def _problem(folder: str) -> str:
    try:
        with open(f"{folder}/problem", encoding="utf-8") as file:
            return file.read()
    except OSError:
        is_there = os.path.lexists(f"{folder}/manifest")
        return "its base is damaged, or another version of agent-dev made it" if is_there else "there is no base"


class Base:
    """A taken base, read back. Without a manifest every path is unknown. `notes`: what a person should know of it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._tables: list[Table] = []
        self._blobs: dict[int, Blobs] = {}
        self.is_complete = False
        data = manifest(folder)
        self.notes = _notes(folder, data)
        if data is not None:
            self.is_complete = bool(data["complete"])
            self._tables = data["roots"]
            self._stores, self._program = data.get("stores", []), data.get("program", "")

    def is_known(self) -> bool:
        """Whether a base was taken at all."""
        return bool(self._tables)

    def entries(self, root: int) -> "Entries":
        """Return what a root held."""
        from agent_dev.overlay import lower_snapshot_table as base_table  # never before an agent runs

        return Entries(self._tables[root] if root < len(self._tables) else base_table.of_rows(()))

    def stored(self, root: int, path: bytes) -> str | None:
        """Return the file that holds a path's stored bytes, None when they were not stored."""
        name = self._place(root, path)
        return f"{self._folder}/content/{name}" if name and not name.startswith("@") else None

    def is_in_index(self, root: int, path: bytes) -> bool:
        """Whether git's index vouches for a path with a blob."""
        return self._place(root, path).startswith("@")

    def content(self, root: int, path: bytes) -> bytes | None:
        """Return the bytes that a file had, from the stored copy or git's blob; None where neither tells them for certain.

        While the lower's identity is the base's it has the same, and more: what git ignores, or what was too large.
        """
        name = self._place(root, path)
        if not name:
            return None
        if name.startswith("@"):
            entry = _entry(self._tables[root].row(path))
            store, _, oid = name[1:].partition(":")
            blob = self._blobs_of(int(store)).read(oid, entry.size) if entry.size <= LARGE_FILE else None
            return on_disk(blob, entry.size) if blob is not None else None
        try:
            with open(f"{self._folder}/content/{name}", "rb") as file:
                return file.read()
        except OSError:
            return None

    def close(self) -> None:
        """End what reads blobs; they can still be asked for."""
        for one in self._blobs.values():
            one.close()

    def _place(self, root: int, path: bytes) -> str:
        return self._tables[root].stored(path) if root < len(self._tables) else ""

    def _blobs_of(self, store: int) -> "Blobs":
        if store not in self._blobs:
            from agent_dev.git.blob_reader import Blobs  # never before an agent runs, nor where nothing moved

            self._blobs[store] = Blobs(self._program, self._folder, self._stores[store])
        return self._blobs[store]


_TYPES = {str(kind): kind for kind in FileType}  # making an enum's member from its value costs five times a look-up


def _entry(row: "Row") -> Entry:
    _, kind, mode, size, inode, mtime, ctime, links, target, _ = row
    link = os.fsencode(str(target)) if target else b""
    return Entry(_TYPES[kind], mode, size, inode, mtime, ctime, links, link)  # type: ignore[index,arg-type]


class Entries(MutableMapping[bytes, Entry]):
    """What a root held, by path. An entry is made when it is asked for: of tens of thousands few ever are."""

    def __init__(self, table: "Table") -> None:
        self._table = table
        self._made: dict[bytes, Entry] = {}

    def __getitem__(self, path: bytes) -> Entry:
        made = self._made.get(path)
        if made is None:
            made = self._made[path] = _entry(self._table.row(path))
        return made

    def __contains__(self, path: object) -> bool:
        return path in self._table

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
