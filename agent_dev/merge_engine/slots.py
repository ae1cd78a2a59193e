"""Staged content: what a merge brings, copied to numbered slots from which one rename reaches the target, and durable there."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from agent_dev.fs import acl as access
from agent_dev.fs import digest
from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.fs import walk as scan
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls as kernel
from agent_dev.merge_engine.journal import Mark, mark
from agent_dev.overlay.changes import Entry, FileType

# Attributes that a copy would not have either: the overlay's, capabilities, access lists.
_FOREIGN = ("user.overlay.", "security.", "trusted.", "system.posix_acl_")
_FEW = 64  # up to here each file is fsynced; past it one syncfs is cheaper


def is_foreign(attribute: str) -> bool:
    """Whether an attribute does not come home."""
    return attribute.startswith(_FOREIGN) and attribute != "security.selinux"


def choose(candidates: tuple[str, ...], root: files.Tree) -> str | None:
    """Return the first place from which a rename would reach the root; tried, not guessed.

    The trial, from the directory in which the place would be made, renames onto the root itself, with NOREPLACE: the kernel
    tells EXDEV from EEXIST before it looks for what is to be renamed, so nothing needs to be made for it, and nothing can be
    left. What the kernel does not look at by then, a subvolume, shows in st_dev.
    """
    return next((place for place in candidates if _reaches(os.path.dirname(place), root)), None)


def _reaches(place: str, root: files.Tree) -> bool:
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
            return False
        kernel.rename(folder, b"agent-dev-probe", root.fd, b".", kernel.NOREPLACE)
    except OSError as error:
        return error.errno == errno.EEXIST and os.fstat(folder).st_dev == os.fstat(root.fd).st_dev
    finally:
        os.close(folder)
    return False


class Stage:
    """A directory of ours with slots, numbered by who calls."""

    def __init__(self, path: str, fd: int = -1) -> None:
        """Open a stage, and make it if it is not there."""
        self.path = path
        self._is_ours_to_sync = fd < 0
        if fd < 0:
            try:
                disk.mkdir_path(path)
                disk.sync_path(os.path.dirname(path))  # before anything of the session is moved into it
            except FileExistsError:
                pass
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.fd = fd
        self._unsynced = 0

    @classmethod
    def within(cls, folder: int) -> "Stage":
        """Return a stage in an open directory, by a descriptor of its own; who calls makes durable what is put into it."""
        return cls("", os.dup(folder))

    def close(self) -> None:
        """Close the directory; what it holds stays."""
        os.close(self.fd)

    def remove(self) -> None:
        """Remove the stage with all that is in it; closed or not."""
        remove_tree(self.path)

    def look(self, slot: str) -> Entry | None:
        """Return what a slot holds."""
        try:
            return scan.entry(self.fd, slot.encode())
        except FileNotFoundError:
            return None

    def read(self, slot: str) -> bytes:
        """Return the bytes of a file in a slot. Raises OSError."""
        fd = os.open(slot, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return files.read_all(fd)
        finally:
            os.close(fd)

    # filling slots

    def adopt(self, slot: str, folder: int, base: bytes, entry: Entry) -> str:
        """Move something of the session into a slot, without attributes that do not come home; return a file's digest, else "".

        Raises OSError, also when it is not what it was.
        """
        name = slot.encode()
        disk.move(folder, base, self.fd, name)
        if entry.type is not FileType.FILE:
            self._unsynced += 1
            return ""
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            found = _mark(os.fstat(fd))
            if (found.inode, found.size, found.mtime) != (entry.inode, entry.size, entry.mtime):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), os.fsdecode(base))
            _dress_anew(fd, entry, found.mode)
            seen = digest.Running()
            for at, piece in digest.pieces(fd, entry.size):
                seen.add(at, piece)
            self._unsynced += 1
            if self._unsynced <= _FEW:
                disk.fsync(fd)
            return seen.hex()
        finally:
            os.close(fd)

    def copy(self, slot: str, source: files.Tree, path: bytes, entry: Entry) -> tuple[Mark, str]:
        """Copy one entry into a slot; return its mark, and for a file its digest.

        07000 bits are stripped, overlay attributes never come. A directory is made open to its owner: who may not write to
        it could not move it, nor put anything into it.
        """
        if entry.type is FileType.FILE:
            fd = source.open(path, os.O_RDONLY)
            try:
                own = any(name == access.LIST for name, _ in entry.attributes)
                mode = entry.mode if own else access.without(entry.mode, access.read(fd))
                return self._fill(slot, replace(entry, mode=mode), fd, None)
            finally:
                os.close(fd)
        return self.make(slot, entry), ""

    def keep(self, slot: str, source: files.Tree, name: bytes, entry: Entry) -> Mark:
        """Copy one entry of the user's own, at the top of a tree: as `copy`, but with owner, group and 07000 bits.

        Who may not give an owner or a group to it keeps the copy; then the bit that would lend that goes. Raises OSError.
        """
        if entry.type is not FileType.FILE:
            self.make(slot, entry)
            _own(slot.encode(), self.fd, os.stat(name, dir_fd=source.fd, follow_symlinks=False), entry)
            return mark(scan.entry(self.fd, slot.encode()))
        fd = source.open(name, os.O_RDONLY)
        try:
            return self._fill(slot, entry, fd, None, is_users=True)[0]
        finally:
            os.close(fd)

    def put(self, slot: str, data: bytes, like: Entry, own: str = "") -> tuple[Mark, str]:
        """Write bytes into a slot, with the mode, time and attributes of an entry.

        `own`: a slot with a file of the user's, whose owner, group and 07000 bits it may have.
        """
        if not own:
            return self._fill(slot, like, -1, data)
        fd = os.open(own, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return self._fill(slot, like, fd, data, is_users=True)
        finally:
            os.close(fd)

    def make(self, slot: str, entry: Entry) -> Mark:
        """Make a link, a FIFO or an empty directory in a slot."""
        name, mode = slot.encode(), entry.mode & 0o777
        if entry.type is FileType.SYMLINK:
            disk.symlink(entry.target, name, self.fd)
        elif entry.type is FileType.FIFO:
            disk.mkfifo(name, self.fd, mode)
        else:
            disk.mkdir(name, self.fd, mode | 0o700)
            if entry.attributes:
                self._dress(name, entry)
        self._unsynced += 1
        return mark(scan.entry(self.fd, name))

    def _dress(self, name: bytes, entry: Entry) -> None:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            for attribute, value in entry.attributes:
                disk.set_attribute(fd, attribute, value)
        finally:
            os.close(fd)

    def _fill(self, slot: str, entry: Entry, source: int, data: bytes | None, *, is_users: bool = False) -> tuple[Mark, str]:
        out = disk.create(slot.encode(), self.fd)
        try:
            told = hashlib.sha256(data).hexdigest() if data is not None else _pour(source, out, entry.size)
            if data is not None:
                disk.write(out, data)
            bits = 0o777 | (_lent(os.fstat(source), partial(disk.chown, out), partial(os.fstat, out)) if is_users else 0)
            disk.chmod(out, _dressed(out, entry) & bits)
            disk.set_time(out, entry.mtime)
            self._unsynced += 1
            if self._unsynced <= _FEW and self._is_ours_to_sync:
                disk.fsync(out)
            status = os.fstat(out)
        finally:
            os.close(out)
        return _mark(status), told

    def is_cheap(self, count: int) -> bool:
        """Take note of things in a slot; return whether each is to be made durable, else `settle` makes all."""
        self._unsynced += count
        return self._unsynced <= _FEW

    def settle(self) -> None:
        """Make all that was put into slots durable."""
        if self._unsynced > _FEW:
            disk.syncfs(self.fd)
        else:
            disk.fsync(self.fd)
        self._unsynced = 0


def is_stuck(tree: files.Tree, path: bytes) -> bool:
    """Whether a file has what its owner may not take off: capabilities, from a user namespace that was made inside."""
    folder, _, name = path.rpartition(b"/")
    names = os.listxattr(b"/proc/self/fd/%d/%b" % (tree.folder(folder), name), follow_symlinks=False)
    return any(one.startswith("security.") and is_foreign(one) for one in names)


def _own(name: bytes, folder: int, like: os.stat_result, entry: Entry) -> None:
    """Give what is no file the owner and group of another, and all bits of its mode."""
    look = partial(os.stat, name, dir_fd=folder, follow_symlinks=False)
    bits = _lent(like, partial(disk.chown_at, name, folder), look)
    if entry.type is not FileType.SYMLINK:
        disk.chmod_at(name, folder, entry.mode & (0o777 | bits))


def _lent(like: os.stat_result, chown: Callable[[int, int], None], look: Callable[[], os.stat_result]) -> int:
    """Give something the owner and group of another, as far as this user may; return the 07000 bits that it may have then."""
    for owner, group in ((like.st_uid, like.st_gid), (-1, like.st_gid)):
        now = look()
        if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
            try:
                chown(owner, group)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EACCES, errno.EINVAL):
                    raise
    now = look()
    is_owners, is_groups = now.st_uid == like.st_uid, now.st_gid == like.st_gid
    return stat.S_ISVTX | (stat.S_ISUID if is_owners else 0) | (stat.S_ISGID if is_groups else 0)


def _dressed(fd: int, entry: Entry) -> int:
    """Give a new file its attributes; return its mode. Where no access lists can be kept it loses its own."""
    mode = entry.mode
    for attribute, value in entry.attributes:
        try:
            disk.set_attribute(fd, attribute, value)
        except OSError as error:
            if attribute != access.LIST or error.errno != errno.ENOTSUP:
                raise
            mode = access.without(mode, value)
    return mode


def _dress_anew(fd: int, entry: Entry, mode: int) -> None:
    """Take attributes off a file that do not come home, and give it the access list that an entry has, or none."""
    own, agents = dict(entry.attributes).get(access.LIST), None
    for attribute in os.listxattr(fd):
        if is_foreign(attribute):
            agents = access.read(fd) if attribute == access.LIST else agents
            disk.remove_attribute(fd, attribute)
    if own is not None:
        disk.set_attribute(fd, access.LIST, own)
    if own is not None or agents is not None:
        disk.chmod(fd, mode if own is not None else access.without(mode, agents))


def _mark(status: os.stat_result) -> Mark:
    mode = stat.S_IMODE(status.st_mode)
    return Mark(FileType.FILE, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, mode)


def _pour(fd: int, out: int, size: int) -> str:
    """Copy a file's data, keeping its holes; return its digest."""
    seen = digest.Running()
    end = 0
    for at, piece in digest.pieces(fd, size):
        if at != end:
            os.lseek(out, at, os.SEEK_SET)
        disk.write(out, piece)
        seen.add(at, piece)
        end = at + len(piece)
    if end < size:
        disk.truncate(out, size)
    return seen.hex()
