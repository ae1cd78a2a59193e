"""What a root holds at the start of a session, path by path, and where each file's bytes are to be found later."""

import errno
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent_dev.fs import walk as scan
from agent_dev.git.formats.index_format import IndexEntry
from agent_dev.git.private_copy import copy_file
from agent_dev.overlay.changes import Entry, FileType, parents_of
from agent_dev.overlay.interpret import Found
from agent_dev.overlay.lower_snapshot import LARGE_FILE

if TYPE_CHECKING:
    from agent_dev.overlay.lower_snapshot_git import Known, Tracked
    from agent_dev.overlay.lower_snapshot_take import Touched

MANY_PATHS = 1_000_000
MANY_BYTES = 256 << 20  # stored copies in all
MANY_CONVERTED_BYTES = 64 << 20  # of these, copies of unchanged files of which git keeps other bytes
LARGE_CONVERTED_FILE = 1 << 20
MANY_SECONDS = 60.0
FEW_MARKED = 5
COARSE = 10_000_000  # ns: by as much a file system's clock may be behind


@dataclass(slots=True)
class Budget:
    """What may still be spent on a base, and what came of that: why the walk ended early, how many files were not kept."""

    paths: int = MANY_PATHS
    content: int = MANY_BYTES
    converted: int = MANY_CONVERTED_BYTES
    until: float = 0.0  # monotonic
    cut: str = ""
    dropped: int = 0
    marked: list[str] = field(default_factory=list)  # what carries marks of an overlay: the first few
    many_marked: int = 0

    def is_spent(self) -> bool:
        """Whether the walk must end; notes why."""
        if not self.cut and self.paths <= 0:
            self.cut = f"it was cut at {MANY_PATHS:,} paths"
        elif not self.cut and time.monotonic() > self.until:
            self.cut = f"it was cut after {MANY_SECONDS:.0f} s"
        return bool(self.cut)

    def may_store(self, size: int, *, is_clean: bool) -> bool:
        """Whether the bounds allow a copy. One of a file that is as git left it is worth less: it must be small."""
        if size > min(LARGE_FILE, self.content) or (is_clean and size > min(LARGE_CONVERTED_FILE, self.converted)):
            self.dropped += 1
            return False
        return True

    def note_mark(self, path: str) -> None:
        """Count a path that carries a mark of an overlay."""
        self.many_marked += 1
        if len(self.marked) < FEW_MARKED:
            self.marked.append(path)

    def spend(self, size: int, *, is_clean: bool) -> None:
        """Count a copy."""
        self.content -= size
        self.converted -= size if is_clean else 0


@dataclass(slots=True)
class Taking:
    """A root whose base is taken into `folder`. `since`: when the agent started, in ns since 1970."""

    folder: str
    root: str
    known: "Known"
    budget: Budget
    since: int
    touched: "Touched"
    program: str
    stores: list[str]

    def is_moved(self, ctime: int) -> bool:
        """Whether something moved after the agent started, so that it is no base of anything."""
        return bool(self.since) and self.since - COARSE <= ctime <= time.time_ns()


Placed = tuple[Found, str]  # and where its bytes are: a stored copy's name, "@store:id" of a blob, "" for nowhere


def take(taking: Taking) -> Iterator[Placed]:
    """Yield each path that is there, then those that went too early to be seen."""
    seen: set[bytes] = set()
    try:
        for found in scan.walk(taking.root, skip=(b".git",), attributes=False):
            if taking.budget.is_spent():
                return
            seen.add(found.path)
            if _is_marked(taking.root, found):
                taking.budget.note_mark(os.fsdecode(found.path))
            if not taking.touched.covers(found.path):
                taking.budget.paths -= 1
                yield _placed(taking, found)
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        taking.budget.cut = "a directory was moved while it was taken"
        return
    yield from _gone_meanwhile(taking, seen)


def _is_marked(root: str, found: Found) -> bool:
    """Whether a real path carries what hides it, or what is below it, from every overlay: a whiteout, or an attribute."""
    if found.entry.type not in (FileType.FILE, FileType.DIRECTORY):
        return found.is_whiteout()
    try:
        names = os.listxattr(os.path.join(root, os.fsdecode(found.path)), follow_symlinks=False)
    except OSError:
        return False  # gone, or too deep to be named: the walk itself knows
    return any(name.startswith("user.overlay.") for name in names)


