"""Base snapshots: what the roots held when the session began, taken beside the start of the agent (DESIGN.md section 6).

The bytes on disk, never `git add`, which runs filters and stores other bytes. An identity for every path; for what git's
index does not vouch for (edited, just edited, untracked) the raw bytes too, up to a bound. Nothing of the repository's is
executed and nothing in it is written.
"""

import os
import time
from dataclasses import dataclass, replace
from typing import Any

from agent_dev.core.changes import Entry, FileType
from agent_dev.core.index import IndexEntry, IndexUnreadableError, parse
from agent_dev.core.overlay import Found
from agent_dev.host import quick_json, repo, scan
from agent_dev.host.private_git import copy_file
from agent_dev.value import Value

MANY_PATHS = 1_000_000
MANY_BYTES = 256 << 20  # stored copies in all
LARGE_FILE = 64 << 20
MANY_SECONDS = 60.0
COARSE = 10_000_000  # ns: by as much a file system's clock may be behind
_GIT_SECONDS = 30


class Wish(Value):
    """What to take: the roots, the first one's git dir (or ""), git itself (or "") and the user's environment."""

    roots: tuple[str, ...]
    git: str = ""
    program: str = ""
    environ: dict[str, str] = {}  # noqa: RUF012  (Value: a default, never written to)
    touched: tuple["Touched", ...] = ()  # of a resumed session, by root: there an older base stays true
    since: int = 0  # when the agent started, in ns since 1970: what moved after that is no base of anything


class Touched(Value):
    """What an upper held before a session was resumed: its paths, and those that hide all below them."""

    paths: frozenset[bytes] = frozenset()
    hiding: tuple[bytes, ...] = ()

    def covers(self, path: bytes) -> bool:
        """Whether the agent had changed a path."""
        return path in self.paths or any(path.startswith(folder + b"/") for folder in self.hiding)


