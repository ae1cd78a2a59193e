"""Record a root at the start of a session, path by path, and the location of each file's content."""

import errno
import os
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent_dev.fs import walk
from agent_dev.fs.entry import Entry, FileType, WalkedEntry, parents_of
from agent_dev.git.formats.index_format import IndexEntry
from agent_dev.git.private_copy import copy_file
from agent_dev.overlay.lower_snapshot import MAX_STORED_FILE
from agent_dev.overlay.lower_snapshot_row import RecordedPath
from agent_dev.quick_dataclass import dataclass, field

if TYPE_CHECKING:
    from agent_dev.fs.unlocked_directories import UnlockedDirectories
    from agent_dev.overlay.lower_snapshot_git import GitView, TrackedFile
    from agent_dev.overlay.lower_snapshot_request import PriorChanges

MAX_PATHS = 1_000_000
MAX_STORED_BYTES = 256 << 20  # all stored copies together
MAX_CONVERTED_BYTES = 64 << 20  # copies of unchanged files that git stores converted
MAX_CONVERTED_FILE = 1 << 20
MAX_SECONDS = 60.0
MANY_ATTRIBUTES = 4 << 20  # bytes of extended attributes in all; they are in the manifest itself
MAX_LISTED_MARKS = 5
_OVERLAY = "user.overlay."
_32_BITS = 0xFFFFFFFF
CLOCK_LAG_NS = 10_000_000  # ns: file system timestamps may lag by this much


@dataclass(slots=True)
class Budget:
    """The unused rest of a snapshot's limits, and their effects: why the walk stopped early, how many files were not stored."""

    paths: int = MAX_PATHS
    content_bytes: int = MAX_STORED_BYTES
    converted_bytes: int = MAX_CONVERTED_BYTES
    attributes: int = MANY_ATTRIBUTES
    deadline: float = 0.0  # monotonic
    stop_reason: str = ""
    dropped: int = 0
    marked_paths: list[str] = field(default_factory=list)  # the first few paths with overlayfs marks
    marked_count: int = 0

    def is_spent(self) -> bool:
        """Return whether the walk must stop; record why."""
        if not self.stop_reason and self.paths <= 0:
            self.stop_reason = f"it stopped at {MAX_PATHS:,} paths"
        elif not self.stop_reason and time.monotonic() > self.deadline:
            self.stop_reason = f"it timed out after {MAX_SECONDS:.0f} s"
        return bool(self.stop_reason)

    def may_store(self, size: int, *, is_clean: bool) -> bool:
        """Return whether the limits allow a copy. A file that git can restore must be small."""
        if size > min(MAX_STORED_FILE, self.content_bytes) or (is_clean and size > min(MAX_CONVERTED_FILE, self.converted_bytes)):
            self.dropped += 1
            return False
        return True

    def note_mark(self, path: str) -> None:
        """Count a path with an overlayfs mark."""
        self.marked_count += 1
        if len(self.marked_paths) < MAX_LISTED_MARKS:
            self.marked_paths.append(path)

    def spend(self, size: int, *, is_clean: bool) -> None:
        """Count a copy."""
        self.content_bytes -= size
        self.converted_bytes -= size if is_clean else 0


@dataclass(slots=True)
class RootSnapshot:
    """A root that is recorded into `folder`. `since`: start of the agent, in ns since 1970."""

    folder: str
    root: str
    git_view: "GitView"
    budget: Budget
    since: int
    touched: "PriorChanges"
    program: str
    stores: list[str]
    skip: tuple[bytes, ...] = (b".git",)
    opened: "UnlockedDirectories | None" = None  # unlocks directories that keep their owner out

    def has_changed(self, ctime: int) -> bool:
        """Return whether a path changed after the agent started, so that it has no base version."""
        return bool(self.since) and self.since - CLOCK_LAG_NS <= ctime <= time.time_ns()


def record_root(taking: RootSnapshot) -> Iterator[RecordedPath]:
    """Yield every existing path, then those that were deleted before the walk reached them."""
    seen: set[bytes] = set()  # without the tracked ones, which leave `tracked` instead
    top = os.path.join(os.fsencode(taking.root), b"")
    try:
        for found in walk.walk(taking.root, skip=taking.skip, attributes=False, opened=taking.opened):
            if taking.budget.is_spent():
                return
            tracked = taking.git_view.tracked.pop(found.path, None)
            if tracked is None:
                seen.add(found.path)
            names = _attribute_names(top, found)
            if found.is_whiteout() or (names and any(name.startswith(_OVERLAY) for name in names)):
                taking.budget.note_mark(os.fsdecode(found.path))
            if not taking.touched.includes(found.path):
                taking.budget.paths -= 1
                yield _record(taking, found, tracked, names)
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        taking.budget.stop_reason = "a directory was moved while it was read"
        return
    yield from _deleted_early(taking, seen)


def _attribute_names(top: bytes, found: WalkedEntry) -> list[str] | None:
    """Return the names of a path's own attributes and of overlayfs attributes; None if they are unknown. `top`: ends with /."""
    if found.entry.type not in (FileType.FILE, FileType.DIRECTORY):
        return []
    try:
        names = os.listxattr(top + found.path, follow_symlinks=False)
    except OSError:
        return None  # deleted, or its path is too long: the walk handles that
    return [name for name in names if name.startswith("user.")] if names else names


