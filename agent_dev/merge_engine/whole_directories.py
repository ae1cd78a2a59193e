"""New directories that come as a whole, by one rename: which may, and whether one is still what it was."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent_dev.fs import digest
from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.linux import syscalls as kernel
from agent_dev.merge_engine.journal import Mark, Op
from agent_dev.merge_engine.merge_plan import SPECIAL_BITS, MakeFolder, MergePlan, Put
from agent_dev.merge_engine.slots import Stage, is_foreign
from agent_dev.overlay.changes import Entry, FileType, Key

Members = tuple[tuple[bytes, Mark], ...]
Strays = tuple[tuple[bytes, tuple[str, ...]], ...]
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 64  # directories within each other: each is open while what is in it is read
_TYPES = {stat.S_IFREG: FileType.FILE, stat.S_IFDIR: FileType.DIRECTORY, stat.S_IFLNK: FileType.SYMLINK}
_OVERLAY = "user.overlay."


@dataclass(frozen=True, slots=True)
class Whole:
    """A directory of an upper that can come by one rename: what it holds, and attributes of directories that do not come."""

    key: Key
    mark: Mark
    members: Members
    strays: Strays


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a plan takes of one root: directories that are made, with their modes, and what is put."""

    folders: Mapping[bytes, int]
    puts: Mapping[bytes, Entry]


def find(plan: MergePlan, root: int, upper: files.Tree, real: files.Tree) -> Iterator[Whole]:
    """Yield the outermost new directories of which a plan takes everything, and in which nothing must be left out or changed."""
    puts = {one.key.path: one.after for one in plan.steps if isinstance(one, Put) and one.key.root == root and _is_plain(one)}
    made = {one.key.path: one.mode for one in plan.steps if isinstance(one, MakeFolder) and one.key.root == root}
    empty = {path: after.mode for path, after in puts.items() if after.type is FileType.DIRECTORY}
    wanted = _Wanted(made | empty, puts)
    for path in sorted(made):
        above = path.rpartition(b"/")[0]
        if above not in made and real.look(path, attributes=False) is None:
            yield from (one for one in _Search(root, wanted).below(upper.folder(above), path) if one.members)


def _is_plain(step: Put) -> bool:
    return step.expect is None and step.content is None


class _Search:
    def __init__(self, root: int, wanted: _Wanted) -> None:
        self._root = root
        self._wanted = wanted

    def below(self, folder: int, path: bytes) -> list[Whole]:
        """Return the whole directory at a path, or those within it when it is none itself."""
        if path not in self._wanted.folders:
            return []
        try:
            fd = kernel.open_below(folder, path.rpartition(b"/")[2], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return []  # shut to its owner
        try:
            return self._within(fd, path)
        finally:
            os.close(fd)

    def _within(self, fd: int, path: bytes) -> list[Whole]:
        is_clean, own = True, _strays(fd)
        members: list[tuple[bytes, Mark]] = []
        strays: list[tuple[bytes, tuple[str, ...]]] = [(b"", own)] if own else []
        parts: list[Whole] = []
        for name, status in listed(fd):
            inside = path + b"/" + name
            if stat.S_ISDIR(status.st_mode):
                found = self.below(fd, inside) if path.count(b"/") < _DEEPEST else []
                is_clean = is_clean and len(found) == 1 and found[0].key.path == inside
                parts += found
            elif self._is_clean(fd, name, status, self._wanted.puts.get(inside)):
                members.append((name, mark_of(status)))
            else:
                is_clean = False
        status = os.fstat(fd)
        is_open = status.st_mode & (SPECIAL_BITS | 0o700) == 0o700
        if not is_clean or not is_open or own is None or stat.S_IMODE(status.st_mode) != self._wanted.folders[path]:
            return [one for one in parts if one.members]
        for part in parts:
            name = part.key.path[len(path) + 1 :]
            members += [(name, part.mark), *((name + b"/" + rest, mark) for rest, mark in part.members)]
            strays += [(name + b"/" + rest if rest else name, names) for rest, names in part.strays]
        return [Whole(Key(self._root, path), mark_of(status), tuple(members), tuple(strays))]

    def _is_clean(self, fd: int, name: bytes, status: os.stat_result, after: Entry | None) -> bool:
        """Whether it is what was chosen, no other name leads to it, and nothing must be taken off it."""
        found = (status.st_ino, status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode))
        if after is None or found != (after.inode, after.size, after.mtime, after.mode):
            return False
        if stat.S_ISLNK(status.st_mode):
            return status.st_nlink == 1
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_mode & (SPECIAL_BITS | 0o400) != 0o400:
            return False
        names = os.listxattr(b"/proc/self/fd/%d/%b" % (fd, name), follow_symlinks=False)
        return not any(map(is_foreign, names))