def begin(folder: str, wish: Wish) -> int:
    """Start taking a base into `folder` in a process of its own; return its pid for `wait_for` or `cancel`."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)  # Ctrl-C in the terminal is not for it
            take(folder, wish)
            code = 0
        except OSError as error:
            _note(folder, f"the base could not be taken: {error}")
        finally:
            os._exit(code)
    return pid


def wait_for(pid: int) -> None:
    """Wait until a base is taken."""
    os.waitpid(pid, 0)


def cancel(pid: int) -> None:
    """Stop taking a base that nobody needs."""
    os.kill(pid, 9)
    os.waitpid(pid, 0)


def _note(folder: str, text: str) -> None:
    try:
        with open(f"{folder}/problem", "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return  # the manifest is missing then, and everything that moved is a conflict


@dataclass(slots=True)
class _Budget:
    """What may still be spent on a base."""

    paths: int = MANY_PATHS
    content: int = MANY_BYTES
    until: float = 0.0

    def is_spent(self) -> bool:
        return self.paths <= 0 or time.monotonic() > self.until


def take(folder: str, wish: Wish) -> None:
    """Take the base of all roots into `folder`, new or (for a resumed session) beside an older one."""
    os.makedirs(f"{folder}/content", 0o700, exist_ok=True)
    budget = _Budget(until=time.monotonic() + MANY_SECONDS)
    tables = [_take_root(folder, number, root, wish, budget) for number, root in enumerate(wish.roots)]
    temp = f"{folder}/manifest.new"
    with open(temp, "wb") as file:
        file.write(quick_json.dumps({"version": 1, "complete": not budget.is_spent(), "roots": tables}))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temp, f"{folder}/manifest")
    if wish.touched and os.path.lexists(f"{folder}/merged"):
        os.unlink(f"{folder}/merged")  # the new manifest has it


Row = list[object]  # path, type, mode, size, inode, mtime, ctime, links, target, stored name | "" | "index"


def _take_root(folder: str, number: int, root: str, wish: Wish, budget: _Budget) -> list[Row]:
    git = wish.git if number == 0 else ""
    vouched, listed = _ask_git(folder, root, git, wish) if git else ({}, None)
    touched = wish.touched[number] if number < len(wish.touched) else Touched()
    rows: list[Row] = (
        [row for row in _older_rows(folder, number) if touched.covers(os.fsencode(str(row[0])))] if wish.touched else []
    )
    for found in scan.walk(root, skip=(b".git",), attributes=False):
        if budget.is_spent():
            break
        if touched.covers(found.path):
            continue
        budget.paths -= 1
        if wish.since and wish.since - COARSE <= found.entry.ctime <= time.time_ns():
            rows.append(_row(replace(found, entry=replace(found.entry, inode=0, ctime=0)), ""))  # like nothing: a conflict
            continue
        stored = ""
        if found.entry.type is FileType.FILE:
            stored = _content(folder, root, found, vouched, listed, budget)
        rows.append(_row(found, stored))
    return rows


def _older_rows(folder: str, number: int) -> list[Row]:
    data = _manifest(folder)
    return data["roots"][number] if data is not None and number < len(data["roots"]) else []


def _manifest(folder: str, *, with_merged: bool = True) -> dict[str, Any] | None:
    try:
        with open(f"{folder}/manifest", "rb") as file:
            data = quick_json.loads(file.read())
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or data.get("version") != 1:
        return None
    return _with_merged(folder, data) if with_merged else data


def learn(folder: str, root: int, now: dict[bytes, Entry | None], contents: dict[bytes, bytes] | None = None) -> None:
    """Note what a merge made of some paths of a root (None: gone): what is left in the session is compared with that.

    `contents`: bytes to compare with instead of those on the disk, of files that a merge brought only in part.
    """
    merged = _merged(folder)
    rows = merged.setdefault(str(root), {})
    rows |= {os.fsdecode(path): _row(Found(path, entry), "") if entry else None for path, entry in now.items()}
    for path, data in (contents or {}).items():
        entry = now[path]
        if entry is not None:
            name = _store(folder, data)
            rows[os.fsdecode(path)] = _row(Found(path, replace(entry, size=len(data), inode=0, ctime=0)), name)
    _write_merged(folder, merged)


def _write_merged(folder: str, merged: dict[str, dict[str, Row | None]]) -> None:
    os.makedirs(folder, 0o700, exist_ok=True)
    with open(f"{folder}/merged.new", "wb") as file:
        file.write(quick_json.dumps(merged))
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{folder}/merged.new", f"{folder}/merged")


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
    data = _manifest(folder, with_merged=False)
    tables = data["roots"] if data is not None else []
    stored = {os.fsencode(str(row[0])): str(row[9]) for row in tables[root]} if root < len(tables) else {}
    merged = _merged(folder)
    rows = merged.setdefault(str(root), {})
    for path, entry in now.items():
        if path in theirs:
            rows.pop(os.fsdecode(path), None)
        else:
            rows[os.fsdecode(path)] = _row(Found(path, entry), stored.get(path, "")) if entry else None
    _write_merged(folder, merged)


def _merged(folder: str) -> dict[str, dict[str, Row | None]]:
    try:
        with open(f"{folder}/merged", "rb") as file:
            found = quick_json.loads(file.read())
    except OSError:
        return {}  # nothing was merged since the base was taken
    return found if isinstance(found, dict) else {}


def _with_merged(folder: str, data: dict[str, Any]) -> dict[str, Any]:
    for root, rows in _merged(folder).items():
        table = {row[0]: row for row in data["roots"][int(root)]}
        table |= rows
        data["roots"][int(root)] = [row for row in table.values() if row is not None]
    return data


def _content(
    folder: str,
    root: str,
    found: Found,
    vouched: dict[bytes, IndexEntry],
    listed: frozenset[bytes] | None,
    budget: _Budget,
) -> str:
    """Store a file's bytes where nothing else will tell them later; return where they are to be found."""
    known = vouched.get(found.path)
    if known is not None and is_as_recorded(found.entry, known):
        return "index"
    if known is None and listed is not None and found.path not in listed:
        return ""  # git-ignored: its identity is enough
    if found.entry.size > min(LARGE_FILE, budget.content):
        return ""
    name = f"{found.entry.inode:x}-{found.entry.ctime:x}"
    place = os.path.join(root, os.fsdecode(found.path))
    try:
        copy_file(place, f"{folder}/content/{name}")
        now = os.lstat(place)
    except FileExistsError:
        now = None  # a hard link: the same inode, the same bytes
    except OSError:
        return ""
    if now is not None and (now.st_ino, now.st_ctime_ns) != (found.entry.inode, found.entry.ctime):
        os.unlink(f"{folder}/content/{name}")  # it changed after its identity was taken: these are other bytes
        return ""
    budget.content -= found.entry.size
    return name


