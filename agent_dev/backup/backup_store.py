"""Backups of a real tree: one directory each, named by its time, in which what did not change is a hard link to the one before.

Beside them `.agent-dev-backups/` has the lock and, for each, what tells later which files are still the same. A backup is called
`NAME-partial` until it is complete. Nothing of the source's is followed or run; who writes there meanwhile is not stopped.
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_dev.backup import ignore
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.restore_plan import Held, Keep
from agent_dev.errors import BackupBusy, BackupFailed
from agent_dev.fs import copytree as copies
from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.fs import walk as scan
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.rmtree import remove_tree
from agent_dev.overlay.changes import Entry, FileType
from agent_dev.overlay.interpret import Found

IGNORE = ".backupignore"
NOTES = ".agent-dev-backups"
_PARTIAL = "-partial"
_VERSION = 1
_YOUNG = 20_000_000  # ns: two clock ticks; a change within one leaves the same ctime
_TRIES = 3
_LARGEST_RULES = 1 << 20
_FATAL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

Progress = Callable[[int, int], None]  # files so far, bytes copied so far
Identity = tuple[int, int, int, int]  # inode, ctime (0: too young to tell a change by it), size, mtime


@dataclass(frozen=True, slots=True)
class Wish:
    """What is backed up, to where, without what.

    `first`: a copy of ours to compare with while there is no backup, begun at `first_at` (ns since 1970).
    """

    source: str
    target: str
    rules: tuple[ignore.Rule, ...] = ()
    skip: tuple[bytes, ...] = ()  # names at the top
    first: str = ""
    first_at: int = 0
    progress: Progress = lambda _files, _bytes: None


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup. `time` in ns since 1970; `linked`: files that it shares with the one before, `copied`: bytes of the others."""

    name: str
    path: str
    source: str
    time: int
    files: int
    linked: int
    copied: int
    problems: tuple[str, ...]


