"""A merge's journal: its operations, how far they got, and what its records say must happen next (decision 0010).

Every operation moves whole things between a path of a real tree and a numbered slot of a staging directory, or gives a
directory another mode. So it is either *before* or *after*, which of the two the inodes tell, and it can be driven both
ways: a merge drives operations forward, a rollback and an undo drive them back, a redo forward again. Each drive is a
phase: it begins with a record of what it will do and ends with one of what it reached.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from agent_dev.overlay.changes import Entry, FileType, Key


class Act(StrEnum):
    """What an operation does when it is driven forward."""

    ATTACH = "attach"  # slot → path, where nothing stands
    DETACH = "detach"  # path → slot, which is empty
    EXCHANGE = "exchange"  # slot ↔ path
    PRUNE = "prune"  # remove an empty directory
    MODE = "mode"  # give a directory another mode and other attributes


@dataclass(frozen=True, slots=True)
class Mark:
    """What is known of a thing: enough to know it again after a rename, which changes nothing of it but the ctime.

    Times in ns since 1970. `attributes` (its `user.*` ones) and the mtime of a directory count only when it is made anew.
    """

    type: FileType
    inode: int
    size: int = 0
    mtime: int = 0
    ctime: int = 0
    mode: int = 0
    attributes: tuple[tuple[str, bytes], ...] = ()

    def is_(self, found: Entry | None) -> bool:
        """Whether this is what was found, wherever it has moved."""
        if found is None or (found.type, found.inode) != (self.type, self.inode):
            return False
        return self.type is not FileType.FILE or (found.size, found.mtime) == (self.size, self.mtime)

    def is_the_same(self, other: "Mark") -> bool:
        """Whether two marks are of one thing, which nobody has changed in between; of a directory only that it is the same."""
        if self.type is FileType.DIRECTORY:
            return (other.type, other.inode) == (self.type, self.inode)
        return (other.type, other.inode, other.size, other.mtime, other.ctime) == (
            self.type,
            self.inode,
            self.size,
            self.mtime,
            self.ctime,
        )

    def is_untouched(self, found: Entry | None) -> bool:
        """Whether this is what was found, and nobody has moved or changed it either."""
        return self.is_(found) and found is not None and (self.type is FileType.DIRECTORY or found.ctime == self.ctime)


def mark(entry: Entry) -> Mark:
    """Return what a journal keeps of an entry."""
    own = entry.attributes if entry.type is FileType.DIRECTORY else ()
    return Mark(entry.type, entry.inode, entry.size, entry.mtime, entry.ctime, entry.mode, own)


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. `new` is what stands at the path after it, `old` what stood there before; None for nothing.

    `slot`: the name in its root's staging directory. `digest`: of the new content, SHA-256 in hex, "" where there is none.
    `is_loose`: it only serves others: passed over when a directory is there already, or is not empty.
    `whole`: what a new directory holds that comes as a whole, by paths below it, parents before children.
    """

    act: Act
    key: Key
    slot: str = ""
    new: Mark | None = None
    old: Mark | None = None
    digest: str = ""
    is_loose: bool = False
    whole: tuple[tuple[bytes, Mark], ...] = ()

    def below(self) -> Iterator[tuple[Key, Mark]]:
        """Yield what comes with a whole directory, by key."""
        prefix = self.key.path + b"/"
        return ((Key(self.key.root, prefix + path), mark) for path, mark in self.whole)

    def parted(self, known: frozenset[Key], digests: tuple[str, ...]) -> tuple["Op", ...]:
        """Return operations, one for each thing, that together are this one; `known`: the changes.

        The first takes its place. A directory that is no change itself only serves what is in it.
        """
        more = (
            Op(
                self.act,
                key,
                f"{self.slot}.{number}",
                new,
                None,
                told,
                is_loose=new.type is FileType.DIRECTORY and key not in known,
            )
            for number, ((key, new), told) in enumerate(zip(self.below(), digests, strict=True))
        )
        return replace(self, whole=(), is_loose=True), *more


class Place(StrEnum):
    """How far the drive of one operation got, as the disk tells it."""

    STILL = "still"  # it has not happened, or the user has taken away what it brought: nothing of it is to be taken back
    DRIVEN = "driven"
    STRANGE = "strange"  # the user has put something of his own in the way


def place(op: Op, at: Entry | None, in_slot: Entry | None, *, is_forward: bool) -> Place:
    """Tell how far a drive got from what is at the operation's path and what is in its slot.

    What a drive takes away need not be what the journal says: killed between a move and its check, the slot holds what the
    user saved in the last instant, and that is what must go back.
    """
    arriving, leaving = (op.new, op.old) if is_forward else (op.old, op.new)
    match op.act:
        case Act.PRUNE:
            if at is not None and at.type is not FileType.DIRECTORY:
                return Place.STRANGE
            return Place.DRIVEN if (at is None) == is_forward else Place.STILL
        case Act.MODE:
            return _in_mode(at, arriving, leaving)
        case _:
            return _moved(at, in_slot, arriving, leaving)


