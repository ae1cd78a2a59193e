"""Backups of a real tree: each is a directory named by its time; unchanged files are hard links to the previous backup.

`.agent-dev-backups/` holds the lock and, for each backup, the metadata by which unchanged files are found. A backup is named
`NAME-partial` until it is complete. Links in the source are not followed, no program in it is run, and it may change while it
is copied.
"""

import errno
import fcntl
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_dev import snapshot_retention
from agent_dev.backup import ignore
from agent_dev.errors import BackupBusy, BackupFailed, NewerBackup
from agent_dev.fs import copytree, dir_tree, durable, walk
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import TOO_DEEP, Entry, FileType, WalkedEntry
from agent_dev.fs.rmtree import remove_tree
from agent_dev.quick_dataclass import dataclass, field, replace
from agent_dev.snapshot_retention import RetainedItem, RetentionLimits

IGNORE_FILE = ".backupignore"
METADATA_FOLDER = ".agent-dev-backups"
_PARTIAL = "-partial"
_NAME_FORMAT = "%Y%m%d-%H%M%S"
_VERSION = 1
_RECENT = 20_000_000  # ns: two clock ticks; a change within one leaves the same ctime
_TRIES = 3
_LARGEST_RULES = 1 << 20
_FATAL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

ProgressCallback = Callable[[int, int], None]  # (files so far, bytes copied so far)
Identity = tuple[int, int, int, int]  # inode, ctime (0: too recent to detect a change by it), size, mtime


