"""Copying an upper into a pool of contents: a live one is only read, and what has not changed since is not read again.

What its owner shut is opened for that moment (host/shut): what a checkpoint does not hold, a rollback would lose.
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agent_dev.checkpoint import content_pool as pool
from agent_dev.checkpoint import node_table
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.node_table import ROOT, Piece, Pieces
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.fs import fork_map as together
from agent_dev.fs import unreadable as shut
from agent_dev.linux import syscalls as kernel
from agent_dev.overlay.interpret import NOISE

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_YOUNG = pool.YOUNG
_TRIES = 3
_EACH = 50_000  # bytes whose copying takes as long as all else that is done for a file
_PART, _MUCH = 4 << 20, 8 << 20  # so counted: what is taken up at once, and what is worth a process
_OVERLAY = "user.overlay."
_KINDS = {
    stat.S_IFREG: history.FILE,
    stat.S_IFDIR: history.DIRECTORY,
    stat.S_IFLNK: history.SYMLINK,
    stat.S_IFIFO: history.FIFO,
    stat.S_IFSOCK: history.SOCKET,
    stat.S_IFCHR: history.WHITEOUT,
}


Keeping = Callable[[int, int], tuple[str, int]]  # of an open file and its size: its content's name, and bytes that were new
Row = tuple[Any, ...]  # a node, as marshal writes it


@dataclass(slots=True)
class Snapshot:
    """What one tree held. `files`, `size`: how many and their bytes; `copied`: bytes of those that were new.

    `problems`: what could not be read, or changed meanwhile.
    """

    pieces: Pieces = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0
    copied: int = 0


class _Moved(NamedTuple):
    """A directory in which something changed: the nodes of its entries, None for a file that is still to be read."""

    path: str
    nodes: list[Node | None]


class _Part(NamedTuple):
    """Some files of one directory, that are to be read."""

    path: str
    names: list[str]


class _Reader:
    """What reads entries anew. `twins`: what is known by inode of files with several names."""

    def __init__(self, keep: Keeping, young: int, twins: dict[int, tuple[str, str]]) -> None:
        self.keep, self.young, self.twins = keep, young, twins
        self.problems: list[str] = []
        self.copied = 0

    def still(self, place: tuple[int, str, str]) -> Node | None:
        """Return the node of what was a file just now; None for one that was removed, or is a directory, since."""
        folder, name, path = place
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                return self.entry(place, status)
        except FileNotFoundError:
            return None
        self.problems.append(f"{path}: it became a directory meanwhile")
        return None

    def entry(self, place: tuple[int, str, str], status: os.stat_result) -> Node:
        """Return the node of one entry, by its folder, name and path."""
        folder, name, path = place
        try:
            return self._node(folder, name, path, status)
        except PermissionError as error:
            node = self._shut(folder, name, path, status)
            if node is None:
                self.problems.append(f"{path}: {error.strerror}")
            return node or self._as_node(path, status, "", "")

    def _shut(self, folder: int, name: str, path: str, status: os.stat_result) -> Node | None:
        """Return the node of what its owner may not read, None where it is not ours to open."""
        try:
            with shut.opened(folder, name) as mode:
                return self._node(folder, name, path, status)._replace(mode=mode)
        except PermissionError:
            return None

    def _node(self, folder: int, name: str, path: str, status: os.stat_result) -> Node:
        match _KINDS.get(stat.S_IFMT(status.st_mode)):
            case history.SYMLINK:
                return self._as_node(path, status, os.readlink(name, dir_fd=folder), "")
            case history.FILE:
                return self._file(folder, name, path)
            case history.DIRECTORY:
                return self._as_node(path, status, "", attributes_of(f"/proc/self/fd/{folder}/{name}"))
            case _:
                return self._as_node(path, status, "", "")

    def _file(self, folder: int, name: str, path: str) -> Node:
        fd = os.open(name, _FILE, dir_fd=folder)
        try:
            status = os.fstat(fd)
            if status.st_nlink > 1 and status.st_ino in self.twins:
                return self._as_node(path, status, *self.twins[status.st_ino])
            for _ in range(_TRIES):
                content, copied = self.keep(fd, status.st_size)
                self.copied += copied
                attributes = attributes_of(fd)
                before, status = status, os.fstat(fd)
                if (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
                    status.st_size,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                ):
                    break
                os.lseek(fd, 0, os.SEEK_SET)
            else:
                self.problems.append(f"{path}: it changed while it was copied")
                status = before
            if status.st_nlink > 1:
                self.twins[status.st_ino] = (content, attributes)
            return self._as_node(path, status, content, attributes)
        finally:
            os.close(fd)

    def _as_node(self, path: str, status: os.stat_result, content: str, attributes: str) -> Node:
        return Node(
            path,
            _KINDS.get(stat.S_IFMT(status.st_mode), history.WHITEOUT),
            status.st_mode & 0o7777,
            status.st_size,
            status.st_mtime_ns,
            status.st_uid,
            status.st_gid,
            content,
            attributes,
            status.st_ino,
            status.st_nlink,
            status.st_ctime_ns if status.st_ctime_ns < self.young else 0,
        )


class _Taking:
    """One walk over one tree, by which files are found that have to be read, and then their reading."""

    def __init__(self, root: int, keep: Keeping, known: Pieces, now: int, give_way: Callable[[], None]) -> None:
        self.root, self.keep, self.known, self.give_way = root, keep, known, give_way
        self.folders = shut.Folders(root)
        self.young = now - _YOUNG
        self.twins: dict[int, tuple[str, str]] = {}
        self.reader = _Reader(keep, self.young, self.twins)
        self.moved: list[_Moved] = []
        self.parts: list[_Part] = []
        self.weight = 0  # of what has to be read
        self.taken = Snapshot(problems=self.reader.problems)

    def folder(self, path: str) -> list[str]:
        """Take up a directory's entries; return the directories among them."""
        self.give_way()
        try:
            here = self.folders.open(path)
        except OSError as error:
            self.taken.problems.append(f"{path}: {error.strerror}")
            return []
        try:
            if not path:
                top = self.reader.entry((here, ".", ""), os.fstat(here))
                self._put(ROOT, node_table.packed((top._replace(mode=self.folders.mode(path, top.mode)),)))
            with os.scandir(here) as entries:
                found = list(entries)
            piece = self._as_before(path, found)
            if piece:
                prefix = f"{path}/" if path else ""
                return [prefix + name for name in self._put(path, piece).folders()]
            return self._anew(here, path, found)
        finally:
            os.close(here)

    def _known(self, path: str) -> Piece:
        piece = self.known.get(path)
        return node_table.NOTHING if piece is None else node_table.unpacked(piece)

    def _put(self, path: str, piece: bytes) -> Piece:
        found = node_table.unpacked(piece)
        self.taken.pieces[path] = piece
        self.taken.files += found.files
        self.taken.size += found.size
        return found

    def _as_before(self, path: str, found: "list[os.DirEntry[str]]") -> bytes:
        """Return a directory's piece as it was known when nothing in it has changed, else nothing.

        What ten thousand entries pass through, so that nothing is called for each but the kernel.
        """
        piece = self.known.get(path, b"")
        try:
            status = [one.stat(follow_symlinks=False) for one in found]
        except FileNotFoundError:
            return b""  # removed in this instant
        return piece if piece and node_table.unpacked(piece).holds("\0".join([one.name for one in found]), status) else b""

    def _anew(self, here: int, path: str, found: "list[os.DirEntry[str]]") -> list[str]:
        """Note which files of a directory have changed, for `read`; return the directories in it."""
        known = {node.path: node for node in self._known(path).nodes(path)}
        prefix = f"{path}/" if path else ""
        nodes: list[Node | None] = []
        part, room = _Part(path, []), 0
        for one in found:
            try:
                status = one.stat(follow_symlinks=False)
                node = _unchanged(known.get(prefix + one.name), status)
                if node is None and not stat.S_ISREG(status.st_mode):
                    node = self.reader.entry((here, one.name, prefix + one.name), status)
            except FileNotFoundError:
                continue  # removed in this instant
            nodes.append(node)
            if node is None:
                if room <= 0:
                    part, room = _Part(path, []), _PART
                    self.parts.append(part)
                part.names.append(one.name)
                room -= status.st_size + _EACH
                self.weight += status.st_size + _EACH
        self.moved.append(_Moved(path, nodes))
        return [node.path for node in nodes if node is not None and node.kind == history.DIRECTORY]

    def read(self) -> None:
        """Read the files that have changed, and make the pieces of their directories."""
        read = together.each(self._part, self.parts) if self.weight > _MUCH else [self._part(part) for part in self.parts]
        rows: dict[str, list[Row | None]] = {}
        for part, (some, problems, copied) in zip(self.parts, read, strict=True):
            rows.setdefault(part.path, []).extend(some)
            self.taken.problems += problems
            self.taken.copied += copied
        for path, nodes in self.moved:
            found = iter(rows.get(path, ()))
            whole = [node or next(found) for node in nodes]
            self._put(path, node_table.packed([Node._make(one) for one in whole if one is not None]))

    def _part(self, part: _Part) -> tuple[list[Row | None], list[str], int]:
        """Return some files as rows, problems with them, and how many bytes were copied."""
        self.give_way()
        reader = _Reader(self.keep, self.young, self.twins)
        try:
            here = kernel.open_below(self.root, os.fsencode(part.path) or b".", _FOLDER)
        except OSError as error:
            return [None] * len(part.names), [f"{part.path}: {error.strerror}"], 0
        try:
            prefix = f"{part.path}/" if part.path else ""
            nodes = [reader.still((here, name, prefix + name)) for name in part.names]
            return [node and tuple(node) for node in nodes], reader.problems, reader.copied
        finally:
            os.close(here)


