"""What a power cut may leave of what was recorded: any names and contents that were not made durable may be old or new.

What may be lost: a change of names, unless a directory it touches was synced since; but never one half of a rename, and never
one on which a kept one builds: the same name before, the same inode before, the emptying of a directory that is gone. A
directory that was made and whose own name was not synced is lost with all that is in it, as POSIX allows and some file systems
do. An inode whose name is kept has the mode, time and attributes that it had when it got that name, as every journaling file
system has it; what it got later is durable when it is synced itself. Data that was not synced is old, new, torn or zeros.
"""

import os
import random
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TypeVar
from unittest import mock

from agent_dev.fs import walk as scan
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls as kernel
from agent_dev.merge_engine import slots as stage
from agent_dev.merge_engine.journal import Mark
from agent_dev.overlay.changes import Entry
from agent_dev.overlay.interpret import Found
from agent_dev.session import removal as ended
from tests.harness.recorded import Event, Id, Meta, Place, Seen, Tape

Thing = TypeVar("Thing", Entry, Mark)
FATES = ("new", "old", "torn", "zeros", "mixed")
_NEW_HERE = 1 << 40  # inodes that are made after the cut are told apart by this


@dataclass(slots=True)
class State:
    """What a disk holds after a cut: inodes by their ids, of which `entries` are the names."""

    tape: Tape
    entries: dict[Id, dict[bytes, Id]]
    metas: dict[Id, Meta]
    datas: dict[Id, bytes]
    ctimes: dict[Id, int]

    def seen(self, number: Id) -> Seen:
        """Return one inode."""
        born = self.tape.born[number]
        return Seen(born.type, self.metas[number], self.ctimes[number], self.datas[number])

    def paths(self) -> Iterator[tuple[bytes, Id]]:
        """Yield all that can be reached."""
        todo = [(b"", self.tape.top)]
        while todo:
            path, number = todo.pop()
            yield path, number
            todo += [(path + b"/" + name, inside) for name, inside in self.entries.get(number, {}).items()]

    def fingerprint(self) -> int:
        """Return what tells one state from another; what is only being removed makes no difference."""
        rows = [
            (path, number, self.metas[number], self.datas[number], self.ctimes[number])
            for path, number in sorted(self.paths())
            if b"/gone/" not in path
        ]
        return hash(tuple(rows))


@dataclass(slots=True)
class _Certain:
    """What is durable for sure at some moment, and what was last heard of each inode."""

    names: set[int] = field(default_factory=set)  # numbers of events
    metas: dict[Id, Meta] = field(default_factory=dict)
    datas: dict[Id, bytes] = field(default_factory=dict)
    last_metas: dict[Id, Meta] = field(default_factory=dict)
    last_datas: dict[Id, bytes] = field(default_factory=dict)


