"""The pool of contents of a session's checkpoints, one file per content; several processes may add to it at once.

Files are named by SHA-256; contents above 1 MiB with blocks of zeros are named by another digest, for which holes are not read.
"""

import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterable

from agent_dev.fs import digest, dir_tree
from agent_dev.linux import streams
from agent_dev.quick_dataclass import dataclass

_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_EXCLUSIVE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
_CLONE = 0x40049409  # FICLONE
_CLONE_MIN = 16 << 10  # bytes: copying a smaller file is as fast
_SLOW, _SLOW_PAUSE = 5_000_000, 32  # ns after which a clone counts as slow; number of files copied instead
RECENT_NS = 20_000_000  # ns: two clock ticks; a change within one leaves the same ctime
_MIN_FREE, _MIN_FREE_DIVISOR = 1 << 30, 10  # bytes kept free, or a fraction of a small disk, as the disk limit does
_SPARE_COPIES = 2  # copies of the session for which there must be free space: for the merge, and for the agent


@dataclass(slots=True)
class ContentPool:
    """The pool's directory. `session_bytes`: bytes of the session's files at the previous checkpoint, `names`: their contents."""

    fd: int
    session_bytes: int = 0
    known_names: Callable[[], Iterable[str]] | None = None
    can_clone: bool = True
    _copies_left: int = 0  # files to copy before the next clone
    _allowance: int = 0

    @property
    def _temp(self) -> str:
        return f".new-{os.getpid()}"

    def add(self, source: int, size: int) -> tuple[str, int]:
        """Copy or clone an open file; return its content's name and the number of new bytes.

        Raises OSError: ENOSPC while there is still free space for the agent.
        """
        self.reserve_space(size if size <= dir_tree.CHUNK_SIZE else min(size, _allocated(os.fstat(source))))
        cloned = self._try_clone(source, size) if self.can_clone and size >= _CLONE_MIN else None
        if cloned:
            return cloned
        return self._add_small(source, size) if size <= dir_tree.CHUNK_SIZE else self._add_large(source, size)

    def _add_large(self, source: int, size: int) -> tuple[str, int]:
        target = os.open(self._temp, _NEW, 0o600, dir_fd=self.fd)
        try:
            name = _copy(source, target, size)
            new = min(size, _allocated(os.fstat(target)))
        finally:
            os.close(target)
        self._publish(name)
        return name, new

    def _add_small(self, source: int, size: int) -> tuple[str, int]:
        data = os.read(source, size + 1)
        if len(data) != size:
            data += dir_tree.read_all(source)
        name = hashlib.sha256(data).hexdigest()
        try:
            target = os.open(name, _EXCLUSIVE, 0o600, dir_fd=self.fd)
        except FileExistsError:
            if self._is_whole(name, len(data)):
                return name, 0
            target = os.open(self._temp, _NEW, 0o600, dir_fd=self.fd)  # incomplete: its writer was killed or is still writing
            self._fill(target, data)
            self._publish(name)
        else:
            self._fill(target, data)
        return name, len(data)

    def _is_whole(self, name: str, size: int) -> bool:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_size == size

    @staticmethod
    def _fill(target: int, data: bytes) -> None:
        try:
            streams.write_all(target, data)
        finally:
            os.close(target)

    def _publish(self, name: str) -> None:
        os.rename(self._temp, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def _try_clone(self, source: int, size: int) -> tuple[str, int] | None:
        """Clone a file; return its content's name and size, None if it must be copied."""
        if size <= dir_tree.CHUNK_SIZE and self._copies_left:
            self._copies_left -= 1
            return None
        try:
            target = os.open(".", _UNNAMED, 0o600, dir_fd=self.fd)
            try:
                return self._clone(source, target)
            finally:
                os.close(target)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
        self.can_clone = False
        return None

    def _clone(self, source: int, target: int) -> tuple[str, int]:
        """Clone a file to an unnamed one and name it; return its name and size.

        The digest is computed from the source, which is in the page cache, if its times prove it unchanged: the clone wrote out
        its dirty pages, so a later write through a mapping changes the times, too.
        """
        recent, now, before = time.time_ns() - RECENT_NS, time.monotonic_ns(), os.fstat(source)
        fcntl.ioctl(target, _CLONE, source)
        if time.monotonic_ns() - now > _SLOW:
            self._copies_left = _SLOW_PAUSE
        name, after, size = digest_of(source, before.st_size), os.fstat(source), os.fstat(target).st_size
        is_still = (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (size, after.st_mtime_ns, after.st_ctime_ns)
        if not is_still or before.st_ctime_ns > recent:
            name = digest_of(target)
        if not self._link(target, name):
            if self._is_whole(name, size):
                return name, 0
            self._replace(target, name)
        return name, size

    def _replace(self, target: int, name: str) -> None:
        try:
            os.unlink(self._temp, dir_fd=self.fd)
        except FileNotFoundError:
            pass  # no leftover of a killed process with this pid
        self._link(target, self._temp)
        self._publish(name)

    def _link(self, target: int, name: str) -> bool:
        try:
            os.link(f"/proc/self/fd/{target}", name, dst_dir_fd=self.fd)
        except FileExistsError:
            return False
        return True

    def reserve_space(self, size: int) -> None:
        """Raise ENOSPC before the disk is full: the agent needs space, too, and is killed if there is too little for a merge."""
        self._allowance -= size
        self.session_bytes += size
        if self._allowance > 0:
            return
        spare = self._spare_bytes(size)
        if spare < 0 and self.known_names is not None:
            self._subtract_holes(self.known_names())
            spare = self._spare_bytes(size)
        if spare < 0:
            raise OSError(errno.ENOSPC, "not enough free space for a checkpoint and the agent")
        self._allowance = spare // (2 + 2 * _SPARE_COPIES)

    def _spare_bytes(self, size: int) -> int:
        stats = os.fstatvfs(self.fd)
        required = min(_MIN_FREE, stats.f_blocks * stats.f_frsize // _MIN_FREE_DIVISOR) + _SPARE_COPIES * self.session_bytes
        return stats.f_bavail * stats.f_frsize - size - required

    def _subtract_holes(self, names: Iterable[str]) -> None:
        """Subtract holes from the held bytes: sparse files such as disk images need less space."""
        self.known_names = None
        for name in names:
            try:
                found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            except FileNotFoundError:
                continue  # damaged: count the recorded size
            self.session_bytes -= max(0, found.st_size - _allocated(found))


def _allocated(found: os.stat_result) -> int:
    return found.st_blocks * 512


def name_content(fd: int, _size: int) -> tuple[str, int]:
    """Return the name of a file's content without copying it."""
    return digest_of(fd), 0


def digest_of(fd: int, size: int = -1) -> str:
    """Return the name of an open file's content, or of its first `size` bytes."""
    size = os.fstat(fd).st_size if size < 0 else size
    if size <= dir_tree.CHUNK_SIZE:
        return hashlib.sha256(os.pread(fd, size, 0)).hexdigest()
    name = digest.ContentName()
    for offset, piece in digest.read_blocks(fd, size):
        name.add(offset, piece)
    return name.finish(size)


def _copy(source: int, target: int, size: int) -> str:
    """Copy a file of more than `CHUNK_SIZE` bytes with its holes; return its content's name."""
    name = digest.ContentName()
    for offset, piece in digest.read_blocks(source, size):
        name.add(offset, piece)
        os.lseek(target, offset, os.SEEK_SET)
        streams.write_all(target, piece)
    os.ftruncate(target, size)
    return name.finish(size)
