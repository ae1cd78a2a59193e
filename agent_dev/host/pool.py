"""The contents of all checkpoints of a session, each a file named by its SHA-256; several processes may add to it at once."""

import errno
import fcntl
import hashlib
import os
from dataclasses import dataclass

from agent_dev.host import digest, files

_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_ONCE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CLONE = 0x40049409  # FICLONE
_ROOM = 512 << 20  # bytes that stay free for the agent, or a twentieth of a small disk


@dataclass(slots=True)
class Pool:
    """The directory of them."""

    fd: int
    can_clone: bool = True
    _unasked: int = 0

    @property
    def _temp(self) -> str:
        return f".new-{os.getpid()}"

    def add(self, source: int, size: int) -> tuple[str, int]:
        """Copy an open file's bytes; return their name, and how many were new.

        Raises OSError: ENOSPC while there is still room for the agent.
        """
        if size <= files.CHUNK:
            return self._add_small(source, size)
        self.leave_room(size)
        target = os.open(self._temp, _NEW, 0o600, dir_fd=self.fd)
        try:
            seen = self._clone(source, target) or _copy(source, target, size)
        finally:
            os.close(target)
        self._publish(seen)
        return seen, size

    def _add_small(self, source: int, size: int) -> tuple[str, int]:
        data = os.read(source, size + 1)
        if len(data) != size:
            data += files.read_all(source)
        seen = hashlib.sha256(data).hexdigest()
        self.leave_room(len(data))
        try:
            target = os.open(seen, _ONCE, 0o600, dir_fd=self.fd)
        except FileExistsError:
            if os.stat(seen, dir_fd=self.fd, follow_symlinks=False).st_size == len(data):
                return seen, 0
            target = os.open(self._temp, _NEW, 0o600, dir_fd=self.fd)  # a part: one was killed there, or the other is at it
            self._fill(target, data)
            self._publish(seen)
        else:
            self._fill(target, data)
        return seen, len(data)

    @staticmethod
    def _fill(target: int, data: bytes) -> None:
        try:
            files.write_all(target, data)
        finally:
            os.close(target)

    def _publish(self, name: str) -> None:
        os.rename(self._temp, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)

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


def name_of(fd: int, _size: int) -> tuple[str, int]:
    """Return the name of a file's content, and copy nothing."""
    return digest_of(fd), 0


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
