"""States that a power cut may leave of a recorded disk: names and contents that were not durable may be old or new.

A change of names may be lost unless a directory that it touches was synced since, but never half of a rename, and never one that
a kept change depends on: the same name before, the same inode before, the emptying of a removed directory. A new directory whose
own name was not synced is lost with its content, as POSIX allows and some file systems do. An inode whose name is kept has the
mode, time and attributes that it had when it got that name, as in every journaling file system; later ones are durable once the
inode itself is synced. Data that was not synced is old, new, torn or zeros.
"""

import os
import random
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TypeVar
from unittest import mock

from agent_dev.fs import background_removal, walk
from agent_dev.fs.entry import Entry, FileType
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls
from agent_dev.merge_engine import slots
from agent_dev.merge_engine.journal import EntryMark
from tests.harness.faults.recorded import DirectoryEntry, Event, Id, Metadata, RecordedInode, Tape

Thing = TypeVar("Thing", bound=Entry)
DATA_OUTCOMES = ("new", "old", "torn", "zeros", "mixed")
_NEW_HERE = 1 << 40  # offset of the ids of inodes created after the cut


@dataclass(slots=True)
class DiskState:
    """The content of a disk after a cut: inodes by id, with their names in `entries`."""

    tape: Tape
    entries: dict[Id, dict[bytes, Id]]
    metas: dict[Id, Metadata]
    datas: dict[Id, bytes]
    ctimes: dict[Id, int]

    def seen(self, number: Id) -> RecordedInode:
        """Return an inode in this state."""
        born = self.tape.born[number]
        return RecordedInode(born.type, self.metas[number], self.ctimes[number], self.datas[number])

    def paths(self) -> Iterator[tuple[bytes, Id]]:
        """Yield every reachable path."""
        todo = [(b"", self.tape.top)]
        while todo:
            path, number = todo.pop()
            yield path, number
            todo += [(path + b"/" + name, inside) for name, inside in self.entries.get(number, {}).items()]

    def fingerprint(self) -> int:
        """Return a fingerprint of the state, without files that are only being removed."""
        rows = [
            (path, number, self.metas[number], self.datas[number], self.ctimes[number])
            for path, number in sorted(self.paths())
            if b"/gone/" not in path
        ]
        return hash(tuple(rows))


@dataclass(slots=True)
class _Certain:
    """The durable names at some moment, and the last event of each inode."""

    names: set[int] = field(default_factory=set)  # numbers of events
    metas: dict[Id, Metadata] = field(default_factory=dict)
    datas: dict[Id, bytes] = field(default_factory=dict)
    last_metas: dict[Id, Metadata] = field(default_factory=dict)
    last_datas: dict[Id, bytes] = field(default_factory=dict)