def rules_of(source: str, excludes: tuple[str, ...] = ()) -> tuple[ignore.Rule, ...]:
    """Return what is left out: by the `.backupignore` at the top of the tree, then by patterns of the same kind."""
    try:
        fd = os.open(f"{source}/{IGNORE}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        text = b""
    else:
        try:
            text = os.read(fd, _LARGEST_RULES)
        finally:
            os.close(fd)
    return (*ignore.rules(text), *ignore.rules("\n".join(excludes).encode("utf-8", "surrogateescape")))


def take(wish: Wish) -> Backup | None:
    """Make a backup; None when nothing changed since the one before. Raises BackupBusy, BackupFailed."""
    try:
        os.makedirs(f"{wish.target}/{NOTES}", 0o700, exist_ok=True)
    except OSError as error:  # nothing was begun
        reason = f"{wish.target} cannot be written: {error.strerror}"
        raise BackupFailed(source=wish.source, reason=reason, hint="--to a directory elsewhere") from error
    try:
        with _alone(wish.target):
            _sweep(wish.target)
            return _take(wish)
    except OSError as error:
        raise BackupFailed(
            source=wish.source, reason=error.strerror or str(error), hint=f"what was begun in {wish.target} does not count"
        ) from error


def listed(target: str) -> tuple[Backup, ...]:
    """Return the backups in a directory, oldest first."""
    try:
        names = [name.removesuffix(".json") for name in os.listdir(f"{target}/{NOTES}") if name.endswith(".json")]
    except FileNotFoundError:
        return ()
    found = [_about(target, name)[0] for name in names if os.path.isdir(f"{target}/{name}")]
    return tuple(sorted(found, key=lambda one: (one.time, one.name)))


def let_go(target: str, keep: Keep, interval: int) -> tuple[Backup, ...]:
    """Remove the backups that need not be kept, and return them. `interval` in ns. Raises BackupBusy."""
    with _alone(target):
        found = listed(target)
        held = tuple(Held(number, one.time, one.copied) for number, one in enumerate(found))
        gone = tuple(found[number] for number in history.thinned(held, time.time_ns(), interval, keep))
        for one in gone:
            os.rename(one.path, one.path + _PARTIAL)
            _remove(target, one.name)
    return gone


@contextmanager
def _alone(target: str) -> Iterator[None]:
    os.makedirs(f"{target}/{NOTES}", 0o700, exist_ok=True)
    lock = os.open(f"{target}/{NOTES}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BackupBusy(target=target, hint="it is done when that one ends") from None
    finally:
        os.close(lock)


def _sweep(target: str) -> None:
    """Remove what was begun and never completed."""
    for name in os.listdir(f"{target}/{NOTES}"):
        stem, dot, _ = name.partition(".")
        if dot and not os.path.isdir(f"{target}/{stem}"):
            _remove(target, stem)
        elif name.endswith(".begun"):
            os.unlink(f"{target}/{NOTES}/{name}")


def _remove(target: str, name: str) -> None:
    remove_tree(f"{target}/{name}{_PARTIAL}")
    for ending in (".begun", ".json"):
        remove_tree(f"{target}/{NOTES}/{name}{ending}")


def _about(target: str, name: str) -> tuple[Backup, dict[bytes, Identity]]:
    """Return a backup and what its files were known by; what cannot be read of that is nothing, and contents are compared."""
    blank = Backup(name, f"{target}/{name}", "", 0, 0, 0, 0, ())
    try:
        with open(f"{target}/{NOTES}/{name}.json", encoding="ascii") as file:
            row = json.load(file)
        if row.pop("version") != _VERSION:
            return blank, {}
        known = {os.fsencode(path): (inode, ctime, size, mtime) for path, inode, ctime, size, mtime in row.pop("known")}
        return Backup(name, f"{target}/{name}", problems=tuple(row.pop("problems")), **row), known
    except (OSError, ValueError, KeyError, TypeError):
        return blank, {}


def _take(wish: Wish) -> Backup | None:
    before = listed(wish.target)
    if before and before[-1].source not in ("", wish.source):
        raise BackupFailed(
            source=wish.source, reason=f"{wish.target} has those of {before[-1].source}", hint="--to another directory"
        )
    begun, last = time.time_ns(), before[-1].path if before else wish.first
    known = _about(wish.target, before[-1].name)[1] if before else {}
    taking = _Taking(wish, Tree(wish.source), Tree(last) if last else None, known)
    try:
        if not taking.look():
            return None
        return _write(taking, begun)
    finally:
        taking.close()


def _write(taking: "_Taking", begun: int) -> Backup:
    wish = taking.wish
    name = _new_name(wish.target, begun)
    path = f"{wish.target}/{name}"
    open(f"{wish.target}/{NOTES}/{name}.begun", "xb").close()  # what `_sweep` goes by
    disk.mkdir_path(path + _PARTIAL)
    taking.copy_into(path + _PARTIAL)
    made = Backup(name, path, wish.source, begun, taking.files, taking.linked, taking.copied, tuple(taking.problems))
    row = {
        "version": _VERSION,
        "source": made.source,
        "time": begun,
        "files": made.files,
        "linked": made.linked,
        "copied": made.copied,
        "problems": made.problems,
        "known": [(os.fsdecode(one.path), *_identity(one.entry, begun)) for one in taking.found],
    }
    with open(f"{wish.target}/{NOTES}/{name}.json", "x", encoding="ascii") as file:
        json.dump(row, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + _PARTIAL, path)
    disk.sync_path(wish.target)
    os.unlink(f"{wish.target}/{NOTES}/{name}.begun")
    return made


def _new_name(target: str, at: int) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(at // 10**9))
    names = (stamp, *(f"{stamp}-{number}" for number in range(2, 1 << 20)))
    return next(
        name for name in names if not os.path.lexists(f"{target}/{name}") and not os.path.lexists(f"{target}/{NOTES}/{name}.json")
    )


def _identity(entry: Entry, begun: int) -> Identity:
    return (entry.inode, entry.ctime if entry.ctime < begun - _YOUNG else 0, entry.size, entry.mtime)


@dataclass(slots=True)
class _Taking:
    """One backup in the making: what the source holds, and which of it is as it was."""

    wish: Wish
    source: Tree
    last: Tree | None
    known: dict[bytes, Identity]
    found: list[Found] = field(default_factory=list)
    same: set[bytes] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    files: int = 0
    linked: int = 0
    copied: int = 0

    def close(self) -> None:
        """Close both trees."""
        self.source.close()
        if self.last is not None:
            self.last.close()

    def look(self) -> bool:
        """Look at everything; return whether anything is unlike the backup before."""
        for one in self._walk(self.wish.source, self.problems):
            self.found.append(one)
            if self.last is not None and (self._is_same(self.last, one.path, one.entry) or self._is_still_shut(self.last, one)):
                self.same.add(one.path)
        return self.last is None or len(self.same) != len(self.found) or self._has_lost(self.last)

    def _has_lost(self, last: Tree) -> bool:
        names = {one.path for one in self.found}
        were = self.known or [one.path for one in self._walk(last.path, [])]
        return any(path not in names for path in were)

    def _walk(self, root: str, problems: list[str]) -> Iterator[Found]:
        rules = self.wish.rules

        def leave(path: bytes, kind: FileType) -> bool:
            return ignore.is_left_out(path, rules, is_folder=kind is FileType.DIRECTORY)

        walked = scan.walk(root, skip=self.wish.skip, problems=problems, leave=leave if rules else None)
        return (one for one in walked if one.entry.type not in (FileType.SOCKET, FileType.DEVICE))

    def _is_same(self, last: Tree, path: bytes, entry: Entry) -> bool:
        known = self.known.get(path)
        held = last.look(path, attributes=known is None or known[:2] != (entry.inode, entry.ctime))
        if held is None or held.type is not entry.type:
            return False
        if entry.type is not FileType.SYMLINK and held.mode & 0o777 != entry.mode & 0o777:
            return False
        is_file = entry.type is FileType.FILE
        if is_file and (held.size, held.mtime) != (entry.size, entry.mtime):
            return False
        is_older = not self.known and entry.ctime < self.wish.first_at - _YOUNG
        if is_older or known == (entry.inode, entry.ctime, entry.size, entry.mtime):
            return True
        if (held.target, held.attributes) != (entry.target, entry.attributes):
            return False
        return not is_file or self._has_bytes_of(last, path)

    def _is_still_shut(self, last: Tree, one: Found) -> bool:
        """Whether a file could not be read for the backup before, and is what it was and cannot be read now."""
        entry = one.entry
        is_as_known = self.known.get(one.path) == (entry.inode, entry.ctime, entry.size, entry.mtime)
        if entry.type is not FileType.FILE or not is_as_known or last.look(one.path, attributes=False) is not None:
            return False
        try:
            os.close(self.source.open(one.path, os.O_RDONLY))
        except OSError:
            return True
        return False

    def _has_bytes_of(self, last: Tree, path: bytes) -> bool:
        try:
            return files.are_equal(last, self.source, path)
        except OSError:
            return False  # what is wrong with it is said when it is copied

    def copy_into(self, path: str) -> None:
        """Fill a new directory of ours. Raises OSError where it cannot be written."""
        target = Tree(path, is_ours=True)
        try:
            copier = copies.Copier(self.source, target)
            folders = []
            for one in self.found:
                self._put(copier, one)
                if one.entry.type is FileType.DIRECTORY:
                    folders.append(one)
            for one in reversed(folders):
                if target.look(one.path, attributes=False) is not None:
                    copies.with_mode(target, one.path, one.entry.mode & 0o777, one.entry.mtime)
            disk.syncfs(target.fd)
        finally:
            target.close()

    def _put(self, copier: copies.Copier, one: Found) -> None:
        if one.entry.type is FileType.FILE:
            self.files += 1
            self.wish.progress(self.files, self.copied)
            if one.path in self.same and self.last is not None and _link(self.last, copier.target, one.path):
                self.linked += 1
                return
        self._copy(copier, one.path, one.entry)

    def _copy(self, copier: copies.Copier, path: bytes, entry: Entry) -> None:
        """Copy one, again when it changes meanwhile; what cannot be read is a problem, what is gone is gone."""
        for left in reversed(range(_TRIES)):
            try:
                copier.copy(path, entry)
            except OSError as error:
                if error.errno in _FATAL:
                    raise
                _take_back(copier.target, path)
                if error.errno != errno.ENOENT:
                    self.problems.append(f"{os.fsdecode(path)}: {os.strerror(error.errno or errno.EIO)}")
                return
            now = self.source.look(path) if entry.type is FileType.FILE else None
            if now is None or now.type is not entry.type or _is_still(entry, now):
                break
            if left:
                _take_back(copier.target, path)
                entry = now
        else:
            self.problems.append(f"{os.fsdecode(path)}: it changed while it was copied")
        self.copied += entry.size if entry.type is FileType.FILE else 0


def _is_still(before: Entry, now: Entry) -> bool:
    return (before.size, before.mtime, before.ctime) == (now.size, now.mtime, now.ctime)


def _take_back(target: Tree, path: bytes) -> None:
    folder, _, name = path.rpartition(b"/")
    try:
        disk.unlink(name, target.folder(folder))
    except (FileNotFoundError, IsADirectoryError):
        return


def _link(last: Tree, target: Tree, path: bytes) -> bool:
    """Let a backup share a file with the one before; False where it cannot: too many names, another file system."""
    folder, _, name = path.rpartition(b"/")
    try:
        disk.link(last.folder(folder), name, target.folder(folder), name)
    except OSError as error:
        if error.errno in (errno.EMLINK, errno.EXDEV, errno.EPERM, errno.ENOENT):
            return False
        raise
    return True