def _unchanged(old: Node | None, status: os.stat_result) -> Node | None:
    """Return a node as it was known, None when it may no longer be so."""
    if old is None:
        return None
    is_same = (old.ctime, old.inode, old.size, old.links) == (status.st_ctime_ns, status.st_ino, status.st_size, status.st_nlink)
    return old if is_same else None


def _stay() -> None:
    """Give way to nobody."""


def take(root: str, keep: Keeping, known: Pieces, now: int, give_way: Callable[[], None] | None = None) -> Snapshot:
    """Return all that is below a directory, what did not change since `known` was taken as it was known.

    `keep`: what names the content of an open file, `Pool.add` by copying it; `now`: ns since 1970 before anything was looked at;
    `give_way`: called every few milliseconds, and ends it by raising. Raises OSError when the pool cannot be written.
    """
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # which the owner may have shut
    taking = _Taking(fd, keep, known, now, give_way or _stay)
    try:
        todo = [""]
        while todo:
            todo += taking.folder(todo.pop())
        taking.read()
        return taking.taken
    finally:
        taking.folders.close()
        os.close(fd)


def attributes_of(place: int | str) -> str:
    """Return the extended attributes that a restore brings back, as `Node.attributes` has them."""
    try:
        names = os.listxattr(place) if isinstance(place, int) else os.listxattr(place, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return ""
        raise
    wanted = sorted(name for name in names if is_own(name))
    return ",".join(f"{name}={_value(place, name).hex()}" for name in wanted)


def is_own(name: str) -> bool:
    """Whether an attribute is the agent's, or says that a directory is opaque; not the overlay's own notes."""
    if name.startswith(_OVERLAY):
        return name[len(_OVERLAY) :] not in NOISE
    return name.startswith(("user.", "system.posix_acl_"))


def _value(place: int | str, name: str) -> bytes:
    return os.getxattr(place, name) if isinstance(place, int) else os.getxattr(place, name, follow_symlinks=False)