def _moved(at: Entry | None, in_slot: Entry | None, arriving: Mark | None, leaving: Mark | None) -> Place:
    if arriving is None:  # only something that leaves for the slot
        if in_slot is None:
            return Place.STILL
        return Place.DRIVEN if at is None else Place.STRANGE
    if arriving.is_(in_slot) or (leaving is not None and leaving.is_(at)):
        return Place.STILL
    if arriving.is_(at) and (in_slot is None) == (leaving is None):
        return Place.DRIVEN
    return Place.STILL if at is None and in_slot is None and leaving is None else Place.STRANGE


def _in_mode(at: Entry | None, arriving: Mark | None, leaving: Mark | None) -> Place:
    for wanted, where in ((leaving, Place.STILL), (arriving, Place.DRIVEN)):
        if wanted is not None and wanted.is_(at) and at is not None and at.mode == wanted.mode:
            return where
    return Place.STRANGE if at is not None else Place.DRIVEN  # it may have moved away, and come back before its turn


# Phases


@dataclass(frozen=True, slots=True)
class Instead:
    """What an undo drives instead of an operation where the user has changed what the merge left.

    `op`: its `new` is the user's file, its `old` the same without what the merge did. `agent`: where what the merge had
    brought is kept for the session, "" where the session has it otherwise.
    """

    number: int
    op: Op
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Replaced:
    """An operation instead of which another stands, and what the merge left at its path; see `Instead`."""

    op: Op
    found: Mark | None
    agent: str