@dataclass(frozen=True, slots=True)
class BackupSpec:
    """A backup to make: source, target, exclusions.

    `seed`: a copy to compare with while there is no backup, started at `seed_time` (ns since 1970). `is_exact`: copy all mode
    bits.
    """

    source: str
    target: str
    rules: tuple[ignore.IgnoreRule, ...] = ()
    skipped_names: tuple[bytes, ...] = ()  # names at the top
    seed: str = ""
    seed_time: int = 0
    is_exact: bool = False
    progress: ProgressCallback = lambda _files, _bytes: None


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup. `time` in ns since 1970; `linked`: files shared with the previous one, `copied`: bytes of the others.

    `newer_version`: of a backup that a newer agent-dev wrote, of which only the name and the time are known.
    """

    name: str
    path: str
    source: str
    time: int
    files: int
    linked: int
    copied: int
    problems: tuple[str, ...]
    newer_version: int = 0


def load_rules(source: str, excludes: tuple[str, ...] = ()) -> tuple[ignore.IgnoreRule, ...]:
    """Return the exclusion rules: those of `.backupignore` at the top of the tree, then the given patterns."""
    try:
        fd = os.open(f"{source}/{IGNORE_FILE}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        text = b""
    else:
        try:
            text = os.read(fd, _LARGEST_RULES)
        finally:
            os.close(fd)
    return (*ignore.parse_rules(text), *ignore.parse_rules("\n".join(excludes).encode("utf-8", "surrogateescape")))


def make_backup(spec: BackupSpec) -> Backup | None:
    """Make a backup; return None if nothing changed since the previous one. Raises BackupBusy, BackupFailed, NewerBackup."""
    try:
        os.makedirs(f"{spec.target}/{METADATA_FOLDER}", 0o700, exist_ok=True)
    except OSError as error:  # before the backup began
        reason = f"cannot write to {spec.target}: {error.strerror}"
        raise BackupFailed(source=spec.source, reason=reason, hint="use --to with a directory elsewhere") from error
    try:
        with _lock(spec.target):
            _sweep(spec.target)
            return _take(spec)
    except OSError as error:
        raise BackupFailed(
            source=spec.source,
            reason=error.strerror or str(error),
            hint=f"the next backup removes the incomplete one in {spec.target}",
        ) from error


def list_backups(target: str) -> tuple[Backup, ...]:
    """Return the backups in a directory, oldest first."""
    try:
        names = [name.removesuffix(".json") for name in os.listdir(f"{target}/{METADATA_FOLDER}") if name.endswith(".json")]
    except FileNotFoundError:
        return ()
    found = [_about(target, name)[0] for name in names if os.path.isdir(f"{target}/{name}")]
    return tuple(sorted(found, key=lambda one: (one.time, one.name)))


def require_known(backups: tuple[Backup, ...]) -> None:
    """Raise NewerBackup if a newer agent-dev wrote one of these backups."""
    for one in backups:
        if one.newer_version:
            hint = "upgrade agent-dev, or use --to with another directory"
            raise NewerBackup(path=one.path, found=one.newer_version, known=_VERSION, hint=hint)


def prune_backups(target: str, keep: RetentionLimits, interval: int) -> tuple[Backup, ...]:
    """Prune backups by the retention rules, and return them. `interval` in ns. Raises BackupBusy, NewerBackup."""
    with _lock(target):
        require_known(found := list_backups(target))
        entries = tuple(RetainedItem(number, one.time, one.copied) for number, one in enumerate(found))
        pruned = tuple(found[number] for number in snapshot_retention.select_expired(entries, time.time_ns(), interval, keep))
        for one in pruned:
            os.rename(one.path, one.path + _PARTIAL)
            _remove(target, one.name)
    return pruned


@contextmanager
def _lock(target: str) -> Iterator[None]:
    os.makedirs(f"{target}/{METADATA_FOLDER}", 0o700, exist_ok=True)
    lock = os.open(f"{target}/{METADATA_FOLDER}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BackupBusy(target=target, hint="try again when the other backup has ended") from None
    finally:
        os.close(lock)


def _sweep(target: str) -> None:
    """Remove incomplete backups."""
    for name in os.listdir(f"{target}/{METADATA_FOLDER}"):
        stem, dot, _ = name.partition(".")
        if dot and not os.path.isdir(f"{target}/{stem}"):
            _remove(target, stem)
        elif name.endswith(".begun"):
            os.unlink(f"{target}/{METADATA_FOLDER}/{name}")


def _remove(target: str, name: str) -> None:
    remove_tree(f"{target}/{name}{_PARTIAL}")
    for ending in (".begun", ".json"):
        remove_tree(f"{target}/{METADATA_FOLDER}/{name}{ending}")


def _about(target: str, name: str) -> tuple[Backup, dict[bytes, Identity]]:
    """Return a backup and the identities of its files; no identities if they are unreadable: then contents are compared."""
    blank = Backup(name, f"{target}/{name}", "", _time_in(name), 0, 0, 0, ())
    try:
        with open(f"{target}/{METADATA_FOLDER}/{name}.json", encoding="ascii") as file:
            row = json.load(file)
        version = row.pop("version")
        if version != _VERSION:
            return replace(blank, newer_version=version if type(version) is int and version > _VERSION else 0), {}
        known = {os.fsencode(path): (inode, ctime, size, mtime) for path, inode, ctime, size, mtime in row.pop("known")}
        return Backup(name, f"{target}/{name}", problems=tuple(row.pop("problems")), **row), known
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return blank, {}


def _time_in(name: str) -> int:
    """Return the time of a backup according to its name, in ns since 1970; 0 if there is none."""
    try:
        return int(time.mktime(time.strptime(name[:15], _NAME_FORMAT))) * 10**9
    except (ValueError, OverflowError):
        return 0


def _take(spec: BackupSpec) -> Backup | None:
    require_known(before := list_backups(spec.target))
    if before and before[-1].source not in ("", spec.source):
        raise BackupFailed(
            source=spec.source,
            reason=f"{spec.target} holds backups of {before[-1].source}",
            hint="use --to with another directory",
        )
    started, last = time.time_ns(), before[-1].path if before else spec.seed
    known = _about(spec.target, before[-1].name)[1] if before else {}
    backup_run = _BackupRun(spec, Tree(spec.source), Tree(last) if last else None, known)
    try:
        if not backup_run.look():
            return None
        return _write(backup_run, started)
    finally:
        backup_run.close()


def _write(backup_run: "_BackupRun", started: int) -> Backup:
    spec = backup_run.spec
    name = _new_name(spec.target, started)
    path = f"{spec.target}/{name}"
    open(f"{spec.target}/{METADATA_FOLDER}/{name}.begun", "xb").close()  # read by `_sweep`
    durable.mkdir_path(path + _PARTIAL)
    backup_run.copy_into(path + _PARTIAL)
    backup = Backup(
        name, path, spec.source, started, backup_run.files, backup_run.linked, backup_run.copied, tuple(backup_run.problems)
    )
    row = {
        "version": _VERSION,
        "source": backup.source,
        "time": started,
        "files": backup.files,
        "linked": backup.linked,
        "copied": backup.copied,
        "problems": backup.problems,
        "known": [(os.fsdecode(one.path), *_identity(one.entry, started)) for one in backup_run.found],
    }
    with open(f"{spec.target}/{METADATA_FOLDER}/{name}.json", "x", encoding="ascii") as file:
        json.dump(row, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + _PARTIAL, path)
    durable.sync_path(spec.target)
    os.unlink(f"{spec.target}/{METADATA_FOLDER}/{name}.begun")
    return backup


def _new_name(target: str, time_ns: int) -> str:
    stamp = time.strftime(_NAME_FORMAT, time.localtime(time_ns // 10**9))
    names = itertools.chain((stamp,), (f"{stamp}-{number}" for number in itertools.count(2)))
    return next(
        name
        for name in names
        if not os.path.lexists(f"{target}/{name}") and not os.path.lexists(f"{target}/{METADATA_FOLDER}/{name}.json")
    )


def _identity(entry: Entry, started: int) -> Identity:
    return (entry.inode, entry.ctime if entry.ctime < started - _RECENT else 0, entry.size, entry.mtime)


@dataclass(slots=True)
class _BackupRun:
    """A backup in progress: the entries of the source, and which of them are unchanged."""

    spec: BackupSpec
    source: Tree
    last: Tree | None
    known: dict[bytes, Identity]
    found: list[WalkedEntry] = field(default_factory=list)
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
        """Walk the source; return whether anything differs from the previous backup."""
        for one in self._walk(self.spec.source, self.problems):
            self.found.append(one)
            if one.is_too_deep:
                self.problems.append(f"{os.fsdecode(one.path)}: {TOO_DEEP} kept")
            if self.last is not None and (
                self._is_same(self.last, one.path, one.entry) or self._is_still_unreadable(self.last, one)
            ):
                self.same.add(one.path)
        return self.last is None or len(self.same) != len(self.found) or self._has_removals(self.last)

    def _has_removals(self, last: Tree) -> bool:
        names = {one.path for one in self.found}
        were = self.known or [one.path for one in self._walk(last.path, [])]
        return any(path not in names for path in were)

    def _walk(self, root: str, problems: list[str]) -> Iterator[WalkedEntry]:
        rules = self.spec.rules

        def leave(path: bytes, kind: FileType) -> bool:
            return ignore.is_excluded(path, rules, is_folder=kind is FileType.DIRECTORY)

        walked = walk.walk(root, skip=self.spec.skipped_names, problems=problems, leave=leave if rules else None)
        return (one for one in walked if one.entry.type not in (FileType.SOCKET, FileType.DEVICE))

    def _is_same(self, last: Tree, path: bytes, entry: Entry) -> bool:
        known = self.known.get(path)
        previous = last.entry_at(path, attributes=known is None or known[:2] != (entry.inode, entry.ctime))
        if previous is None or previous.type is not entry.type:
            return False
        bits = 0o7777 if self.spec.is_exact else 0o777
        if entry.type is not FileType.SYMLINK and previous.mode & bits != entry.mode & bits:
            return False
        is_file = entry.type is FileType.FILE
        if is_file and (previous.size, previous.mtime) != (entry.size, entry.mtime):
            return False
        is_older = not self.known and entry.ctime < self.spec.seed_time - _RECENT
        if is_older or known == (entry.inode, entry.ctime, entry.size, entry.mtime):
            return True
        if (previous.target, previous.attributes) != (entry.target, entry.attributes):
            return False
        return not is_file or self._has_bytes_of(last, path)

    def _is_still_unreadable(self, last: Tree, one: WalkedEntry) -> bool:
        """Return whether a file was unreadable in the previous backup, and is unchanged and unreadable now."""
        entry = one.entry
        is_as_known = self.known.get(one.path) == (entry.inode, entry.ctime, entry.size, entry.mtime)
        if entry.type is not FileType.FILE or not is_as_known or last.entry_at(one.path, attributes=False) is not None:
            return False
        try:
            os.close(self.source.open(one.path, os.O_RDONLY))
        except OSError:
            return True
        return False

    def _has_bytes_of(self, last: Tree, path: bytes) -> bool:
        try:
            return dir_tree.have_same_content(last, self.source, path)
        except OSError:
            return False  # the copy reports the error

    def copy_into(self, path: str) -> None:
        """Fill a new directory. Raises OSError if it cannot be written."""
        target = Tree(path, is_ours=True)
        try:
            copier = copytree.Copier(self.source, target, is_exact=self.spec.is_exact)
            folders = []
            for one in self.found:
                self._put(copier, one)
                if one.entry.type is FileType.DIRECTORY:
                    folders.append(one)
            for one in reversed(folders):
                if target.entry_at(one.path, attributes=False) is not None:
                    copytree.set_directory_mode(
                        target, one.path, copier.copied_directory_mode(one.path, one.entry), one.entry.mtime
                    )
            durable.syncfs(target.fd)
        finally:
            target.close()

    def _put(self, copier: copytree.Copier, one: WalkedEntry) -> None:
        if one.entry.type is FileType.FILE:
            self.files += 1
            self.spec.progress(self.files, self.copied)
            if one.path in self.same and self.last is not None and _link(self.last, copier.target, one.path):
                self.linked += 1
                return
        self._copy(copier, one.path, one.entry)

    def _copy(self, copier: copytree.Copier, path: bytes, entry: Entry) -> None:
        """Copy an entry; retry if it changes during the copy. An unreadable entry is a problem, one that is gone is not."""
        for left in reversed(range(_TRIES)):
            try:
                copier.copy(path, entry)
            except OSError as error:
                if error.errno in _FATAL:
                    raise
                _remove_copy(copier.target, path)
                if error.errno != errno.ENOENT:
                    self.problems.append(f"{os.fsdecode(path)}: {os.strerror(error.errno or errno.EIO)}")
                return
            now = self.source.entry_at(path) if entry.type is FileType.FILE else None
            if now is None or now.type is not entry.type or _is_unchanged(entry, now):
                break
            if left:
                _remove_copy(copier.target, path)
                entry = now
        else:
            self.problems.append(f"{os.fsdecode(path)}: it kept changing while it was copied")
        self.copied += entry.size if entry.type is FileType.FILE else 0


def _is_unchanged(before: Entry, now: Entry) -> bool:
    return (before.size, before.mtime, before.ctime) == (now.size, now.mtime, now.ctime)


def _remove_copy(target: Tree, path: bytes) -> None:
    folder, _, name = path.rpartition(b"/")
    try:
        durable.unlink(name, target.directory(folder))
    except (FileNotFoundError, IsADirectoryError):
        return


def _link(last: Tree, target: Tree, path: bytes) -> bool:
    """Hard-link a file to the previous backup; return False if impossible: too many links, another file system."""
    folder, _, name = path.rpartition(b"/")
    try:
        durable.link(last.directory(folder), name, target.directory(folder), name)
    except OSError as error:
        if error.errno in (errno.EMLINK, errno.EXDEV, errno.EPERM, errno.ENOENT):
            return False
        raise
    return True