def _strays(fd: int) -> tuple[str, ...] | None:
    """Return the overlay's attributes of a directory, which are taken off it; None when it has others that do not come."""
    names = [name for name in os.listxattr(fd) if is_foreign(name)]
    return tuple(names) if all(name.startswith(_OVERLAY) for name in names) else None


def listed(fd: int) -> list[tuple[bytes, os.stat_result]]:
    """Return what is in an open directory."""
    with os.scandir(fd) as entries:
        return [(os.fsencode(one.name), one.stat(follow_symlinks=False)) for one in entries]


def mark_of(status: os.stat_result) -> Mark:
    """Return a mark of what is a file, a link or a directory; of other things one that is nothing's."""
    kind = _TYPES.get(stat.S_IFMT(status.st_mode), FileType.DEVICE)
    size, mtime, ctime = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return Mark(kind, status.st_ino, size, mtime, ctime, stat.S_IMODE(status.st_mode))


def is_as(folder: int, name: bytes, op: Op) -> bool:
    """Whether a directory holds what an operation brought, nobody having changed, added or removed anything."""
    try:
        fd = os.open(name, _OPEN, dir_fd=folder)
    except OSError:
        return False
    try:
        known = dict(op.whole)
        is_it = op.new is not None and op.new.is_the_same(mark_of(os.fstat(fd)))
        return is_it and _holds(fd, b"", known) and not known
    except OSError:
        return False  # somebody is at work in it
    finally:
        os.close(fd)


def _holds(fd: int, prefix: bytes, known: dict[bytes, Mark]) -> bool:
    """Whether all that is in a directory is as known; takes what it has seen out of that."""
    for name, status in listed(fd):
        wanted = known.pop(prefix + name, None)
        if wanted is None or not wanted.is_the_same(mark_of(status)):
            return False
        if wanted.type is FileType.DIRECTORY and not _holds_below(fd, prefix, name, known):
            return False
    return True


def _holds_below(fd: int, prefix: bytes, name: bytes, known: dict[bytes, Mark]) -> bool:
    below = os.open(name, _OPEN, dir_fd=fd)
    try:
        return _holds(below, prefix + name + b"/", known)
    finally:
        os.close(below)


def is_as_at(tree: files.Tree, op: Op) -> bool:
    """As `is_as`, at the operation's path below a tree."""
    above, _, name = op.key.path.rpartition(b"/")
    tree.forget()
    try:
        return is_as(tree.folder(above), name, op)
    except OSError:
        return False


def digests(tree: files.Tree, op: Op) -> tuple[str, ...]:
    """Return the digest of each file that an operation brought and that is still as it was; "" for everything else."""
    return tuple(_digest(tree, key.path, mark) for key, mark in op.below())


def _digest(tree: files.Tree, path: bytes, mark: Mark) -> str:
    if mark.type is not FileType.FILE:
        return ""
    try:
        return digest.of(tree, path, mark.size) if mark.is_untouched(tree.look(path, attributes=False)) else ""
    except OSError:
        return ""  # somebody is at work there


def ready(stage: Stage, slot: str, whole: Whole) -> None:
    """Take off a directory in its slot what does not come, and make all that is in it durable. Raises OSError."""
    fd = os.open(slot, _OPEN, dir_fd=stage.fd)
    try:
        for path, names in whole.strays:
            _strip(fd, path, names)
        if stage.is_cheap(len(whole.members) + 1):
            _sync_all(fd, whole.members)
    finally:
        os.close(fd)


def _strip(fd: int, path: bytes, names: tuple[str, ...]) -> None:
    folder = kernel.open_below(fd, path or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in names:
            disk.remove_attribute(folder, name)
    finally:
        os.close(folder)


def _sync_all(fd: int, members: Members) -> None:
    for path, mark in members:
        if mark.type is not FileType.SYMLINK:
            one = kernel.open_below(fd, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                disk.fsync(one)
            finally:
                os.close(one)
    disk.fsync(fd)


def pour(folder: int, name: bytes, into: int, other: bytes) -> None:
    """Move what a directory holds into another where nothing stands in the way; what has no room stays. Raises OSError."""
    source = os.open(name, _OPEN, dir_fd=folder)
    try:
        target = os.open(other, _OPEN, dir_fd=into)
        try:
            for one, status in listed(source):
                try:
                    disk.move(source, one, target, one)
                except FileExistsError:
                    there = os.stat(one, dir_fd=target, follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode) and stat.S_ISDIR(there.st_mode):
                        pour(source, one, target, one)
        finally:
            os.close(target)
    finally:
        os.close(source)
