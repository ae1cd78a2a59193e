"""Cache of loose refs: thousands are stored in one file and not read again while no directory of refs has changed.

Git writes a ref to a temporary file and renames it, which changes the directory's times. A file overwritten in place by another
program is not noticed until another ref in its directory changes; the current branch is read at every start.
"""

import os
import time

from agent_dev.fs import cache
from agent_dev.value import Value

MIN_LOOSE_REFS = 500  # loose refs; fewer are read quickly enough
MIN_AGE_NS = 2_000_000_000  # ns; a younger change may be followed by another with the same timestamp
_ENCODING = ("utf-8", "surrogateescape")
_MAX_REPOSITORIES = 20  # cached repositories

StatMark = list[object]


class CachedRefs(Value):
    """All refs of a git dir: plain ones as packed-refs, the others as files by name."""

    packed: bytes
    files: dict[str, bytes]


class RefScan:
    """Times of the directories that hold refs, taken before they are read."""

    def __init__(self, source: str, cache_dir: str) -> None:
        """Start a scan of a git dir; `cache_dir` holds the cache, "" disables it."""
        self._source, self._start, self._file = source, time.time_ns(), ""
        self._marks: list[StatMark] | None = [] if cache_dir else None
        self.record_times("packed-refs")
        if self._marks is not None and (mark := _stat_mark(source, "refs")):
            self._file = f"{cache_dir}/refs/{mark[1]:x}-{mark[2]:x}"

    def record_times(self, name: str) -> None:
        """Record the times of a directory before it is listed."""
        if self._marks is not None:
            self._marks.append(_stat_mark(self._source, name))

    def load(self) -> CachedRefs | None:
        """Return the cached refs if all recorded times still match."""
        cached = cache.read(self._file)
        marks, packed, files = cached.get("marks"), cached.get("packed"), cached.get("apart")
        if not (isinstance(marks, list) and isinstance(packed, str) and isinstance(files, dict)):
            return None
        if any(mark != _stat_mark(self._source, str(mark[0])) for mark in marks):
            return None
        return CachedRefs(packed.encode(*_ENCODING), {str(name): str(data).encode(*_ENCODING) for name, data in files.items()})

    def save(self, refs: CachedRefs) -> None:
        """Cache the refs if nothing changed during the scan or shortly before."""
        marks = self._marks or []
        times = [time for mark in marks for time in mark[3:] if isinstance(time, int)]
        is_old = bool(times) and max(times) < self._start - MIN_AGE_NS
        if self._file and is_old and all(mark == _stat_mark(self._source, str(mark[0])) for mark in marks):
            _prune(os.path.dirname(self._file))
            files = {name: data.decode(*_ENCODING) for name, data in refs.files.items()}
            cache.write(self._file, {"marks": marks, "packed": refs.packed.decode(*_ENCODING), "apart": files})


def _stat_mark(source: str, name: str) -> StatMark:
    """Return a directory's or file's name, inode and times; only the name if it is missing."""
    try:
        status = os.lstat(f"{source}/{name}")
    except OSError:
        return [name]
    return [name, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _prune(folder: str) -> None:
    """Remove the oldest cache files."""
    try:
        files = sorted(os.scandir(folder), key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)
        for entry in files[: max(0, len(files) + 1 - _MAX_REPOSITORIES)]:
            os.unlink(entry.path)
    except OSError:
        return
