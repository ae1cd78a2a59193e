"""Record every change to a directory, call by call: the tape for a model of a power cut.

The disk is read after each call to find its changes, so that the effects of an unknown call are recorded, too, with the next
known one.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_dev.fs import background_removal
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls

if TYPE_CHECKING:
    from types import FrameType

CALLS = (
    *("mkdir", "rename", "unlink", "rmdir", "symlink", "mkfifo", "mknod", "write", "ftruncate", "chmod", "fchmod", "utime"),
    *("setxattr", "removexattr", "open"),
)
Id = int  # of an inode, never reused
DirectoryEntry = tuple[Id, bytes]  # a directory and a name in it


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of an inode that a power cut may revert."""

    mode: int
    mtime: int
    attributes: tuple[tuple[str, bytes], ...]


@dataclass(slots=True)
class RecordedInode:
    """An inode at one moment. `data`: a file's bytes or a symlink's target."""

    type: int
    meta: Metadata
    ctime: int
    data: bytes
    entries: dict[bytes, Id] = field(default_factory=dict)


@dataclass(slots=True)
class Event:
    """A call. `synced`: an inode, or None with `is_all`; `report`: a report to the user; `site`: the caller."""

    entries: dict[DirectoryEntry, tuple[Id | None, Id | None]] = field(default_factory=dict)
    metas: dict[Id, Metadata] = field(default_factory=dict)
    datas: dict[Id, bytes] = field(default_factory=dict)
    ctimes: dict[Id, int] = field(default_factory=dict)
    synced: Id | None = None
    is_all: bool = False
    inodes: frozenset[Id] | None = None  # with `is_all`: the inodes of that file system; None: all
    report: str = ""
    site: str = ""

    @property
    def is_sync(self) -> bool:
        """Return whether the call makes something durable."""
        return self.is_all or self.synced is not None


@dataclass(slots=True)
class Tape:
    """A recording: all inodes as they were created, the initial state, and the events."""

    born: dict[Id, RecordedInode]
    inodes: dict[Id, int]
    first: dict[Id, RecordedInode]
    events: list[Event]
    top: Id


def _never(_number: int) -> None:
    """Do not stop."""


