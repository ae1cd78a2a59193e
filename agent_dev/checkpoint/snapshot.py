"""Copy an upper into a pool of contents. A live upper is only read, and unchanged files are not read again.

Unreadable entries are made readable for a moment (fs/unreadable): a rollback would lose an entry that the checkpoint lacks.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from agent_dev.checkpoint import content_pool, node_table, restore_plan
from agent_dev.checkpoint.node_table import ROOT, Pieces, TablePiece
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.fs import fork_map, unreadable
from agent_dev.fs.entry import HARMLESS_OVERLAY_ATTRIBUTES, LONGEST_PATH, TOO_DEEP
from agent_dev.linux import syscalls
from agent_dev.quick_dataclass import dataclass, field

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_RECENT_NS = content_pool.RECENT_NS
_TRIES = 3
_FILE_OVERHEAD = 50_000  # the overhead of a file, in bytes of copying
_PART_SIZE, _PARALLEL_MIN = 4 << 20, 8 << 20  # in these units: the size of a part, and the minimum for parallel processes
_FILES_AT_ONCE = 20_000
_OVERLAY = "user.overlay."
KINDS = {
    stat.S_IFREG: restore_plan.FILE,
    stat.S_IFDIR: restore_plan.DIRECTORY,
    stat.S_IFLNK: restore_plan.SYMLINK,
    stat.S_IFIFO: restore_plan.FIFO,
    stat.S_IFSOCK: restore_plan.SOCKET,
}

KeepFunction = Callable[[int, int], tuple[str, int]]  # (open file, size) → content name, new bytes
Row = tuple[Any, ...]  # a node, as marshal writes it


@dataclass(slots=True)
class TreeSnapshot:
    """The contents of one tree. `files`, `size`: count and bytes; `copied`: new bytes.

    `problems`: entries that were unreadable or kept changing.
    """

    pieces: Pieces = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0
    copied: int = 0


class _ChangedDirectory(NamedTuple):
    """A directory with changes: the nodes of its entries, None for a file that is still to be read."""

    path: str
    nodes: list[Node | None]


class _Part(NamedTuple):
    """Some files of one directory to read."""

    path: str
    names: list[str]


class _Reader:
    """Read changed entries. `known_links`: name and attributes by inode of files with several links."""

    def __init__(self, keep: KeepFunction, recent: int, known_links: dict[int, tuple[str, str]]) -> None:
        self.keep, self.recent, self.known_links = keep, recent, known_links
        self.problems: list[str] = []
        self.copied = 0

    def still(self, location: tuple[int, str, str]) -> Node | None:
        """Return the node of an entry that was a file; None if it was removed or replaced by a directory."""
        folder, name, path = location
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                return self.entry(location, status)
        except FileNotFoundError:
            return None
        self.problems.append(f"{path}: it became a directory")
        return None

    def entry(self, location: tuple[int, str, str], status: os.stat_result) -> Node:
        """Return the node of an entry, given its folder, name and path."""
        folder, name, path = location
        try:
            return self._node(folder, name, path, status)
        except PermissionError as error:
            node = self._unreadable_node(folder, name, path, status)
            if node is None:
                self.problems.append(f"{path}: {error.strerror}")
            return node or self._as_node(path, status, "", "")

    def _unreadable_node(self, folder: int, name: str, path: str, status: os.stat_result) -> Node | None:
        """Return the node of an unreadable entry, None if this user may not change its mode."""
        try:
            with unreadable.made_readable(folder, name) as mode:
                return self._node(folder, name, path, status)._replace(mode=mode)
        except PermissionError:
            return None

    def _node(self, folder: int, name: str, path: str, status: os.stat_result) -> Node:
        match KINDS.get(stat.S_IFMT(status.st_mode)):
            case restore_plan.SYMLINK:
                return self._as_node(path, status, os.readlink(name, dir_fd=folder), "")
            case restore_plan.FILE:
                return self._file(folder, name, path)
            case restore_plan.DIRECTORY:
                return self._as_node(path, status, "", read_attributes(f"/proc/self/fd/{folder}/{name}"))
            case _:
                return self._as_node(path, status, "", "")

    def _file(self, folder: int, name: str, path: str) -> Node:
        fd = os.open(name, _FILE, dir_fd=folder)
        try:
            status = os.fstat(fd)
            if status.st_nlink > 1 and status.st_ino in self.known_links:
                return self._as_node(path, status, *self.known_links[status.st_ino])
            for _ in range(_TRIES):
                content, copied = self.keep(fd, status.st_size)
                self.copied += copied
                attributes = read_attributes(fd)
                before, status = status, os.fstat(fd)
                if (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
                    status.st_size,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                ):
                    break
                os.lseek(fd, 0, os.SEEK_SET)
            else:
                self.problems.append(f"{path}: it kept changing while it was copied")
                status = before
            if status.st_nlink > 1:
                self.known_links[status.st_ino] = (content, attributes)
            return self._as_node(path, status, content, attributes)
        finally:
            os.close(fd)

    def _as_node(self, path: str, status: os.stat_result, content: str, attributes: str) -> Node:
        return Node(
            path,
            KINDS.get(stat.S_IFMT(status.st_mode), restore_plan.WHITEOUT),
            status.st_mode & 0o7777,
            status.st_size,
            status.st_mtime_ns,
            status.st_uid,
            status.st_gid,
            content,
            attributes,
            status.st_ino,
            status.st_nlink,
            status.st_ctime_ns if status.st_ctime_ns < self.recent else 0,
        )


class _Walk:
    """One walk over a tree that finds the changed files, and then reads them."""

    def __init__(self, root: int, keep: KeepFunction, known: Pieces, now: int, yield_lock: Callable[[], None]) -> None:
        self.root, self.keep, self.known, self.yield_lock = root, keep, known, yield_lock
        self.folders = unreadable.UnreadableDirectories(root)
        self.recent = now - _RECENT_NS
        self.known_links: dict[int, tuple[str, str]] = {}
        self.reader = _Reader(keep, self.recent, self.known_links)
        self.changed_directories: list[_ChangedDirectory] = []
        self.parts: list[_Part] = []
        self.weight = 0  # of the files to read
        self.may_fork = True
        self.taken = TreeSnapshot(problems=self.reader.problems)

    def folder(self, path: str) -> list[str]:
        """Process the entries of a directory; return its subdirectories."""
        self.yield_lock()
        if len(path) > LONGEST_PATH:
            self.taken.problems.append(f"{path}: {TOO_DEEP} kept")
            return []
        try:
            folder_fd = self.folders.open(path)
        except OSError as error:
            self.taken.problems.append(f"{path}: {error.strerror}")
            return []
        try:
            if not path:
                top = self.reader.entry((folder_fd, ".", ""), os.fstat(folder_fd))
                self._put(ROOT, node_table.encode_piece((top._replace(mode=self.folders.original_mode(path, top.mode)),)))
            with os.scandir(folder_fd) as entries:
                found = list(entries)
            piece = self._unchanged_piece(path, found)
            if piece:
                prefix = f"{path}/" if path else ""
                return [prefix + name for name in self._put(path, piece).folder_names()]
            return self._scan_changed(folder_fd, path, found)
        finally:
            os.close(folder_fd)

    def _known(self, path: str) -> TablePiece:
        piece = self.known.get(path)
        return node_table.EMPTY_PIECE if piece is None else node_table.decode_piece(piece)

    def _put(self, path: str, piece: bytes) -> TablePiece:
        found = node_table.decode_piece(piece)
        self.taken.pieces[path] = piece
        self.taken.files += found.files
        self.taken.size += found.size
        return found

    def _unchanged_piece(self, path: str, found: "list[os.DirEntry[str]]") -> bytes:
        """Return a directory's known piece if nothing in it changed, else None.

        Tens of thousands of entries pass through it, so it makes no calls per entry except into the kernel.
        """
        piece = self.known.get(path, b"")
        try:
            status = [one.stat(follow_symlinks=False) for one in found]
        except FileNotFoundError:
            return b""  # just removed
        return (
            piece if piece and node_table.decode_piece(piece).is_current("\0".join([one.name for one in found]), status) else b""
        )

    def _scan_changed(self, folder_fd: int, path: str, found: "list[os.DirEntry[str]]") -> list[str]:
        """Queue the changed files of a directory for `read`; return its subdirectories."""
        known = {node.path: node for node in self._known(path).nodes(path)}
        prefix = f"{path}/" if path else ""
        nodes: list[Node | None] = []
        part, remaining = _Part(path, []), 0
        for one in found:
            try:
                status = one.stat(follow_symlinks=False)
                node = _unchanged(known.get(prefix + one.name), status)
                if node is None and not stat.S_ISREG(status.st_mode):
                    node = self.reader.entry((folder_fd, one.name, prefix + one.name), status)
            except FileNotFoundError:
                continue  # just removed
            nodes.append(node)
            if node is None:
                if remaining <= 0:
                    part, remaining = _Part(path, []), _PART_SIZE
                    self.parts.append(part)
                part.names.append(one.name)
                remaining -= status.st_size + _FILE_OVERHEAD
                self.weight += status.st_size + _FILE_OVERHEAD
        self.changed_directories.append(_ChangedDirectory(path, nodes))
        return [node.path for node in nodes if node is not None and node.kind == restore_plan.DIRECTORY]

    def read(self) -> None:
        """Read the changed files and build the pieces of their directories."""
        is_forked = self.weight > _PARALLEL_MIN and self.may_fork
        for directories, parts in self._batches():
            rows: dict[str, list[Row | None]] = {}
            read = fork_map.fork_map(self._part, parts) if is_forked else [self._part(part) for part in parts]
            for part, (part_rows, problems, copied) in zip(parts, read, strict=True):
                rows.setdefault(part.path, []).extend(part_rows)
                self.taken.problems += problems
                self.taken.copied += copied
            for path, nodes in directories:
                found = iter(rows.get(path, ()))
                whole = [node or next(found) for node in nodes]
                self._put(path, node_table.encode_piece([Node._make(one) for one in whole if one is not None]))

    def _batches(self) -> Iterator[tuple[list[_ChangedDirectory], list[_Part]]]:
        """Yield the changed directories with their parts, some at a time: the rows of 200,000 files need 100 MB."""
        parts = deque(self.parts)
        directories: list[_ChangedDirectory] = []
        batch: list[_Part] = []
        for directory in self.changed_directories:
            directories.append(directory)
            while parts and parts[0].path == directory.path:
                batch.append(parts.popleft())
            if sum(len(part.names) for part in batch) >= _FILES_AT_ONCE:
                yield directories, batch
                directories, batch = [], []
        yield directories, batch

    def _part(self, part: _Part) -> tuple[list[Row | None], list[str], int]:
        """Return the rows of some files, their problems, and the number of copied bytes."""
        self.yield_lock()
        reader = _Reader(self.keep, self.recent, self.known_links)
        try:
            folder_fd = syscalls.open_below(self.root, os.fsencode(part.path) or b".", _FOLDER)
        except OSError as error:
            return [None] * len(part.names), [f"{part.path}: {error.strerror}"], 0
        try:
            prefix = f"{part.path}/" if part.path else ""
            nodes = [reader.still((folder_fd, name, prefix + name)) for name in part.names]
            return [node and tuple(node) for node in nodes], reader.problems, reader.copied
        finally:
            os.close(folder_fd)


def _unchanged(old: Node | None, status: os.stat_result) -> Node | None:
    """Return the known node, None if it may have changed."""
    if old is None:
        return None
    is_same = (old.ctime, old.inode, old.size, old.links) == (status.st_ctime_ns, status.st_ino, status.st_size, status.st_nlink)
    return old if is_same else None


def _never_yield() -> None:
    """Never yield to a waiter."""


def take_snapshot(
    root: str,
    keep: KeepFunction,
    known: Pieces,
    now: int,
    yield_lock: Callable[[], None] | None = None,
    *,
    may_fork: bool = True,
) -> TreeSnapshot:
    """Return the nodes below a directory; those unchanged since `known` are reused.

    `keep` returns the name of an open file's content, e.g. `ContentPool.add`, which copies it; `now`: ns since 1970 before the
    walk; `yield_lock` is called every few milliseconds and aborts by raising; `may_fork`: several processes may call `keep`.
    Raises OSError if the pool cannot be written.
    """
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # its mode may keep the owner out
    walk = _Walk(fd, keep, known, now, yield_lock or _never_yield)
    walk.may_fork = may_fork
    try:
        pending = [""]
        while pending:
            pending += walk.folder(pending.pop())
        walk.read()
        return walk.taken
    finally:
        walk.folders.close()
        os.close(fd)


def read_attributes(location: int | str) -> str:
    """Return the extended attributes that a restore restores, in the format of `Node.attributes`."""
    try:
        names = os.listxattr(location) if isinstance(location, int) else os.listxattr(location, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return ""
        raise
    wanted = sorted(name for name in names if is_preserved_attribute(name))
    return ",".join(f"{name}={_value(location, name).hex()}" for name in wanted)


def is_preserved_attribute(name: str) -> bool:
    """Return whether an attribute is the agent's or marks an opaque directory; the overlay's other ones are not preserved."""
    if name.startswith(_OVERLAY):
        return name[len(_OVERLAY) :] not in HARMLESS_OVERLAY_ATTRIBUTES
    return name.startswith(("user.", "system.posix_acl_"))


def _value(location: int | str, name: str) -> bytes:
    return os.getxattr(location, name) if isinstance(location, int) else os.getxattr(location, name, follow_symlinks=False)
