"""The room that is left on the disks that an agent fills: it is stopped before there is none, even for a merge."""

import os

_MOST, _SHARE = 1 << 30, 10  # bytes and part of a file system that stay free unless the user says otherwise
_SPEED = 4 << 20  # bytes that a fast disk takes in a millisecond
_SLOWEST, _FASTEST = 400, 5  # ms between two looks

FINE, LOW, NONE = range(3)


class _Disk:
    """One file system. What the session wrote must fit once more where it is merged from, but for what is in `kept`."""

    def __init__(self, path: str, reserve: int, start: os.statvfs_result, *, is_copied: bool, kept: str = "") -> None:
        self.path = path
        self._is_copied = is_copied
        self._kept = kept
        self._seen = (0, 0)  # when that changed, and its bytes
        self._start, whole = _free(start)
        self._reserve = reserve if reserve >= 0 else min(_MOST, whole // _SHARE, self._start // 2)

    def look(self) -> tuple[int, int]:
        """Return the bytes that are free, and those that must stay so."""
        free, _ = _free(os.statvfs(self.path))
        written = max(0, self._start - free) if self._is_copied else 0
        if self._kept and free < self._reserve + written:
            written = max(0, written - self._bytes_kept())
        return free, self._reserve + written

    def _bytes_kept(self) -> int:
        try:
            changed = os.stat(self._kept).st_mtime_ns
            if self._seen[0] != changed:
                with os.scandir(self._kept) as entries:
                    self._seen = changed, sum(map(_blocks, entries))
        except FileNotFoundError:
            return 0
        return self._seen[1]


class Room:
    """What is left on the file systems of the state directory and of other places that an agent writes to.

    `start`: each of these places and what its disk held before the agent began, the state directory first. `kept`: a
    directory of files in that which are never merged: contents of checkpoints.
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
        self.why = ""

    def look(self) -> int:
        """Return whether there is room: FINE, LOW (the agent must end), NONE (now); `pause` says when to look again."""
        worst, headroom = FINE, 1 << 62
        for disk in self._disks:
            free, needed = disk.look()
            headroom = min(headroom, free - needed)
            if free < needed:
                worst = max(worst, NONE if free < needed // 2 else LOW)
                self.why = f"{free >> 20} MiB are left on the disk of {disk.path}, and they are kept for the merge (free-disk)"
        self.pause = min(_SLOWEST, max(_FASTEST, headroom // _SPEED))
        return worst


def _free(found: os.statvfs_result) -> tuple[int, int]:
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except FileNotFoundError:
        return 0  # a temporary one