class PowerCutModel:
    """A tape that can be replayed up to any event. `without`: fsync and syncfs calls to ignore, by caller."""

    def __init__(self, tape: Tape, *, seed: int, most: int, without: str = "") -> None:
        self.tape = tape
        self._random = random.Random(seed)  # noqa: S311  no secret
        self._most = most
        self.events = [Event() if event.is_sync and event.site == without else event for event in tape.events]
        self._needs = self._dependencies()
        self._first = DiskState(tape, {}, {}, {}, {})
        for number, born in tape.born.items():
            seen = tape.first.get(number, born)
            self._first.entries[number] = dict(seen.entries) if number in tape.first else {}
            self._first.metas[number], self._first.datas[number], self._first.ctimes[number] = seen.meta, seen.data, seen.ctime

    def _dependencies(self) -> dict[int, frozenset[int]]:
        by_place: dict[DirectoryEntry, int] = {}
        by_inode: dict[Id, int] = {}
        by_folder: dict[Id, set[int]] = {}
        needs: dict[int, frozenset[int]] = {}
        for number, event in enumerate(self.events):
            if not event.entries:
                continue
            direct: set[int] = set()
            for place, (old, new) in event.entries.items():
                direct |= {by_place[place]} if place in by_place else set()
                for inode in (old, new):
                    if inode is not None and inode in by_inode:
                        direct.add(by_inode[inode])
                if old is not None and not any(one == old for _, one in event.entries.values()):
                    direct |= by_folder.get(old, set())  # it was removed, so it was empty before
            needs[number] = frozenset(direct.union(*(needs[one] for one in direct)))
            for place, inodes in event.entries.items():
                by_place[place] = number
                by_folder.setdefault(place[0], set()).add(number)
                by_inode |= {inode: number for inode in inodes if inode is not None}
        return needs

    def states(self) -> Iterator[tuple[int, DiskState]]:
        """Yield the number of events before each cut, and the possible states, with few repetitions.

        A cut after an event leaves a state that an earlier cut may leave, or one that includes the event: only the latter is new,
        unless something was reported to the user in between.
        """
        certain = _Certain()
        yield 0, self._first
        for number, event in enumerate(self.events):
            self._hear(certain, number, event)
            if event.is_sync:
                continue
            loose = [one for one in range(number + 1) if self.events[one].entries and one not in certain.names]
            wanted = {number} if event.entries else set()
            for names in self._choices(loose, wanted):
                for state in self._states(certain, names, event):
                    yield number + 1, state

    def _hear(self, certain: _Certain, number: int, event: Event) -> None:
        certain.last_metas |= event.metas
        certain.last_datas |= event.datas
        if event.is_all:
            certain.names |= {one for one in range(number) if any(_is_among(event, at) for at, _ in self.events[one].entries)}
            certain.metas |= {inode: meta for inode, meta in certain.last_metas.items() if _is_among(event, inode)}
            certain.datas |= {inode: data for inode, data in certain.last_datas.items() if _is_among(event, inode)}
        elif event.synced is not None:
            synced = event.synced
            for one in range(number):
                if any(folder == synced for folder, _ in self.events[one].entries):
                    certain.names |= {one, *self._needs[one]}
            certain.metas |= {synced: certain.last_metas[synced]} if synced in certain.last_metas else {}
            certain.datas |= {synced: certain.last_datas[synced]} if synced in certain.last_datas else {}

    def _choices(self, loose: list[int], wanted: set[int]) -> Iterable[set[int]]:
        """Return sets of name changes that are kept in addition to the durable ones: all possible sets, or a sample."""
        needs = {one: self._needs[one] & set(loose) for one in loose}
        must = wanted.union(*(needs[one] for one in wanted))
        free = [one for one in loose if one not in must]
        if 2 ** len(free) <= self._most:
            selected = (must | set(some) for count in range(len(free) + 1) for some in combinations(free, count))
            return [some for some in selected if all(needs[one] <= some for one in some)]
        found_sets: dict[frozenset[int], None] = {frozenset(must): None, frozenset(loose): None}
        for one in free:
            found_sets[frozenset(must | needs[one] | {one})] = None
            without = {other for other in loose if other != one and one not in needs[other]}
            found_sets[frozenset(without)] = None
        for cut in range(len(free)):
            found_sets[frozenset(must.union(free[:cut], *(needs[one] for one in free[:cut])))] = None
        for _ in range(self._most):
            some = {one for one in free if self._random.random() < 0.5}
            found_sets[frozenset(must.union(some, *(needs[one] for one in some)))] = None
        with_must = [set(one) for one in found_sets if must <= one]
        return with_must[:2] + self._random.sample(with_must[2:], min(len(with_must) - 2, self._most))

    def _states(self, certain: _Certain, names: set[int], event: Event) -> Iterator[DiskState]:
        state, metas = self._named(certain, names)
        open_datas = [one for one, data in certain.last_datas.items() if certain.datas.get(one, self._first.datas[one]) != data]
        state.metas |= metas | certain.metas
        fates = DATA_OUTCOMES if open_datas else ("new", "old")
        for fate in fates:
            if fate == "old" and (event.datas or (event.metas and not event.entries)):
                continue  # the same as the state before
            created = DiskState(self.tape, state.entries, dict(state.metas), dict(state.datas), state.ctimes)
            if fate in ("new", "torn"):
                created.metas |= certain.last_metas
            for inode in certain.last_datas:
                old = certain.datas.get(inode, self._first.datas[inode])
                own = self._random.choice(DATA_OUTCOMES[:4]) if fate == "mixed" else fate
                created.datas[inode] = _data(old, certain.last_datas[inode], own)
            yield created

    def _named(self, certain: _Certain, names: set[int]) -> tuple[DiskState, dict[Id, Metadata]]:
        """Return the names after these changes, and the metadata of every inode when it got its last name."""
        first = self._first
        state = DiskState(self.tape, dict(first.entries), dict(first.metas), dict(first.datas), dict(first.ctimes))
        own: set[Id] = set()
        metas: dict[Id, Metadata] = {}
        named: dict[Id, Metadata] = {}
        kept = certain.names | names
        for number, event in enumerate(self.events[: max(kept, default=-1) + 1]):
            metas |= event.metas
            if number not in kept:
                continue
            for (folder, name), (_, new) in event.entries.items():
                if folder not in own:
                    own.add(folder)
                    state.entries[folder] = dict(state.entries[folder])
                if new is None:
                    state.entries[folder].pop(name, None)
                else:
                    state.entries[folder][name] = new
                    if new in metas:
                        named[new] = metas[new]
            state.ctimes |= event.ctimes
        return state, named


def _is_among(event: Event, inode: Id) -> bool:
    return event.inodes is None or inode in event.inodes


