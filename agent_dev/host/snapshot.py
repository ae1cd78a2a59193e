"""Copying an upper into a pool of contents: a live one is only read, and what has not changed since is not read again."""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_dev.core import history
from agent_dev.core.history import Node
from agent_dev.core.overlay import NOISE
from agent_dev.host import digest, files, kernel, node_table
from agent_dev.host.node_table import ROOT, Piece, Pieces

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_ONCE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CLONE = 0x40049409  # FICLONE
_YOUNG = 20_000_000  # ns: two clock ticks; a change within one leaves the same ctime
_TRIES = 3
_ROOM = 512 << 20  # bytes that stay free for the agent, or a twentieth of a small disk
_OVERLAY = "user.overlay."
_KINDS = {
    stat.S_IFREG: history.FILE,
    stat.S_IFDIR: history.DIRECTORY,
    stat.S_IFLNK: history.SYMLINK,
    stat.S_IFIFO: history.FIFO,
    stat.S_IFSOCK: history.SOCKET,
    stat.S_IFCHR: history.WHITEOUT,
}


Keeping = Callable[[int, int], str]


@dataclass(slots=True)
class Pool:
    """The contents of all checkpoints of a session, each a file named by its SHA-256."""

    fd: int
    copied: int = 0  # bytes
    can_clone: bool = True
    _unasked: int = 0
    _temp: str = field(default_factory=lambda: f".new-{os.getpid()}")

    def add(self, source: int, size: int) -> str:
        """Copy an open file's bytes; return their name. Raises OSError: ENOSPC while there is still room for the agent."""
        if size <= files.CHUNK:
            return self._add_small(source, size)
        self.leave_room(size)
        target = os.open(self._temp, _NEW, 0o600, dir_fd=self.fd)
        try:
            seen = self._clone(source, target) or _copy(source, target, size)
        finally:
            os.close(target)
        self._publish(seen, size)
        return seen

    def _add_small(self, source: int, size: int) -> str:
        data = os.read(source, size + 1)
        if len(data) != size:
            data += files.read_all(source)
        seen = hashlib.sha256(data).hexdigest()
        self.leave_room(len(data))
        try:
            target = os.open(seen, _ONCE, 0o600, dir_fd=self.fd)
        except FileExistsError:
            if os.stat(seen, dir_fd=self.fd, follow_symlinks=False).st_size == len(data):
                return seen
            target = os.open(self._temp, _NEW, 0o600, dir_fd=self.fd)  # one that was killed here left a part
        else:
            self._fill(target, data)
            self.copied += len(data)
            return seen
        self._fill(target, data)
        self._publish(seen, len(data))
        return seen

    @staticmethod
    def _fill(target: int, data: bytes) -> None:
        try:
            files.write_all(target, data)
        finally:
            os.close(target)

    def _publish(self, name: str, size: int) -> None:
        os.rename(self._temp, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        self.copied += size

    def _clone(self, source: int, target: int) -> str:
        """Share the blocks where the disk can; return the digest of what was shared, empty where it cannot."""
        if not self.can_clone:
            return ""
        try:
            fcntl.ioctl(target, _CLONE, source)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            self.can_clone = False
            return ""
        return digest_of(target)

    def leave_room(self, size: int) -> None:
        """Raise ENOSPC before the disk is full, since the agent writes there too."""
        self._unasked -= size
        if self._unasked > 0:
            return
        room = os.fstatvfs(self.fd)
        free, least = room.f_bavail * room.f_frsize, min(_ROOM, room.f_blocks * room.f_frsize // 20)
        if free - size < least:
            raise OSError(errno.ENOSPC, "less room than is left to the agent")
        self._unasked = (free - size - least) // 2


def name_of(fd: int, _size: int) -> str:
    """Return the name of a file's content, and copy nothing."""
    return digest_of(fd)


def digest_of(fd: int) -> str:
    """Return the SHA-256 of an open file's bytes, holes read as zeros."""
    seen, at = hashlib.sha256(), 0
    while piece := os.pread(fd, files.CHUNK, at):
        seen.update(piece)
        at += len(piece)
    return seen.hexdigest()


def _copy(source: int, target: int, size: int) -> str:
    """Copy a file, its holes as holes; return the SHA-256 of all of it."""
    seen, at = hashlib.sha256(), 0
    for start, piece in digest.pieces(source, size):
        _add_zeros(seen, start - at)
        seen.update(piece)
        os.lseek(target, start, os.SEEK_SET)
        files.write_all(target, piece)
        at = start + len(piece)
    _add_zeros(seen, size - at)
    os.ftruncate(target, max(size, at))
    return seen.hexdigest()


def _add_zeros(seen: "hashlib._Hash", count: int) -> None:
    zeros = bytes(min(max(count, 0), files.CHUNK))
    while count > 0:
        seen.update(zeros[:count])
        count -= len(zeros)


@dataclass(slots=True)
class Snapshot:
    """What one tree held. `files`, `size`: how many and their bytes; `problems`: what could not be read, or changed meanwhile."""

    pieces: Pieces = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0


class _Taking:
    """One walk over one tree."""

    def __init__(self, root: int, keep: Keeping, known: Pieces, now: int) -> None:
        self.root, self.keep, self.known = root, keep, known
        self.young = now - _YOUNG
        self.taken = Snapshot()
        self.read: dict[int, tuple[str, str]] = {}  # by inode, of files with several names

    def folder(self, path: str) -> list[str]:
        """Take up a directory's entries; return the directories among them."""
        try:
            here = kernel.open_below(self.root, os.fsencode(path) or b".", _FOLDER)
        except OSError as error:
            self.taken.problems.append(f"{path}: {error.strerror}")
            return []
        try:
            if not path:
                own = self.entry((here, ".", ""), os.fstat(here), {node.path: node for node in self._known(ROOT).nodes(ROOT)})
                self._put(ROOT, node_table.packed((own,)))
            with os.scandir(here) as entries:
                found = list(entries)
            piece = self._as_before(path, found) or self._anew(here, path, found)
            prefix = f"{path}/" if path else ""
            return [prefix + name for name in self._put(path, piece).folders()]
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

    def _anew(self, here: int, path: str, found: "list[os.DirEntry[str]]") -> bytes:
        """Return a directory's piece, of which those are read that have changed."""
        known = {node.path: node for node in self._known(path).nodes(path)}
        prefix, nodes = f"{path}/" if path else "", []
        for one in found:
            try:
                nodes.append(self.entry((here, one.name, prefix + one.name), one.stat(follow_symlinks=False), known))
            except FileNotFoundError:
                continue  # removed in this instant
        return node_table.packed(nodes)

    def entry(self, place: tuple[int, str, str], status: os.stat_result, known: history.Table) -> Node:
        """Return the node of one entry, by its folder, name and path: as it was known while its ctime is the same, else anew."""
        folder, name, path = place
        old = known.get(path)
        if (
            old is not None
            and old.ctime == status.st_ctime_ns
            and old.inode == status.st_ino
            and old.size == status.st_size
            and old.links == status.st_nlink
        ):
            return old
        try:
            return self._node(folder, name, path, status)
        except PermissionError as error:
            self.taken.problems.append(f"{path}: {error.strerror}")
            return self._as_node(path, status, "", "")

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
            if status.st_nlink > 1 and status.st_ino in self.read:
                return self._as_node(path, status, *self.read[status.st_ino])
            for _ in range(_TRIES):
                content = self.keep(fd, status.st_size)
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
                self.taken.problems.append(f"{path}: it changed while it was copied")
                status = before
            if status.st_nlink > 1:
                self.read[status.st_ino] = (content, attributes)
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


def take(root: str, keep: Keeping, known: Pieces, now: int) -> Snapshot:
    """Return all that is below a directory, what did not change since `known` was taken as it was known.

    `keep`: what names the content of an open file, `Pool.add` by copying it; `now`: ns since 1970 before anything was looked at.
    Raises OSError when the pool cannot be written.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        taking = _Taking(fd, keep, known, now)
        todo = [""]
        while todo:
            todo += taking.folder(todo.pop())
        return taking.taken
    finally:
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
