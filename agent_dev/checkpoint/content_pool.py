"""The contents of all checkpoints of a session, each a file named by its SHA-256; several processes may add to it at once."""

import errno
import fcntl
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent_dev.fs import digest
from agent_dev.fs import dir_tree as files

_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_ONCE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
_CLONE = 0x40049409  # FICLONE
_WORTH = 16 << 10  # bytes: a smaller file is copied as quickly
_SLOW, _PAUSE = 5_000_000, 32  # ns of a clone that waited for a slow disk, and how many files are copied then
YOUNG = 20_000_000  # ns: two clock ticks; a change within one leaves the same ctime
_ROOM, _SHARE = 1 << 30, 10  # bytes that stay free, or a part of a small disk: as the watch over the disks has it
_AGAIN = 2  # how often all that the session holds must fit once more: where it is merged, and for an agent that goes on


@dataclass(slots=True)
class Pool:
    """The directory of them. `held`: bytes that the session's files had at the checkpoint before, `names`: their contents."""

    fd: int
    held: int = 0
    names: Callable[[], Iterable[str]] | None = None
    can_clone: bool = True
    _copies: int = 0  # how many are copied before a clone is tried again
    _unasked: int = 0

    @property
    def _temp(self) -> str:
        return f".new-{os.getpid()}"

    def add(self, source: int, size: int) -> tuple[str, int]:
        """Copy an open file's bytes, or share its blocks; return their name, and how many were new.

        Raises OSError: ENOSPC while there is still room for the agent.
        """
        self.leave_room(size if size <= files.CHUNK else min(size, _allocated(os.fstat(source))))
        cloned = self._cloned(source, size) if self.can_clone and size >= _WORTH else None
        if cloned:
            return cloned
        return self._add_small(source, size) if size <= files.CHUNK else self._add_large(source, size)

    def _add_large(self, source: int, size: int) -> tuple[str, int]:
        target = os.open(self._temp, _NEW, 0o600, dir_fd=self.fd)
        try:
            seen = _copy(source, target, size)
            new = min(size, _allocated(os.fstat(target)))
        finally:
            os.close(target)
        self._publish(seen)
        return seen, new

    def _add_small(self, source: int, size: int) -> tuple[str, int]:
        data = os.read(source, size + 1)
        if len(data) != size:
            data += files.read_all(source)
        seen = hashlib.sha256(data).hexdigest()
        try:
            target = os.open(seen, _ONCE, 0o600, dir_fd=self.fd)
        except FileExistsError:
            if self._is_whole(seen, len(data)):
                return seen, 0
            target = os.open(self._temp, _NEW, 0o600, dir_fd=self.fd)  # a part: one was killed there, or the other is at it
            self._fill(target, data)
            self._publish(seen)
        else:
            self._fill(target, data)
        return seen, len(data)

    def _is_whole(self, name: str, size: int) -> bool:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_size == size

    @staticmethod
    def _fill(target: int, data: bytes) -> None:
        try:
            files.write_all(target, data)
        finally:
            os.close(target)

    def _publish(self, name: str) -> None:
        os.rename(self._temp, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def _cloned(self, source: int, size: int) -> tuple[str, int] | None:
        """Share a file's blocks; return the name of what was shared and its size, None where it has to be copied."""
        if size <= files.CHUNK and self._copies:
            self._copies -= 1
            return None
        try:
            target = os.open(".", _UNNAMED, 0o600, dir_fd=self.fd)
            try:
                return self._shared(source, target)
            finally:
                os.close(target)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
        self.can_clone = False
        return None

    def _shared(self, source: int, target: int) -> tuple[str, int]:
        """Share blocks with a file that has no name yet; return its name and size.

        The digest is taken of the source, which lies in memory where the clone does not, while its times vouch for it: the
        clone has written out what was dirty of it, so that what is written after that through a mapping moves them too.
        """
        young, now, before = time.time_ns() - YOUNG, time.monotonic_ns(), os.fstat(source)
        fcntl.ioctl(target, _CLONE, source)
        if time.monotonic_ns() - now > _SLOW:
            self._copies = _PAUSE
        seen, after, size = digest_of(source, before.st_size), os.fstat(source), os.fstat(target).st_size
        is_still = (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (size, after.st_mtime_ns, after.st_ctime_ns)
        if not is_still or before.st_ctime_ns > young:
            seen = digest_of(target)
        if not self._named(target, seen):
            if self._is_whole(seen, size):
                return seen, 0
            self._replace(target, seen)
        return seen, size

    def _replace(self, target: int, name: str) -> None:
        try:
            os.unlink(self._temp, dir_fd=self.fd)
        except FileNotFoundError:
            pass  # no killed process had our number
        self._named(target, self._temp)
        self._publish(name)

    def _named(self, target: int, name: str) -> bool:
        try:
            os.link(f"/proc/self/fd/{target}", name, dst_dir_fd=self.fd)
        except FileExistsError:
            return False
        return True

    def leave_room(self, size: int) -> None:
        """Raise ENOSPC long before the disk is full: the agent writes there too, and is ended when a merge would not fit."""
        self._unasked -= size
        self.held += size
        if self._unasked > 0:
            return
        spare = self._spare(size)
        if spare < 0 and self.names is not None:
            self._measure(self.names())
            spare = self._spare(size)
        if spare < 0:
            raise OSError(errno.ENOSPC, "less room than is left to the agent")
        self._unasked = spare // (2 + 2 * _AGAIN)

    def _spare(self, size: int) -> int:
        room = os.fstatvfs(self.fd)
        least = min(_ROOM, room.f_blocks * room.f_frsize // _SHARE) + _AGAIN * self.held
        return room.f_bavail * room.f_frsize - size - least

    def _measure(self, names: Iterable[str]) -> None:
        """Take holes out of what is held: they need no room, and a disk's image is made of them."""
        self.names = None
        for name in names:
            try:
                found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            except FileNotFoundError:
                continue  # damaged; what it was said to have counts
            self.held -= max(0, found.st_size - _allocated(found))


def _allocated(found: os.stat_result) -> int:
    return found.st_blocks * 512


def name_of(fd: int, _size: int) -> tuple[str, int]:
    """Return the name of a file's content, and copy nothing."""
    return digest_of(fd), 0


def digest_of(fd: int, size: int = sys.maxsize) -> str:
    """Return the SHA-256 of an open file's bytes, of so many at most, holes read as zeros."""
    seen, at = hashlib.sha256(), 0
    while at < size and (piece := os.pread(fd, min(files.CHUNK, size - at), at)):
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
