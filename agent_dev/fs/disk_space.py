"""Free space on the disks that an agent writes to; the agent is stopped while there is still enough for a merge."""

import errno
import os

_MAX_RESERVE, _SHARE = 1 << 30, 10  # bytes and fraction of a file system that stay free by default
_SPEED = 4 << 20  # bytes that a fast disk writes in a millisecond
_SLOWEST, _FASTEST = 400, 5  # ms between two checks

ENOUGH, LOW, EXHAUSTED = range(3)
FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


class _Disk:
    """A file system. A merge needs space on it for a second copy of the session's data, except what is in `kept`."""

    def __init__(self, path: str, reserve: int, start: os.statvfs_result, *, is_copied: bool, kept: str = "") -> None:
        self.path = path
        self._is_copied = is_copied
        self._unmerged = kept
        self._seen = (0, 0)  # mtime of `kept`, and the bytes in it
        self._start, whole = _free(start)
        self._reserve = reserve if reserve >= 0 else min(_MAX_RESERVE, whole // _SHARE, self._start // 2)

    def look(self) -> tuple[int, int]:
        """Return the numbers of bytes that are free and that must stay free."""
        free, _ = _free(os.statvfs(self.path))
        written = max(0, self._start - free) if self._is_copied else 0
        if self._unmerged and free < self._reserve + written:
            written = max(0, written - self._unmerged_bytes())
        return free, self._reserve + written

    def _unmerged_bytes(self) -> int:
        try:
            changed = os.stat(self._unmerged).st_mtime_ns
            if self._seen[0] != changed:
                with os.scandir(self._unmerged) as entries:
                    self._seen = changed, sum(map(_blocks, entries))
        except FileNotFoundError:
            return 0
        return self._seen[1]


class FreeSpace:
    """Free space on the file systems of the state directory and of other directories that an agent writes to.

    `start`: these directories with their file systems' status before the agent started, the state directory first. `kept`: a
    directory in it with files that are never merged (contents of checkpoints).
    """

    def __init__(self, start: "dict[str, os.statvfs_result]", reserve: int = -1, kept: str = "") -> None:
        self._disks: list[_Disk] = []
        seen: set[int] = set()
        for path, found in start.items():
            device = os.stat(path).st_dev
            if device not in seen:
                is_state = not seen
                seen.add(device)
                self._disks.append(_Disk(path, reserve, found, is_copied=is_state, kept=kept if is_state else ""))
        self.pause = _FASTEST
        self.reason = ""

    def check(self) -> int:
        """Return ENOUGH, LOW (end the agent) or EXHAUSTED (kill it now); `pause` is the time until the next check, in ms."""
        worst, headroom = ENOUGH, 1 << 62
        for disk in self._disks:
            free, needed = disk.look()
            headroom = min(headroom, free - needed)
            if free < needed:
                worst = max(worst, EXHAUSTED if free < needed // 2 else LOW)
                self.reason = f"{free >> 20} MiB free on the disk of {disk.path}, reserved for the merge (limit free-disk)"
        self.pause = min(_SLOWEST, max(_FASTEST, headroom // _SPEED))
        return worst


def _free(found: os.statvfs_result) -> tuple[int, int]:
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except FileNotFoundError:
        return 0  # a temporary file


def failed_path(error: OSError, *places: str) -> str:
    """Return the path to report for an error: the mount point of a full disk, else the failed path or the first directory.

    Errors of calls on descriptors do not name the full disk. It is the one of `places` with the least free space.
    """
    if error.errno not in FULL_ERRNOS:
        return os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else places[0]
    path = os.path.realpath(min(filter(os.path.isdir, places), key=_free_share, default=places[0]))
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def _free_share(path: str) -> float:
    """Return the smaller of the shares of free blocks and free inodes."""
    found = os.statvfs(path)
    return min(found.f_bavail / (found.f_blocks or 1), found.f_favail / found.f_files if found.f_files else 1.0)