def _data(old: bytes, new: bytes, fate: str) -> bytes:
    if fate == "new" or old == new:
        return new
    if fate == "old":
        return old
    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    if fate == "torn":
        return new[: same + (len(new) - same) // 2]
    return new[:same] + bytes(len(new) - same)


# On a real disk


class RebuiltDisk:
    """A state on a real disk, at the recorded paths, and with the recorded inode numbers and times.

    Only the directory `stays`, whose inode number is in every journal, is the original; for all others, `seen` lets readers of
    the disk see the recorded numbers, and lets no call wait for the disk.
    """

    def __init__(self, folder: Path, stays: Path) -> None:
        self._folder = os.fsencode(folder)
        self._stays = os.fsencode(stays)
        self._open: list[int] = []
        self._reported: dict[
            int, tuple[int, int, int]
        ] = {}  # inode number → recorded inode, its current ctime, its recorded ctime

    def make(self, tape: Tape, state: DiskState) -> None:
        """Replace the previous state on the disk by another one."""
        self._clear()
        paths = dict(state.paths())
        later = []
        first: dict[Id, bytes] = {}  # an inode's first name
        for path in sorted(paths):
            number = paths[path]
            seen, place = state.seen(number), self._folder + path
            if number in first:
                os.link(first[number], place, follow_symlinks=False)
                continue
            first[number] = place
            _make(place, seen)
            if stat.S_ISDIR(seen.type):
                later.append((place, seen))
            else:
                _dress(place, seen)
            fd = os.open(place, os.O_PATH | os.O_NOFOLLOW)
            self._open.append(fd)  # while it is open, its number is not reused
            self._reported[os.fstat(fd).st_ino] = (tape.inodes[number], 0, seen.ctime)
        for place, seen in reversed(later):
            _dress(place, seen)
        for fd in self._open:
            status = os.fstat(fd)
            inode, _, ctime = self._reported[status.st_ino]
            self._reported[status.st_ino] = (inode, status.st_ctime_ns, ctime)

    def _clear(self) -> None:
        self.close()
        for name in os.listdir(self._folder):
            place = self._folder + b"/" + name
            if place != self._stays:
                remove_tree(os.fsdecode(place))
        os.chmod(self._stays, 0o700)
        for name in os.listdir(self._stays):
            remove_tree(os.fsdecode(self._stays + b"/" + name))

    def close(self) -> None:
        """Close the descriptors of the state."""
        for fd in self._open:
            os.close(fd)
        self._open.clear()
        self._reported.clear()

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Let everything in this process that reads the disk see the recorded numbers."""
        own_entry, own_mark = walk._entry, slots._mark

        def _entry(
            folder: int,
            name: bytes,
            status: os.stat_result,
            kind: FileType,
            mode: int,
            attributes: tuple[tuple[str, bytes], ...] = (),
        ) -> Entry:
            return self._as_recorded(own_entry(folder, name, status, kind, mode, attributes))

        def _mark(status: os.stat_result) -> EntryMark:
            return self._as_recorded(own_mark(status))

        with (
            mock.patch.object(walk, "_entry", _entry),
            mock.patch.object(slots, "_mark", _mark),
            mock.patch.object(os, "fsync", _nothing),
            mock.patch.object(syscalls, "syncfs", _nothing),
            mock.patch.object(background_removal, "remove_in_background", remove_tree),
        ):
            yield

    def _as_recorded(self, entry: Thing) -> Thing:
        inode, now, ctime = self._reported.get(entry.inode, (entry.inode + _NEW_HERE, 0, 0))
        return entry.with_values(inode=inode, ctime=ctime if entry.ctime == now else entry.ctime)


def _nothing(_fd: int) -> None:
    """Do nothing; a mock would take longer than the call."""


def _make(place: bytes, seen: RecordedInode) -> None:
    if stat.S_ISDIR(seen.type):
        try:
            os.mkdir(place, 0o700)
        except FileExistsError:
            pass
    elif stat.S_ISLNK(seen.type):
        os.symlink(seen.data, place)
    elif stat.S_ISREG(seen.type):
        with open(place, "xb") as file:
            file.write(seen.data)
    else:
        os.mknod(place, seen.type | 0o600, 0)


def _dress(place: bytes, seen: RecordedInode) -> None:
    if stat.S_ISLNK(seen.type):
        os.utime(place, ns=(seen.meta.mtime, seen.meta.mtime), follow_symlinks=False)
        return
    for name, value in seen.meta.attributes:
        os.setxattr(place, name, value)
    os.chmod(place, seen.meta.mode)
    if not stat.S_ISDIR(seen.type):
        os.utime(place, ns=(seen.meta.mtime, seen.meta.mtime))