def _record(taking: RootSnapshot, found: WalkedEntry, tracked: "TrackedFile | None", names: list[str] | None) -> RecordedPath:
    if taking.has_changed(found.entry.ctime):
        return found.path, found.entry.with_values(inode=0, ctime=0), "", False  # equals nothing: a conflict
    stored = _content_location(taking, found, tracked) if found.entry.type is FileType.FILE else ""
    if not names:
        return found.path, found.entry, stored, names is not None
    own = _attributes(taking, found, names)
    if own is None:
        return found.path, found.entry, stored, False
    return found.path, found.entry.with_values(attributes=own), stored, True


def _attributes(taking: RootSnapshot, found: WalkedEntry, names: list[str]) -> tuple[tuple[str, bytes], ...] | None:
    """Return a path's own attributes; None if they are unreadable, exceed the budget, or change during the read."""
    place = os.path.join(taking.root, os.fsdecode(found.path))
    try:
        own = [(name, os.getxattr(place, name, follow_symlinks=False)) for name in sorted(names) if not name.startswith(_OVERLAY)]
        is_same = os.lstat(place).st_ctime_ns == found.entry.ctime
    except OSError:
        return None
    size = sum(len(name) + len(value) for name, value in own)
    if not is_same or size > taking.budget.attributes:
        return None
    taking.budget.attributes -= size
    return tuple(own)


def _content_location(taking: RootSnapshot, found: WalkedEntry, tracked: "TrackedFile | None") -> str:
    """Store a file's bytes if they cannot be read from elsewhere later; return their location."""
    is_clean = False
    if tracked is not None:
        known, origin = tracked
        is_clean = known.mtime < origin.written and is_as_recorded(found.entry, known)
        if is_clean and not taking.git_view.is_converted(found.path):
            return origin.blob(known)
    elif taking.git_view.is_ignored(found.path):
        return ""  # the identity suffices to recognize it
    return _store(taking, found, is_clean=is_clean) if taking.budget.may_store(found.entry.size, is_clean=is_clean) else ""


def _store(taking: RootSnapshot, found: WalkedEntry, *, is_clean: bool) -> str:
    name = f"{found.entry.inode:x}-{found.entry.ctime:x}"
    path, copy = os.path.join(taking.root, os.fsdecode(found.path)), f"{taking.folder}/content/{name}"
    try:
        copy_file(path, copy)
        now = os.lstat(path)
    except FileExistsError:
        return name  # a hard link: same inode, same bytes
    except OSError:
        return ""
    if (now.st_ino, now.st_ctime_ns) != (found.entry.inode, found.entry.ctime):
        os.unlink(copy)  # it changed after its identity was read
        return ""
    taking.budget.spend(found.entry.size, is_clean=is_clean)
    return name


def is_as_recorded(entry: Entry, known: IndexEntry) -> bool:
    """Return whether a file matches its index entry, by git's own test, including the inode."""
    inode, size, mtime, ctime = entry.stat_numbers
    is_unchanged = mtime == known.mtime and ctime == known.ctime
    return is_unchanged and size & _32_BITS == known.size and inode & _32_BITS == known.inode


def _deleted_early(taking: RootSnapshot, seen: set[bytes]) -> Iterator[RecordedPath]:
    """Yield tracked paths that the user deleted after the start, before the walk reached them: without identity, with their blob.

    A path whose directory has not changed since the start was deleted earlier and is not part of the snapshot.
    """
    folders = {b"": taking.has_changed(os.lstat(taking.root).st_ctime_ns)}
    for path, (known, origin) in taking.git_view.tracked.items():
        if known.is_skipped or taking.touched.includes(path) or not _has_moved(taking, path, folders):
            continue
        for folder in parents_of(path):
            if folder not in seen:
                seen.add(folder)
                yield folder, Entry(FileType.DIRECTORY, 0o755), "", False
        blob = "" if taking.git_view.is_converted(path) else origin.blob(known)
        entry = Entry(FileType.FILE, known.mode & 0o777, known.size, mtime=known.mtime)
        if stat.S_ISLNK(known.mode):
            target = _target(taking, origin.store, known.oid.hex())
            entry = entry.with_values(type=FileType.SYMLINK, mode=0o777, target=target)
        yield path, entry, blob, False


def _has_moved(taking: RootSnapshot, path: bytes, folders: dict[bytes, bool]) -> bool:
    """Return whether the nearest existing directory above a path changed after the start."""
    folder = path.rpartition(b"/")[0]
    if folder not in folders:
        try:
            status = os.lstat(os.path.join(taking.root, os.fsdecode(folder)))
            folders[folder] = taking.has_changed(status.st_ctime_ns)
        except OSError:
            folders[folder] = _has_moved(taking, folder, folders)
    return folders[folder]


def _target(taking: RootSnapshot, store: int, oid: str) -> bytes:
    """Return the target of a deleted link from git's blob; empty if git cannot read it."""
    from agent_dev.git.blob_reader import BlobReader  # never before an agent runs

    reader = BlobReader(taking.program, taking.folder, taking.stores[store])
    return reader.read(oid, os.pathconf("/", "PC_PATH_MAX")) or b""
