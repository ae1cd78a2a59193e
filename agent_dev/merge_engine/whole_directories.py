"""Find new directories that one rename can apply as a whole, and check whether one is unchanged."""

import os
import stat
from collections.abc import Iterator, Mapping

from agent_dev.fs import digest, dir_tree, durable
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.linux import attribute_names, syscalls
from agent_dev.merge_engine.journal import EntryMark, Operation
from agent_dev.merge_engine.merge_plan import SPECIAL_BITS, MakeDirectory, MergePlan, PutEntry
from agent_dev.merge_engine.slots import Stage, is_excluded_attribute
from agent_dev.quick_dataclass import dataclass

Members = tuple[tuple[bytes, EntryMark], ...]
OverlayAttributes = tuple[tuple[bytes, tuple[str, ...]], ...]
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 64  # nesting depth; each level keeps a descriptor open
_TYPES = {stat.S_IFREG: FileType.FILE, stat.S_IFDIR: FileType.DIRECTORY, stat.S_IFLNK: FileType.SYMLINK}
_OVERLAY = "user.overlay."


@dataclass(frozen=True, slots=True)
class WholeDirectory:
    """A directory of an upper that one rename can apply: its content, and directory attributes that are not merged."""

    key: Key
    mark: EntryMark
    members: Members
    overlay_attributes: OverlayAttributes


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The selected content of one root: created directories with their modes, and files."""

    folders: Mapping[bytes, int]
    puts: Mapping[bytes, Entry]


def find_whole_directories(plan: MergePlan, root: int, upper: dir_tree.Tree, real: dir_tree.Tree) -> Iterator[WholeDirectory]:
    """Yield the outermost new directories that a plan applies completely and without changes."""
    puts = {
        one.key.path: one.after for one in plan.steps if isinstance(one, PutEntry) and one.key.root == root and _is_plain(one)
    }
    created = {one.key.path: one.mode for one in plan.steps if isinstance(one, MakeDirectory) and one.key.root == root}
    empty = {path: after.mode for path, after in puts.items() if after.type is FileType.DIRECTORY}
    wanted = _Wanted(created | empty, puts)
    for path in sorted(created):
        above = path.rpartition(b"/")[0]
        if above not in created and real.entry_at(path, attributes=False) is None:
            try:
                folder = upper.directory(above)
            except OSError:
                continue  # a commit creates it; the agent has replaced it since by a file
            yield from (one for one in _DirectorySearch(root, wanted).below(folder, path) if one.members)


def _is_plain(step: PutEntry) -> bool:
    return step.expected is None and step.content is None


class _DirectorySearch:
    def __init__(self, root: int, wanted: _Wanted) -> None:
        self._root = root
        self._wanted = wanted

    def below(self, folder: int, path: bytes) -> list[WholeDirectory]:
        """Return the directory at a path if one rename can apply it, else those inside it."""
        if path not in self._wanted.folders:
            return []
        try:
            fd = syscalls.open_below(folder, path.rpartition(b"/")[2], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return []  # unreadable
        try:
            return self._within(fd, path)
        finally:
            os.close(fd)

    def _within(self, fd: int, path: bytes) -> list[WholeDirectory]:
        is_clean, foreign = True, _overlay_attributes(fd)
        members: list[tuple[bytes, EntryMark]] = []
        extra_attributes: list[tuple[bytes, tuple[str, ...]]] = [(b"", foreign)] if foreign else []
        parts: list[WholeDirectory] = []
        for name, status in list_directory(fd):
            inside = path + b"/" + name
            if stat.S_ISDIR(status.st_mode):
                found = self.below(fd, inside) if path.count(b"/") < _MAX_DEPTH else []
                is_clean = is_clean and len(found) == 1 and found[0].key.path == inside
                parts += found
            elif (after := self._wanted.puts.get(inside)) is not None and self._is_clean(fd, name, status, after):
                members.append((name, _mark_like(status, after)))
            else:
                is_clean = False
        status, attributes = os.fstat(fd), _attributes(fd)
        is_open = status.st_mode & (SPECIAL_BITS | 0o700) == 0o700
        if not is_clean or not is_open or foreign is None or stat.S_IMODE(status.st_mode) != self._wanted.folders[path]:
            return [one for one in parts if one.members]
        for part in parts:
            name = part.key.path[len(path) + 1 :]
            members += [(name, part.mark), *((name + b"/" + rest, mark) for rest, mark in part.members)]
            extra_attributes += [(name + b"/" + rest if rest else name, names) for rest, names in part.overlay_attributes]
        own = mark_from_stat(status).with_values(attributes=attributes)
        return [WholeDirectory(Key(self._root, path), own, tuple(members), tuple(extra_attributes))]

    def _is_clean(self, fd: int, name: bytes, status: os.stat_result, after: Entry) -> bool:
        """Return whether an entry is as selected, without hard links and without attributes to remove."""
        found = (status.st_ino, status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode))
        if found != (after.inode, after.size, after.mtime, after.mode):
            return False
        if stat.S_ISLNK(status.st_mode):
            return status.st_nlink == 1
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_mode & (SPECIAL_BITS | 0o400) != 0o400:
            return False
        names = attribute_names.read_names(fd, name)
        return not names or not any(map(is_excluded_attribute, map(os.fsdecode, names.split(b"\0")[:-1])))


def _overlay_attributes(fd: int) -> tuple[str, ...] | None:
    """Return a directory's overlay attributes, which are removed; None if it has other attributes that are not merged."""
    names = [name for name in os.listxattr(fd) if is_excluded_attribute(name)]
    return tuple(names) if all(name.startswith(_OVERLAY) for name in names) else None


