"""Staged content: durable copies in numbered slots, from which one rename reaches the target."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from functools import partial

from agent_dev.fs import acl, attribute_digest, digest, dir_tree, durable, walk
from agent_dev.fs.entry import Entry, FileType
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls
from agent_dev.merge_engine.journal import EntryMark, entry_mark

# Attributes that are not merged: the overlay's, capabilities, ACLs.
_NOT_MERGED = ("user.overlay.", "security.", "trusted.", "system.posix_acl_")
_MAX_FSYNCS = 64  # above this number of files, one syncfs is cheaper than an fsync of each


def is_excluded_attribute(attribute: str) -> bool:
    """Return whether an attribute is not merged."""
    return attribute.startswith(_NOT_MERGED) and attribute != "security.selinux"


def find_stage_path(candidates: tuple[str, ...], root: dir_tree.Tree) -> str | None:
    """Return the first candidate from which a rename reaches the root, by trying it.

    This tries to rename from the candidate's parent directory onto the root itself with RENAME_NOREPLACE: the kernel returns
    EXDEV or EEXIST before it looks up the source, so nothing has to be created or removed. It has not checked for subvolumes by
    then; st_dev shows them.
    """
    return next((path for path in candidates if _is_reachable_from(os.path.dirname(path), root)), None)


def _is_reachable_from(path: str, root: dir_tree.Tree) -> bool:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
            return False
        syscalls.rename(folder, b"agent-dev-probe", root.fd, b".", syscalls.NOREPLACE)
    except OSError as error:
        return error.errno == errno.EEXIST and os.fstat(folder).st_dev == os.fstat(root.fd).st_dev
    finally:
        os.close(folder)
    return False


class Stage:
    """A staging directory with slots, numbered by the caller."""

    def __init__(self, path: str, fd: int = -1) -> None:
        """Open a stage; create it if it does not exist."""
        self.path = path
        self.mode_mask = 0o777  # mask of mode bits to keep
        self._is_ours_to_sync = fd < 0
        if fd < 0:
            try:
                durable.mkdir_path(path)
                durable.sync_path(os.path.dirname(path))  # before any file of the session is moved into it
            except FileExistsError:
                pass
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.fd = fd
        self._unsynced = 0

    @classmethod
    def in_directory(cls, folder: int) -> "Stage":
        """Return a stage in an open directory, with a duplicate descriptor; the caller syncs it."""
        return cls("", os.dup(folder))

    def close(self) -> None:
        """Close the directory; its content stays."""
        os.close(self.fd)

    def remove(self) -> None:
        """Remove the stage with its content, open or closed."""
        remove_tree(self.path)

    def entry_in(self, slot: str, *, is_copied: bool = False) -> Entry | None:
        """Return the entry in a slot; to be copied, of an unreadable file with its attributes."""
        try:
            return walk.read_entry(self.fd, os.fsencode(slot), is_ours=is_copied)
        except FileNotFoundError:
            return None

    def attributes_digest(self, slot: str) -> str:
        """Return a digest of the attributes and ACLs of a slot's entry (fs/attributes)."""
        return attribute_digest.digest_attributes(self.fd, os.fsencode(slot))

    def read(self, slot: str) -> bytes:
        """Return the content of a file in a slot. Raises OSError."""
        fd = os.open(slot, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return dir_tree.read_all(fd)
        finally:
            os.close(fd)

    # Filling slots

    def clean_adopted(self, slot: str, entry: Entry) -> str:
        """Remove attributes that are not merged from an entry that was moved into a slot; return a file's digest, else "".

        Raises OSError, also if the entry has changed.
        """
        name = os.fsencode(slot)
        if entry.type is not FileType.FILE:
            self._unsynced += 1
            return ""
        found = self.entry_in(slot)
        if found is None or (found.type, found.inode, found.size, found.mtime) != (
            entry.type,
            entry.inode,
            entry.size,
            entry.mtime,
        ):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), slot)
        is_opened = not self._can_remove_attributes(name, found.mode)
        if is_opened:  # only in a redo: a merge never adopts such a file
            durable.chmod_at(name, self.fd, found.mode | 0o600)
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            _reset_attributes(fd, entry, found.mode, must_set_mode=is_opened)
            seen = digest.RunningDigest()
            for at, piece in digest.read_data(fd, entry.size):
                seen.add(at, piece)
            self._unsynced += 1
            if self._unsynced <= _MAX_FSYNCS:
                durable.fsync(fd)
            return seen.hex()
        finally:
            os.close(fd)

    def _can_remove_attributes(self, name: bytes, mode: int) -> bool:
        """Return whether a file is readable and attributes that are not merged can be removed from it."""
        path = b"/proc/self/fd/%d/%b" % (self.fd, name)
        return mode & 0o600 == 0o600 or (bool(mode & 0o400) and not any(map(is_excluded_attribute, os.listxattr(path))))

    def copy(self, slot: str, source: dir_tree.Tree, path: bytes, entry: Entry) -> tuple[EntryMark, str]:
        """Copy one entry into a slot; return its mark, and a file's digest.

        07000 bits and overlay attributes are not copied. A directory gets full access for its owner: an unwritable one could be
        neither moved nor filled.
        """
        if entry.type is FileType.FILE:
            fd = source.open(path, os.O_RDONLY)
            try:
                own = any(name == acl.XATTR for name, _ in entry.attributes)
                mode = entry.mode if own else acl.mode_without_acl(entry.mode, acl.read(fd))
                return self._fill(slot, entry.with_values(mode=mode), fd, None)
            finally:
                os.close(fd)
        return self.create(slot, entry), ""

    def copy_users_entry(self, slot: str, source: dir_tree.Tree, name: bytes, entry: Entry) -> EntryMark:
        """Copy one entry of the user at the top of a tree: as `copy`, but with owner, group and 07000 bits.

        If this user may not set the owner or group, the copy stays the user's without the corresponding bit. Raises OSError.
        """
        if entry.type is not FileType.FILE:
            self.create(slot, entry)
            _own(os.fsencode(slot), self.fd, os.stat(name, dir_fd=source.fd, follow_symlinks=False), entry)
            return entry_mark(walk.read_entry(self.fd, os.fsencode(slot)))
        fd = source.open(name, os.O_RDONLY)
        try:
            return self._fill(slot, entry, fd, None, is_users=True)[0]
        finally:
            os.close(fd)

    def write(self, slot: str, data: bytes, like: Entry, own: str = "") -> tuple[EntryMark, str]:
        """Write bytes into a slot, with the mode, time and attributes of an entry.

        `own`: a slot with a file of the user, whose owner, group and 07000 bits are copied.
        """
        if not own:
            return self._fill(slot, like, -1, data)
        fd = os.open(own, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return self._fill(slot, like, fd, data, is_users=True)
        finally:
            os.close(fd)

    def copy_from_fd(self, slot: str, fd: int, entry: Entry) -> tuple[EntryMark, str]:
        """Copy an open file into a slot; return its mark and digest. Raises OSError."""
        return self._fill(slot, entry, fd, None)

    def create(self, slot: str, entry: Entry) -> EntryMark:
        """Create a link, a FIFO or an empty directory in a slot."""
        name, mode = os.fsencode(slot), entry.mode & self.mode_mask
        if entry.type is FileType.SYMLINK:
            durable.symlink(entry.target, name, self.fd)
        elif entry.type is FileType.FIFO:
            durable.mkfifo(name, self.fd, mode)
        else:
            durable.mkdir(name, self.fd, mode | 0o700)
            if entry.attributes:
                self._dress(name, entry)
        if entry.mtime and entry.type is not FileType.DIRECTORY:
            durable.set_time_at(name, self.fd, entry.mtime)
        self._unsynced += 1
        return entry_mark(walk.read_entry(self.fd, name))

    def _dress(self, name: bytes, entry: Entry) -> None:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            _set_attributes(fd, entry)
        finally:
            os.close(fd)

    def _fill(self, slot: str, entry: Entry, source: int, data: bytes | None, *, is_users: bool = False) -> tuple[EntryMark, str]:
        out = durable.create(os.fsencode(slot), self.fd)
        try:
            digest_hex = hashlib.sha256(data).hexdigest() if data is not None else _copy_data(source, out, entry.size)
            if data is not None:
                durable.write(out, data)
            bits = self.mode_mask | (
                _copy_owner(os.fstat(source), partial(durable.chown, out), partial(os.fstat, out)) if is_users else 0
            )
            durable.chmod(out, _set_attributes(out, entry) & bits)
            durable.set_time(out, entry.mtime)
            self._unsynced += 1
            if self._unsynced <= _MAX_FSYNCS and self._is_ours_to_sync:
                durable.fsync(out)
            status = os.fstat(out)
        finally:
            os.close(out)
        return _mark(status), digest_hex

    def should_fsync_each(self, count: int) -> bool:
        """Count new entries in a slot; return whether the caller must fsync each of them; otherwise `sync` syncs all."""
        self._unsynced += count
        return self._unsynced <= _MAX_FSYNCS

    def sync(self) -> None:
        """Make the content of all slots durable."""
        if self._unsynced > _MAX_FSYNCS:
            durable.syncfs(self.fd)
        else:
            durable.fsync(self.fd)
        self._unsynced = 0


def excluded_attributes(tree: dir_tree.Tree, path: bytes) -> tuple[str, ...]:
    """Return the attributes of a file that are not merged.

    Its owner cannot remove `security.` ones: capabilities, set in a user namespace inside the sandbox.
    """
    folder, _, name = path.rpartition(b"/")
    names = os.listxattr(b"/proc/self/fd/%d/%b" % (tree.directory(folder), name), follow_symlinks=False)
    return tuple(filter(is_excluded_attribute, names))


def _own(name: bytes, folder: int, like: os.stat_result, entry: Entry) -> None:
    """Give an entry other than a file the owner, group and all mode bits of another."""
    look = partial(os.stat, name, dir_fd=folder, follow_symlinks=False)
    bits = _copy_owner(like, partial(durable.chown_at, name, folder), look)
    if entry.type is not FileType.SYMLINK:
        durable.chmod_at(name, folder, entry.mode & (0o777 | bits))


def _copy_owner(like: os.stat_result, chown: Callable[[int, int], None], look: Callable[[], os.stat_result]) -> int:
    """Set the owner and group of another entry, as far as permitted; return the 07000 bits that are safe then."""
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


def _set_attributes(fd: int, entry: Entry) -> int:
    """Set a new entry's attributes; return its mode, reduced if ACLs are not supported."""
    mode = entry.mode
    for attribute, value in entry.attributes:
        try:
            durable.set_attribute(fd, attribute, value)
        except OSError as error:
            if attribute not in (acl.XATTR, acl.DEFAULT_XATTR) or error.errno != errno.ENOTSUP:
                raise
            mode = acl.mode_without_acl(mode, value) if attribute == acl.XATTR else mode
    return mode


def _reset_attributes(fd: int, entry: Entry, mode: int, *, must_set_mode: bool) -> None:
    """Remove attributes that are not merged from a file, and set an entry's ACL, or none."""
    own, agents = dict(entry.attributes).get(acl.XATTR), None
    for attribute in os.listxattr(fd):
        if is_excluded_attribute(attribute):
            agents = acl.read(fd) if attribute == acl.XATTR else agents
            durable.remove_attribute(fd, attribute)
    if own is not None:
        durable.set_attribute(fd, acl.XATTR, own)
    if own is not None or agents is not None or must_set_mode:
        durable.chmod(fd, mode if own is not None else acl.mode_without_acl(mode, agents))


def _mark(status: os.stat_result) -> EntryMark:
    mode = stat.S_IMODE(status.st_mode)
    return EntryMark(FileType.FILE, mode, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def _copy_data(fd: int, out: int, size: int) -> str:
    """Copy a file's data, keeping holes; return its digest."""
    seen = digest.RunningDigest()
    end = 0
    for at, piece in digest.read_data(fd, size):
        if at != end:
            os.lseek(out, at, os.SEEK_SET)
        durable.write(out, piece)
        seen.add(at, piece)
        end = at + len(piece)
    if end < size:
        durable.truncate(out, size)
    return seen.hex()