def is_as_recorded(entry: Entry, known: IndexEntry) -> bool:
    """Whether a file is what git's index recorded (git's own test, down to the inode)."""
    return (
        entry.mtime == known.mtime
        and entry.ctime == known.ctime
        and entry.size & 0xFFFFFFFF == known.size
        and entry.inode & 0xFFFFFFFF == known.inode
    )


def _row(found: Found, stored: str) -> Row:
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


def _ask_git(folder: str, root: str, git: str, wish: Wish) -> tuple[dict[bytes, IndexEntry], frozenset[bytes] | None]:
    """Copy the index with its mtime; return what it vouches for, and what is not ignored (None: git cannot tell)."""
    copy = f"{folder}/index"
    try:
        os.unlink(copy)
    except FileNotFoundError:
        pass
    try:
        copy_file(f"{git}/index", copy)
    except OSError:
        pass  # a repository without commits has none
    vouched = _vouched(copy)
    asked = repo.ask(wish.program, root, ("ls-files", "-c", "-o", "--exclude-standard", "-z"), wish.environ)
    code, told = repo.answer(asked)
    return vouched, frozenset(told.split(b"\0")) if code == 0 else None


def _vouched(copy: str) -> dict[bytes, IndexEntry]:
    """Return the index entries that are older than the index: a same-second edit could hide behind the others."""
    try:
        with open(copy, "rb") as file:
            data = file.read()
            written = os.fstat(file.fileno()).st_mtime_ns
        return {entry.path: entry for entry in parse(data, _oid_size(data)) if entry.mtime < written}
    except (OSError, IndexUnreadableError):
        return {}


def _oid_size(data: bytes) -> int:
    """Tell SHA-256 from SHA-1 by the checksum at the end of the index."""
    import hashlib  # only beside a run

    return 32 if len(data) > 44 and hashlib.sha256(data[:-32]).digest() == data[-32:] else 20


class Base:
    """A taken base, read back. Without a manifest every path is unknown."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._tables: list[dict[bytes, tuple[Entry, str]]] = []
        self.is_complete = False
        data = _manifest(folder)
        if data is not None:
            self.is_complete = bool(data["complete"])
            self._tables = [dict(map(_from_row, rows)) for rows in data["roots"]]

    def is_known(self) -> bool:
        """Whether a base was taken at all."""
        return bool(self._tables)

    def entries(self, root: int) -> dict[bytes, Entry]:
        """Return what a root held."""
        return {path: entry for path, (entry, _) in self._tables[root].items()} if root < len(self._tables) else {}

    def stored(self, root: int, path: bytes) -> str | None:
        """Return the file that holds a path's stored bytes, None when they were not stored."""
        _, name = self._tables[root].get(path, (None, "")) if root < len(self._tables) else (None, "")
        return f"{self._folder}/content/{name}" if name and name != "index" else None

    def is_in_index(self, root: int, path: bytes) -> bool:
        """Whether git's index vouched for a path, so that its blob tells the bytes where no conversion applies."""
        return root < len(self._tables) and self._tables[root].get(path, (None, ""))[1] == "index"


def _from_row(row: Row) -> tuple[bytes, tuple[Entry, str]]:
    path, kind, mode, size, inode, mtime, ctime, links, target, stored = row
    entry = Entry(FileType(kind), mode, size, inode, mtime, ctime, links, os.fsencode(str(target)))  # type: ignore[arg-type]
    return os.fsencode(str(path)), (entry, str(stored))