class Model:
    """A tape, played back up to any event. `without`: calls of fsync and syncfs that are not heard, by who makes them."""

    def __init__(self, tape: Tape, *, seed: int, most: int, without: str = "") -> None:
        self.tape = tape
        self._random = random.Random(seed)  # noqa: S311  no secret
        self._most = most
        self.events = [Event() if event.is_sync and event.site == without else event for event in tape.events]
        self._needs = self._dependencies()
        self._first = State(tape, {}, {}, {}, {})
        for number, born in tape.born.items():
            seen = tape.first.get(number, born)
            self._first.entries[number] = dict(seen.entries) if number in tape.first else {}
            self._first.metas[number], self._first.datas[number], self._first.ctimes[number] = seen.meta, seen.data, seen.ctime

    def _dependencies(self) -> dict[int, frozenset[int]]:
        by_place: dict[Place, int] = {}
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
                    direct |= by_folder.get(old, set())  # removed: it was empty then
            needs[number] = frozenset(direct.union(*(needs[one] for one in direct)))
            for place, inodes in event.entries.items():
                by_place[place] = number
                by_folder.setdefault(place[0], set()).add(number)
                by_inode |= {inode: number for inode in inodes if inode is not None}
        return needs

    def states(self) -> Iterator[tuple[int, State]]:
        """Yield after how many events a cut comes, and what it may leave; little of it more than once.

        A cut after an event leaves what one before it may, or something with the event in it: only that is new, unless the
        user was told something meanwhile.
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
        """Return sets of changes of names that are kept beside those that are durable: all there are, or some of them."""
        needs = {one: self._needs[one] & set(loose) for one in loose}
        must = wanted.union(*(needs[one] for one in wanted))
        free = [one for one in loose if one not in must]
        if 2 ** len(free) <= self._most:
            chosen = (must | set(some) for count in range(len(free) + 1) for some in combinations(free, count))
            return [some for some in chosen if all(needs[one] <= some for one in some)]
        told: dict[frozenset[int], None] = {frozenset(must): None, frozenset(loose): None}
        for one in free:
            told[frozenset(must | needs[one] | {one})] = None
            without = {other for other in loose if other != one and one not in needs[other]}
            told[frozenset(without)] = None
        for cut in range(len(free)):
            told[frozenset(must.union(free[:cut], *(needs[one] for one in free[:cut])))] = None
        for _ in range(self._most):
            some = {one for one in free if self._random.random() < 0.5}
            told[frozenset(must.union(some, *(needs[one] for one in some)))] = None
        told_with = [set(one) for one in told if must <= one]
        return told_with[:2] + self._random.sample(told_with[2:], min(len(told_with) - 2, self._most))

    def _states(self, certain: _Certain, names: set[int], event: Event) -> Iterator[State]:
        state, metas = self._named(certain, names)
        open_datas = [one for one, data in certain.last_datas.items() if certain.datas.get(one, self._first.datas[one]) != data]
        state.metas |= metas | certain.metas
        fates = FATES if open_datas else ("new", "old")
        for fate in fates:
            if fate == "old" and (event.datas or (event.metas and not event.entries)):
                continue  # that is what there was before it
            made = State(self.tape, state.entries, dict(state.metas), dict(state.datas), state.ctimes)
            if fate in ("new", "torn"):
                made.metas |= certain.last_metas
            for inode in certain.last_datas:
                old = certain.datas.get(inode, self._first.datas[inode])
                own = self._random.choice(FATES[:4]) if fate == "mixed" else fate
                made.datas[inode] = _data(old, certain.last_datas[inode], own)
            yield made

    def _named(self, certain: _Certain, names: set[int]) -> tuple[State, dict[Id, Meta]]:
        """Return what the names are when these changes of them are kept, and what every inode was when it got its last one."""
        first = self._first
        state = State(self.tape, dict(first.entries), dict(first.metas), dict(first.datas), dict(first.ctimes))
        own: set[Id] = set()
        metas: dict[Id, Meta] = {}
        named: dict[Id, Meta] = {}
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
    return event.among is None or inode in event.among


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


class Rebuilt:
    """A state on a real disk, at the paths where it was recorded, with the inode numbers and times that were recorded.

    Only the directory `stays`, whose number is in every journal, is the old one; of all others the program is told the old
    numbers. `with`: what reads the disk sees them, and nothing waits for it.
    """

    def __init__(self, folder: Path, stays: Path) -> None:
        self._folder = os.fsencode(folder)
        self._stays = os.fsencode(stays)
        self._open: list[int] = []
        self._told: dict[int, tuple[int, int, int]] = {}  # an inode's number → as recorded; its ctime now; as recorded

    def make(self, tape: Tape, state: State) -> None:
        """Put a state where the last one was."""
        self._clear()
        paths = dict(state.paths())
        later = []
        first: dict[Id, bytes] = {}  # where an inode has its first name
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
            self._open.append(fd)  # as long as it is open, its number is not used again
            self._told[os.fstat(fd).st_ino] = (tape.inodes[number], 0, seen.ctime)
        for place, seen in reversed(later):
            _dress(place, seen)
        for fd in self._open:
            status = os.fstat(fd)
            inode, _, ctime = self._told[status.st_ino]
            self._told[status.st_ino] = (inode, status.st_ctime_ns, ctime)

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
        """Let go of the state."""
        for fd in self._open:
            os.close(fd)
        self._open.clear()
        self._told.clear()

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Have everything that looks at the disk in this process see the recorded numbers."""
        look, own_mark = scan._look, stage._mark

        def _look(folder: int, name: bytes, path: bytes, *, attributes: bool) -> Found:
            found = look(folder, name, path, attributes=attributes)
            return replace(found, entry=self._as_recorded(found.entry))

        def _mark(status: os.stat_result) -> Mark:
            return self._as_recorded(own_mark(status))

        with (
            mock.patch.object(scan, "_look", _look),
            mock.patch.object(stage, "_mark", _mark),
            mock.patch.object(os, "fsync", _nothing),
            mock.patch.object(kernel, "syncfs", _nothing),
            mock.patch.object(ended, "remove_aside", remove_tree),
        ):
            yield

    def _as_recorded(self, entry: Thing) -> Thing:
        inode, now, ctime = self._told.get(entry.inode, (entry.inode + _NEW_HERE, 0, 0))
        return replace(entry, inode=inode, ctime=ctime if entry.ctime == now else entry.ctime)


def _nothing(_fd: int) -> None:
    """For a call that has nothing to do here: making a mock of it takes longer than the call."""


def _make(place: bytes, seen: Seen) -> None:
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


def _dress(place: bytes, seen: Seen) -> None:
    if stat.S_ISLNK(seen.type):
        os.utime(place, ns=(seen.meta.mtime, seen.meta.mtime), follow_symlinks=False)
        return
    for name, value in seen.meta.attributes:
        os.setxattr(place, name, value)
    os.chmod(place, seen.meta.mode)
    if not stat.S_ISDIR(seen.type):
        os.utime(place, ns=(seen.meta.mtime, seen.meta.mtime))