@dataclass(frozen=True, slots=True)
class Reached:
    """How a phase ended. `stopped`: operations that were not done, and why. `found`: what stands at the paths now."""

    stopped: dict[int, str] = field(default_factory=dict)
    found: dict[int, Mark | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Phase:
    """One drive: `why` it was begun (merge, undo, redo), its operations by number, and whether forward."""

    why: str
    numbers: tuple[int, ...]
    is_forward: bool
    time: int = 0
    reached: Reached | None = None
    is_settled: bool = False  # the session and the copies that are kept agree with the tree
    instead: tuple[Instead, ...] = ()

    def with_parts(self, number: int, marks: Mapping[int, Mark | None]) -> "Phase":
        """Return the phase with more operations, which went as one of its own did; their marks by number."""
        if number not in self.numbers:
            return self
        reached = self.reached
        if reached is not None and number in reached.stopped:
            reached = replace(reached, stopped=reached.stopped | dict.fromkeys(marks, reached.stopped[number]))
        elif reached is not None:
            found = marks if reached.found.get(number) is not None else dict.fromkeys(marks)
            reached = replace(reached, found=reached.found | dict(found))
        return replace(self, numbers=(*self.numbers, *marks), reached=reached)


@dataclass(frozen=True, slots=True)
class RefMove:
    """A ref of the user's that leads elsewhere afterwards. Ids in hex, "" for nothing."""

    name: str
    old: str
    new: str

    def reversed(self) -> "RefMove":
        """Return the way back."""
        return RefMove(self.name, self.new, self.old)


@dataclass(frozen=True, slots=True)
class IndexMove:
    """A path of the user's index that holds something else afterwards. Modes as git has them, 0 for nothing."""

    path: bytes
    old: tuple[int, str]
    new: tuple[int, str]


@dataclass(frozen=True, slots=True)
class GitSide:
    """What a merge moves in the user's git: refs, by compare-and-swap and as the very last, and the index.

    That the refs have moved is what decides after a crash. `index`: the number of the operation that replaces it, -1 for
    none; `entries` what is other in it. `git`: the program, and what its environment must hold. `has_more`: the session
    has commits that did not come.
    """

    folder: str
    git: str
    environ: tuple[tuple[str, str], ...]
    refs: tuple[RefMove, ...]
    index: int = -1
    entries: tuple[IndexMove, ...] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """What a merge is about. `roots`: path, device and inode of each; `stages`: where each root's slots lie ("": nowhere).

    `git`: a git dir whose index is replaced too; it is the last root then, and no root of the session's. `boot`: the kernel's
    id of its start: devices have other numbers after another one.
    """

    id: str
    session: str
    roots: tuple[tuple[str, int, int], ...]
    stages: tuple[str, ...]
    time: int
    git: str = ""
    boot: str = ""

    def is_root(self, number: int, device: int, inode: int, boot: str) -> bool:
        """Whether a directory is the root that it was: by its inode, and by its device too while the numbers of those stay."""
        _, was_device, was_inode = self.roots[number]
        return inode == was_inode and (device == was_device or boot != self.boot)

    @property
    def session_roots(self) -> int:
        """How many of the roots are the session's."""
        return len(self.roots) - bool(self.git)


class Verdict(StrEnum):
    """What must happen to a journal before anything else happens to its tree."""

    CLEAN = "clean"
    FORGET = "forget"  # nothing was touched: what was staged goes
    ROLL_BACK = "roll back"  # the last phase did not reach its end
    FINISH = "finish"  # it did, and only the session and what is kept are behind


@dataclass(frozen=True, slots=True)
class Journal:
    """What a journal says. `rows`: the changes that were taken, as plain data for the session's side."""

    begin: Begin | None = None
    ops: tuple[Op, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    phases: tuple[Phase, ...] = ()
    places: frozenset[str] = frozenset()  # wherever stages have been
    adopted: tuple[tuple[Key, str], ...] = ()  # what was moved from the session into slots, not copied
    begun: int = 0  # how many phases were begun, those that were driven back too
    chain: int = 0  # the checksum of the last line
    git: GitSide | None = None
    replaced: Mapping[int, Replaced] = field(default_factory=dict)  # by operation, until a redo or a rollback

    @property
    def verdict(self) -> Verdict:
        """What must happen next."""
        if not self.phases:
            return Verdict.FORGET
        last = self.phases[-1]
        if last.reached is None:
            return Verdict.ROLL_BACK
        return Verdict.CLEAN if last.is_settled else Verdict.FINISH

    def with_phase(self, phase: Phase) -> "Journal":
        """Return the journal with one more phase begun."""
        ops, replaced = self.ops, self.replaced
        if phase.instead:
            found = self.found()
            own = {one.number: Replaced(ops[one.number], found.get(one.number), one.agent) for one in phase.instead}
            others = {one.number: one.op for one in phase.instead}
            ops, replaced = tuple(others.get(number, op) for number, op in enumerate(ops)), {**replaced, **own}
        return replace(self, ops=ops, replaced=replaced, phases=(*self.phases, phase), begun=self.begun + 1)

    def with_reached(self, reached: Reached) -> "Journal":
        """Return the journal with its last phase ended. After a redo all is as it was before other operations were driven."""
        *before, last = self.phases
        driven = last.numbers if last.is_forward else (one.number for one in last.instead)
        over = [number for number in driven if number in self.replaced and (number in reached.stopped) != last.is_forward]
        if over:
            reached = replace(reached, found=reached.found | {number: self.replaced[number].found for number in over})
        return replace(self._with_own(over), phases=(*before, replace(last, reached=reached)))

    def driven_back(self) -> "Journal":
        """Return the journal as if its last phase had never begun."""
        *before, last = self.phases
        return replace(self._with_own(one.number for one in last.instead), phases=tuple(before))

    def _with_own(self, numbers: Iterable[int]) -> "Journal":
        own = {number: self.replaced[number].op for number in numbers}
        if not own:
            return self
        ops = tuple(own.get(number, op) for number, op in enumerate(self.ops))
        return replace(self, ops=ops, replaced={number: one for number, one in self.replaced.items() if number not in own})

    def parted(self, number: int, digests: tuple[str, ...]) -> "Journal":
        """Return the journal with one whole directory as many operations; what was done with it was done with each."""
        known = frozenset(Key(row["root"], row["path"].encode("utf-8", "surrogateescape")) for row in self.rows)
        first, *more = self.ops[number].parted(known, digests)
        numbers = tuple(range(len(self.ops), len(self.ops) + len(more)))
        marks = {one: op.new for one, op in zip(numbers, more, strict=True)}
        ops = (*self.ops[:number], first, *self.ops[number + 1 :], *more)
        phases = tuple(phase.with_parts(number, marks) for phase in self.phases)
        adopted = (*self.adopted, *((op.key, op.slot) for op in more)) if self.adopted else ()
        return replace(self, ops=ops, phases=phases, adopted=adopted)

    @property
    def stands(self) -> bool:
        """Whether the last phase that reached its end brought things, and took none back."""
        ended = [phase for phase in self.phases if phase.reached is not None]
        return bool(ended) and ended[-1].is_forward

    def moves_refs(self, *, is_forward: bool) -> bool:
        """Whether a drive moves the user's refs: not one that takes back, or does again, what an earlier one had to leave."""
        return self.git is not None and self.stands != is_forward

    def done(self) -> frozenset[int]:
        """Return the numbers of the operations that stand after, by the phases that reached their end."""
        after: set[int] = set()
        for phase in self.phases:
            if phase.reached is not None:
                moved = set(phase.numbers) - phase.reached.stopped.keys()
                after = after | moved if phase.is_forward else after - moved
        return frozenset(after)

    def found(self) -> dict[int, Mark | None]:
        """Return what stood at the operations' paths when each was last driven to an end."""
        seen: dict[int, Mark | None] = {}
        for phase in self.phases:
            if phase.reached is not None:
                seen |= phase.reached.found
        return seen
