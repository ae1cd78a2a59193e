"""Loose refs by the thousand, kept as one file from one start to the next: none of them is read while no directory of them moved.

Every git writes a ref beside its place and renames it, which the directory's times show. A file that something else wrote in
place is not seen until any other ref of its directory moves; the current branch is read at every start.
"""

import os
import time

from agent_dev.fs import cache
from agent_dev.value import Value

FEWEST = 500  # loose refs: reading fewer costs less than is felt
REST = 2_000_000_000  # ns: what moved so shortly before it was read may move again without another time
_TEXT = ("utf-8", "surrogateescape")
_MOST = 20  # repositories of which refs are kept

Mark = list[object]


class Kept(Value):
    """All refs of a git dir: the plain ones as one packed-refs, the others as files by name."""

    packed: bytes
    apart: dict[str, bytes]


class Look:
    """The times of the directories that hold refs, taken before they are read."""

    def __init__(self, source: str, place: str) -> None:
        """Begin with a git dir; `place` is the directory of what is kept, "" to keep nothing."""
        self._source, self._start, self._file = source, time.time_ns(), ""
        self._marks: list[Mark] | None = [] if place else None
        self.see("packed-refs")
        if self._marks is not None and (mark := _mark(source, "refs")):
            self._file = f"{place}/refs/{mark[1]:x}-{mark[2]:x}"

    def see(self, name: str) -> None:
        """Take the time of one more, before it is listed."""
        if self._marks is not None:
            self._marks.append(_mark(self._source, name))

    def known(self) -> Kept | None:
        """Return what was kept when these were the times of all of them."""
        kept = cache.read(self._file)
        marks, packed, apart = kept.get("marks"), kept.get("packed"), kept.get("apart")
        if not (isinstance(marks, list) and isinstance(packed, str) and isinstance(apart, dict)):
            return None
        if any(mark != _mark(self._source, str(mark[0])) for mark in marks):
            return None
        return Kept(packed.encode(*_TEXT), {str(name): str(data).encode(*_TEXT) for name, data in apart.items()})

    def keep(self, one: Kept) -> None:
        """Keep what was read, if nothing moved meanwhile or shortly before."""
        marks = self._marks or []
        times = [when for mark in marks for when in mark[3:] if isinstance(when, int)]
        is_old = bool(times) and max(times) < self._start - REST
        if self._file and is_old and all(mark == _mark(self._source, str(mark[0])) for mark in marks):
            _thin(os.path.dirname(self._file))
            apart = {name: data.decode(*_TEXT) for name, data in one.apart.items()}
            cache.write(self._file, {"marks": marks, "packed": one.packed.decode(*_TEXT), "apart": apart})


def _mark(source: str, name: str) -> Mark:
    """Return what a directory or file is known by; only its name where there is none."""
    try:
        found = os.lstat(f"{source}/{name}")
    except OSError:
        return [name]
    return [name, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns]


def _thin(folder: str) -> None:
    """Let go of those that were written longest ago."""
    try:
        files = sorted(os.scandir(folder), key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)
        for entry in files[: max(0, len(files) + 1 - _MOST)]:
            os.unlink(entry.path)
    except OSError:
        return