def _attributes(fd: int) -> tuple[tuple[str, bytes], ...]:
    """Return the `user.` attributes of a directory without the overlay's."""
    names = [name for name in os.listxattr(fd) if name.startswith("user.") and not name.startswith(_OVERLAY)]
    return tuple((name, os.getxattr(fd, name)) for name in sorted(names))


def _has_attributes_of(fd: int, mark: EntryMark) -> bool:
    """Return whether a directory has the recorded attributes and no ACL."""
    has_list = any(name.startswith("system.posix_acl_") for name in os.listxattr(fd))
    return not has_list and _attributes(fd) == mark.attributes


def list_directory(fd: int) -> list[tuple[bytes, os.stat_result]]:
    """Return the names and status of an open directory's entries."""
    with os.scandir(fd) as entries:
        return [(os.fsencode(one.name), one.stat(follow_symlinks=False)) for one in entries]


def mark_from_stat(status: os.stat_result) -> EntryMark:
    """Return the mark of a file, link or directory; other types get one that matches nothing."""
    kind = _TYPES.get(stat.S_IFMT(status.st_mode), FileType.DEVICE)
    size, mtime, ctime = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return EntryMark(kind, stat.S_IMODE(status.st_mode), size, status.st_ino, mtime, ctime)


def _mark_like(status: os.stat_result, after: Entry) -> EntryMark:
    """Return the mark of an entry that is as selected."""
    mark = mark_from_stat(status)
    return EntryMark(mark.type, after.mode, after.size, after.inode, after.mtime, mark.ctime)


def is_unchanged(folder: int, name: bytes, op: Operation) -> bool:
    """Return whether a directory has exactly the content that an operation applied, unchanged."""
    try:
        fd = os.open(name, _OPEN, dir_fd=folder)
    except OSError:
        return False
    try:
        known = dict(op.members)
        is_it = op.new is not None and op.new.is_same_unchanged(mark_from_stat(os.fstat(fd))) and _has_attributes_of(fd, op.new)
        return is_it and _has_content(fd, b"", known) and not known
    except OSError:
        return False  # modified concurrently
    finally:
        os.close(fd)


def _has_content(fd: int, prefix: bytes, known: dict[bytes, EntryMark]) -> bool:
    """Return whether a directory's content matches `known`; remove the entries that it has seen from `known`."""
    for name, status in list_directory(fd):
        wanted = known.pop(prefix + name, None)
        if wanted is None or not wanted.is_same_unchanged(mark_from_stat(status)):
            return False
        if wanted.type is FileType.DIRECTORY and not _has_content_below(fd, prefix + name, wanted, known):
            return False
    return True


def _has_content_below(fd: int, path: bytes, wanted: EntryMark, known: dict[bytes, EntryMark]) -> bool:
    below = os.open(path.rpartition(b"/")[2], _OPEN, dir_fd=fd)
    try:
        return _has_attributes_of(below, wanted) and _has_content(below, path + b"/", known)
    finally:
        os.close(below)


def is_unchanged_at(tree: dir_tree.Tree, op: Operation) -> bool:
    """Check `is_unchanged` at the operation's path below a tree."""
    above, _, name = op.key.path.rpartition(b"/")
    tree.close_directories()
    try:
        return is_unchanged(tree.directory(above), name, op)
    except OSError:
        return False


def member_digests(tree: dir_tree.Tree, op: Operation) -> tuple[bytes, ...]:
    """Return the digest of each unchanged file that an operation applied; empty for other entries."""
    return tuple(bytes.fromhex(_digest(tree, key.path, mark)) for key, mark in op.member_marks())


def _digest(tree: dir_tree.Tree, path: bytes, mark: EntryMark) -> str:
    if mark.type is not FileType.FILE:
        return ""
    try:
        return digest.digest_file(tree, path, mark.size) if mark.matches_unmoved(tree.entry_at(path, attributes=False)) else ""
    except OSError:
        return ""  # modified concurrently


def prepare_in_slot(stage: Stage, slot: str, whole: WholeDirectory) -> None:
    """Remove attributes that are not merged from a directory in its slot, and make its content durable. Raises OSError."""
    fd = os.open(slot, _OPEN, dir_fd=stage.fd)
    try:
        for path, names in whole.overlay_attributes:
            _remove_attributes(fd, path, names)
        if stage.should_fsync_each(len(whole.members) + 1):
            _sync_all(fd, whole.members)
    finally:
        os.close(fd)


def _remove_attributes(fd: int, path: bytes, names: tuple[str, ...]) -> None:
    folder = syscalls.open_below(fd, path or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in names:
            durable.remove_attribute(folder, name)
    finally:
        os.close(folder)


def _sync_all(fd: int, members: Members) -> None:
    for path, mark in members:
        if mark.type is not FileType.SYMLINK:
            one = syscalls.open_below(fd, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                durable.fsync(one)
            finally:
                os.close(one)
    durable.fsync(fd)


def move_contents(folder: int, name: bytes, target_parent: int, target_name: bytes) -> None:
    """Move a directory's content into another, except entries that exist there. Raises OSError."""
    source = os.open(name, _OPEN, dir_fd=folder)
    try:
        target = os.open(target_name, _OPEN, dir_fd=target_parent)
        try:
            for one, status in list_directory(source):
                try:
                    durable.rename_new(source, one, target, one)
                except FileExistsError:
                    existing = os.stat(one, dir_fd=target, follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode) and stat.S_ISDIR(existing.st_mode):
                        move_contents(source, one, target, one)
        finally:
            os.close(target)
    finally:
        os.close(source)