class Recorder:
    """A recorder of changes below a directory while `watching`; picklable, so that another process can continue."""

    def __init__(self, folder: Path, apart: Path | None = None) -> None:
        """Read the initial state; `apart`: a subdirectory that counts as another file system."""
        self._folder = os.fsencode(folder)
        self._apart = apart
        self._ids: dict[int, Id] = {}
        self._inodes: dict[Id, int] = {}
        self._born: dict[Id, RecordedInode] = {}
        self._now = self._look()
        top = self._ids[os.stat(folder).st_ino]
        self.tape = Tape(self._born, self._inodes, self._now, [], top)
        self._is_inside = False
        self.stop: Callable[[int], None] = _never  # called with the number of each event before it happens

    def __getstate__(self) -> dict[str, object]:
        """Return the state with which another process continues."""
        return {**self.__dict__, "_is_inside": False, "stop": _never}

    def record_report(self, text: str) -> None:
        """Record a report to the user."""
        self.catch_up()
        self.tape.events.append(Event(report=text))

    # Reading

    def _look(self) -> dict[Id, RecordedInode]:
        found = _found_below(self._folder)
        for inode in set(self._ids) - found.keys():
            del self._ids[inode]
        for inode, (seen, _) in found.items():
            if inode not in self._ids:
                self._ids[inode] = len(self._inodes) + 1
                self._inodes[self._ids[inode]] = inode
                self._born[self._ids[inode]] = seen
        for seen, names in found.values():
            seen.entries = {name: self._ids[inode] for name, inode in names.items()}
        return {self._ids[inode]: seen for inode, (seen, _) in found.items()}

    def catch_up(self, site: str = "") -> None:
        """Record the changes since the last reading."""
        before, after = self._now, self._look()
        event = Event(site=site)
        for number in before.keys() | after.keys():
            old, new = before.get(number), after.get(number)
            was, now = old.entries if old else {}, new.entries if new else {}
            changed = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
            event.entries |= {(number, name): (was.get(name), now.get(name)) for name in changed}
            if new is not None:
                self._note(event, number, old, new)
        self._now = after
        if event.entries or event.metas or event.datas or event.ctimes:
            assert len(event.entries) <= (2 if site else 1), f"{len(event.entries)} calls were not recorded"
            self.tape.events.append(event)

    def _note(self, event: Event, number: Id, old: RecordedInode | None, new: RecordedInode) -> None:
        if old is None:
            if new.data and stat.S_ISREG(new.type):  # created and filled between two readings
                event.datas[number] = new.data
                self._born[number].data = b""
            return
        event.metas |= {number: new.meta} if old.meta != new.meta else {}
        event.datas |= {number: new.data} if old.data != new.data else {}
        event.ctimes |= {number: new.ctime} if old.ctime != new.ctime else {}

    # Watching

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record every call in this process; background removals run in the foreground."""
        kept = [(os, name, getattr(os, name)) for name in (*CALLS, "fsync")]
        kept += [
            (syscalls, "rename", syscalls.rename),
            (syscalls, "syncfs", syscalls.syncfs),
            (background_removal, "remove_in_background", background_removal.remove_in_background),
        ]
        for owner, name, call in kept:
            replaced = remove_tree if name == "remove_in_background" else self._wrapped(name, call)
            setattr(owner, name, replaced)
        try:
            yield
        finally:
            for owner, name, call in kept:
                setattr(owner, name, call)

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*words: Any, **named: Any) -> Any:
            is_reading = name == "open" and not words[1] & (os.O_CREAT | os.O_TRUNC)
            if self._is_inside or is_reading:
                return call(*words, **named)
            self._is_inside = True
            try:
                self.catch_up()
                self.stop(len(self.tape.events))
                if name in ("fsync", "syncfs"):
                    self._synced(name, words[0])
                    return None
                reported = call(*words, **named)
                self.catch_up(_site())
                return reported
            finally:
                self._is_inside = False

        return recorded

    def _synced(self, name: str, fd: int) -> None:
        """Record the sync and skip it: the model needs only the event, and a real sync is slow."""
        event = Event(site=_site(), is_all=name == "syncfs")
        if not event.is_all:
            event.synced = self._ids.get(os.fstat(fd).st_ino)
        elif self._apart is not None:
            top = self._ids[os.stat(self._apart).st_ino]
            apart = frozenset(_below(self._now, top))
            event.inodes = apart if self._ids.get(os.fstat(fd).st_ino) in apart else frozenset(self._now) - apart
        self.tape.events.append(event)


def _found_below(folder: bytes) -> dict[int, tuple[RecordedInode, dict[bytes, int]]]:
    """Return everything below a directory by inode number, with the names in it."""
    found: dict[int, tuple[RecordedInode, dict[bytes, int]]] = {}
    todo = [folder]
    while todo:
        place = todo.pop()
        status = os.lstat(place)
        if status.st_ino not in found:
            inside = os.listdir(place) if stat.S_ISDIR(status.st_mode) else []
            names = {name: os.lstat(place + b"/" + name).st_ino for name in inside}
            todo += [place + b"/" + name for name in names]
            found[status.st_ino] = (_seen(place, status), names)
    return found


def _below(inodes: dict[Id, RecordedInode], top: Id) -> Iterator[Id]:
    yield top
    for inside in inodes[top].entries.values():
        yield from _below(inodes, inside)


def _seen(place: bytes, status: os.stat_result) -> RecordedInode:
    data = b""
    if stat.S_ISREG(status.st_mode):
        with open(place, "rb") as file:
            data = file.read()
    elif stat.S_ISLNK(status.st_mode):
        data = os.readlink(place)
    attributes: tuple[tuple[str, bytes], ...] = ()
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        attributes = tuple((name, os.getxattr(place, name)) for name in sorted(os.listxattr(place)) if name.startswith("user."))
    mtime = 0 if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns
    return RecordedInode(
        stat.S_IFMT(status.st_mode), Metadata(stat.S_IMODE(status.st_mode), mtime, attributes), status.st_ctime_ns, data
    )


_FILE_LAYER = ("durable", "state_files", "streams")


def _site() -> str:
    """Return the caller: the nearest function outside of the file layer, and its caller."""
    frame: FrameType | None = sys._getframe(2)
    names: list[str] = []
    while frame is not None and len(names) < 3:
        name = os.path.basename(frame.f_code.co_filename).removesuffix(".py")
        if "/agent_dev/" in frame.f_code.co_filename and name not in _FILE_LAYER:
            names.append(f"{name}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(names)