def _placed(taking: Taking, found: Found) -> Placed:
    if taking.is_moved(found.entry.ctime):
        return replace(found, entry=replace(found.entry, inode=0, ctime=0)), ""  # like nothing: a conflict
    return found, _content(taking, found) if found.entry.type is FileType.FILE else ""


def _content(taking: Taking, found: Found) -> str:
    """Store a file's bytes where nothing else will tell them later; return where they are to be found."""
    known = taking.known.tracked.get(found.path)
    is_clean = known is not None and known.is_older and is_as_recorded(found.entry, known.entry)
    if known is not None and is_clean and not taking.known.is_converted(found.path):
        return known.blob
    if taking.known.is_ignored(found.path):
        return ""  # its identity is enough
    return _store(taking, found, is_clean=is_clean) if taking.budget.may_store(found.entry.size, is_clean=is_clean) else ""


def _store(taking: Taking, found: Found, *, is_clean: bool) -> str:
    name = f"{found.entry.inode:x}-{found.entry.ctime:x}"
    place, copy = os.path.join(taking.root, os.fsdecode(found.path)), f"{taking.folder}/content/{name}"
    try:
        copy_file(place, copy)
        now = os.lstat(place)
    except FileExistsError:
        return name  # a hard link: the same inode, the same bytes
    except OSError:
        return ""
    if (now.st_ino, now.st_ctime_ns) != (found.entry.inode, found.entry.ctime):
        os.unlink(copy)  # it changed after its identity was taken: these are other bytes
        return ""
    taking.budget.spend(found.entry.size, is_clean=is_clean)
    return name


def is_as_recorded(entry: Entry, known: IndexEntry) -> bool:
    """Whether a file is what git's index recorded (git's own test, down to the inode)."""
    return (
        entry.mtime == known.mtime
        and entry.ctime == known.ctime
        and entry.size & 0xFFFFFFFF == known.size
        and entry.inode & 0xFFFFFFFF == known.inode
    )


def _gone_meanwhile(taking: Taking, seen: set[bytes]) -> Iterator[Placed]:
    """Yield what git tracks and the user removed after the start, before the walk came by: like nothing, with its blob.

    What was gone before the start is no part of the base: then the directory it lay in has not moved since.
    """
    folders = {b"": taking.is_moved(os.lstat(taking.root).st_ctime_ns)}
    for path, one in taking.known.tracked.items():
        if path in seen or one.entry.is_skipped or taking.touched.covers(path) or not _has_moved(taking, path, folders):
            continue
        for folder in parents_of(path):
            if folder not in seen:
                seen.add(folder)
                yield Found(folder, Entry(FileType.DIRECTORY, 0o755)), ""
        blob = "" if taking.known.is_converted(path) else one.blob
        entry = Entry(FileType.FILE, one.entry.mode & 0o777, one.entry.size, mtime=one.entry.mtime)
        if stat.S_ISLNK(one.entry.mode):
            entry = replace(entry, type=FileType.SYMLINK, mode=0o777, target=_target(taking, one))
        yield Found(path, entry), blob


def _has_moved(taking: Taking, path: bytes, folders: dict[bytes, bool]) -> bool:
    """Whether the nearest directory above a path that is still there moved after the start."""
    folder = path.rpartition(b"/")[0]
    if folder not in folders:
        try:
            status = os.lstat(os.path.join(taking.root, os.fsdecode(folder)))
            folders[folder] = taking.is_moved(status.st_ctime_ns)
        except OSError:
            folders[folder] = _has_moved(taking, folder, folders)
    return folders[folder]


def _target(taking: Taking, one: "Tracked") -> bytes:
    """Return where a link that is gone pointed to; nowhere when git cannot tell."""
    from agent_dev.git.blob_reader import Blobs  # never before an agent runs

    return (
        Blobs(taking.program, taking.folder, taking.stores[one.store]).read(one.entry.oid.hex(), os.pathconf("/", "PC_PATH_MAX"))
        or b""
    )
