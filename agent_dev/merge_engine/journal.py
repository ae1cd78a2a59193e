"""A merge's journal: its operations, their progress, and the next action that it requires (decision 0010).

Every operation moves whole entries between a path of a real tree and a numbered slot of a staging directory, or changes a
directory's mode. So it is either *before* or *after*, which the inodes tell, and it can run in both directions: a merge runs
operations forward, a rollback and an undo backward, a redo forward again. Each run is a phase: it begins with a record of its
operations and ends with a record of its result.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import chain
from typing import Any

from agent_dev.fs.entry import Entry, FileType, Key, parents_of
from agent_dev.git.updates import GitUpdate
from agent_dev.overlay.changes import Change
from agent_dev.quick_dataclass import dataclass, field, replace


class OpKind(StrEnum):
    """The effect of an operation that runs forward."""

    ATTACH = "attach"  # slot → path, which does not exist
    DETACH = "detach"  # path → slot, which is empty
    EXCHANGE = "exchange"  # slot ↔ path
    PRUNE = "prune"  # remove an empty directory
    MODE = "mode"  # change a directory's mode and attributes


# A fingerprint of an entry: enough to recognize it after a rename, which changes only its ctime (`Entry.matches`).
# `attributes` and the mtime of a directory are used only to recreate it; other marks have no attributes, and none has a target.
EntryMark = Entry


def entry_mark(entry: Entry) -> EntryMark:
    """Return the mark of an entry: the usual entry itself, because 200,000 copies need 16 MB."""
    if entry.is_plain:
        return entry
    own = entry.attributes if entry.type is FileType.DIRECTORY else ()
    return EntryMark(entry.type, entry.mode, entry.size, entry.inode, entry.mtime, entry.ctime, attributes=own)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `new` is the entry at the path after it, `old` the one before it; None for no entry.

    `slot`: the name in its root's staging directory. `digest`: SHA-256 of the new content, empty if there is none.
    `is_auxiliary`: an auxiliary operation, skipped if a directory exists already or is not empty.
    `attributes_digest`: a digest of the new entry's attributes and ACLs, "" if not recorded.
    `members`: the content of a new directory that is moved as a whole, by relative path, parents before children.
    """

    kind: OpKind
    key: Key
    slot: str = ""
    new: EntryMark | None = None
    old: EntryMark | None = None
    digest: bytes = b""
    is_auxiliary: bool = False
    members: tuple[tuple[bytes, EntryMark], ...] = ()
    attributes_digest: str = ""

    def member_marks(self) -> Iterator[tuple[Key, EntryMark]]:
        """Yield the content of a whole directory by key."""
        prefix = self.key.path + b"/"
        return ((Key(self.key.root, prefix + path), mark) for path, mark in self.members)

    def split(self, known: frozenset[Key], digests: tuple[bytes, ...]) -> tuple["Operation", ...]:
        """Return one operation per entry that together equal this one; `known`: the keys of the changes.

        The first one replaces this operation. A directory that is not a change itself is auxiliary.
        """
        more = (
            Operation(
                self.kind,
                key,
                f"{self.slot}.{number}",
                new,
                None,
                digest,
                is_auxiliary=new.type is FileType.DIRECTORY and key not in known,
            )
            for number, ((key, new), digest) in enumerate(zip(self.member_marks(), digests, strict=True))
        )
        return replace(self, members=(), is_auxiliary=True), *more


class MemberMarks:
    """The marks of the entries in whole directories, without a key for each: 100,000 would need 13 MB."""

    def __init__(self, ops: Iterable[Operation]) -> None:
        self._marks = {op.key: dict(op.members) for op in ops if op.members}

    def get(self, key: Key) -> EntryMark | None:
        """Return the mark of the entry at a path in a whole directory; None for a path outside all, and for one itself."""
        if self._marks:
            for folder in parents_of(key.path):
                marks = self._marks.get(Key(key.root, folder))
                if marks is not None:
                    return marks.get(key.path[len(folder) + 1 :])
        return None


class OpProgress(StrEnum):
    """The progress of one operation in a phase, as found on disk."""

    NOT_RUN = "still"  # the operation did not run, or the user removed its result: nothing to roll back
    DONE = "driven"
    UNEXPECTED = "strange"  # the user has created another entry there


def op_progress(op: Operation, at: Entry | None, in_slot: Entry | None, *, is_forward: bool) -> OpProgress:
    """Determine the progress of an operation from the entries at its path and in its slot.

    The removed entry may differ from the journal: if a run was killed between a move and its check, the slot has what the user
    saved in the last instant, and that must be moved back.
    """
    arriving, leaving = (op.new, op.old) if is_forward else (op.old, op.new)
    match op.kind:
        case OpKind.PRUNE:
            if at is not None and at.type is not FileType.DIRECTORY:
                return OpProgress.UNEXPECTED
            return OpProgress.DONE if (at is None) == is_forward else OpProgress.NOT_RUN
        case OpKind.MODE:
            return _in_mode(at, arriving, leaving)
        case _:
            return _moved(at, in_slot, arriving, leaving)


def _moved(at: Entry | None, in_slot: Entry | None, arriving: EntryMark | None, leaving: EntryMark | None) -> OpProgress:
    if arriving is None:  # path → slot only
        if in_slot is None:
            return OpProgress.NOT_RUN
        return OpProgress.DONE if at is None else OpProgress.UNEXPECTED
    if arriving.matches(in_slot) or (leaving is not None and leaving.matches(at)):
        return OpProgress.NOT_RUN
    if arriving.matches(at) and (in_slot is None) == (leaving is None):
        return OpProgress.DONE
    return OpProgress.NOT_RUN if at is None and in_slot is None and leaving is None else OpProgress.UNEXPECTED


def _in_mode(at: Entry | None, arriving: EntryMark | None, leaving: EntryMark | None) -> OpProgress:
    for wanted, where in ((leaving, OpProgress.NOT_RUN), (arriving, OpProgress.DONE)):
        if wanted is not None and wanted.matches(at) and at is not None and at.mode == wanted.mode:
            return where
    return OpProgress.UNEXPECTED if at is not None else OpProgress.DONE  # it may have been moved, and be rolled back earlier


# Phases


@dataclass(frozen=True, slots=True)
class Substitute:
    """An operation that an undo runs in place of one whose merged file the user has changed.

    `op`: its `new` is the user's file, its `old` the same file without the merge's edit. `agent_slot`: the slot with the merged
    file for the session, "" if the session has it elsewhere.
    """

    number: int
    op: Operation
    agent_slot: str = ""


@dataclass(frozen=True, slots=True)
class ReplacedOp:
    """An operation that a substitute replaces, and the mark of the merged entry; see `Substitute`."""

    op: Operation
    mark: EntryMark | None
    agent_slot: str


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """The result of a phase. `stopped`: operations that were not done, and why. `marks`: the marks at the paths."""

    stopped: dict[int, str] = field(default_factory=dict)
    marks: dict[int, EntryMark | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Phase:
    """One run: `why` (merge, undo, redo), the numbers of its operations, and the direction."""

    why: str
    numbers: tuple[int, ...]
    is_forward: bool
    time: int = 0
    result: PhaseResult | None = None
    is_concluded: bool = False  # the session and the saved files are up to date
    substitutes: tuple[Substitute, ...] = ()

    def with_split_op(self, number: int, marks: Mapping[int, EntryMark | None]) -> "Phase":
        """Return the phase with the operations that one of its own was split into; `marks` by number."""
        if number not in self.numbers:
            return self
        result = self.result
        if result is not None and number in result.stopped:
            result = replace(result, stopped=result.stopped | dict.fromkeys(marks, result.stopped[number]))
        elif result is not None:
            found = marks if result.marks.get(number) is not None else dict.fromkeys(marks)
            result = replace(result, marks=result.marks | dict(found))
        return replace(self, numbers=(*self.numbers, *marks), result=result)

    def without_marks(self, later: Mapping[int, EntryMark | None]) -> "Phase":
        """Return the phase without the marks that a later phase replaced: those of 100,000 operations need 15 MB."""
        result = self.result
        if result is None or later.keys().isdisjoint(result.marks):
            return self
        marks = {number: mark for number, mark in result.marks.items() if number not in later}
        return replace(self, result=replace(result, marks=marks))


@dataclass(frozen=True, slots=True)
class MergeHeader:
    """The header of a merge. `roots`: path, device and inode of each; `stages`: the stage path of each root ("": none).

    `git_dirs`: git directories whose indexes are replaced too: the last roots, which are not of the session. `boot`: the kernel's
    boot id: device numbers may differ after a reboot.
    """

    id: str
    session: str
    roots: tuple[tuple[str, int, int], ...]
    stages: tuple[str, ...]
    time: int
    git_dirs: tuple[str, ...] = ()
    boot_id: str = ""

    def is_root(self, number: int, device: int, inode: int, boot: str) -> bool:
        """Return whether a directory is this root: same inode, and same device number unless the system was rebooted."""
        _, was_device, was_inode = self.roots[number]
        return inode == was_inode and (device == was_device or boot != self.boot_id)

    @property
    def session_root_count(self) -> int:
        """Return how many of the roots are the session's."""
        return len(self.roots) - len(self.git_dirs)


@dataclass(frozen=True, slots=True)
class Intent:
    """All that a merge will do, which is recorded before it begins. See `Journal` for `changes` and `kept`.

    `implied`: how many further changes whole directories imply.
    """

    ops: tuple[Operation, ...]
    changes: tuple[Change, ...] = ()
    kept: Mapping[Key, Mapping[str, Any]] = field(default_factory=dict)
    implied: int = 0
    git_updates: tuple[GitUpdate, ...] = ()


def _joined(updates: tuple[GitUpdate, ...], more: Iterable[GitUpdate]) -> tuple[GitUpdate, ...]:
    """Return git updates and more of them; those of one repository are joined."""
    found = {one.folder: one for one in updates}
    for one in more:
        known = found.get(one.folder)
        found[one.folder] = one if known is None else replace(known, index_updates=known.index_updates + one.index_updates)
    return tuple(found.values())


class MovedEntries:
    """Entries that were moved, not copied, from the session into slots; encoded, because it is rare that they are moved back."""

    def __init__(self, parts: tuple[bytes, ...] = ()) -> None:
        """Use `add` to make one that is not empty."""
        self._parts = parts

    def add(self, moves: Iterable[tuple[Key, str]]) -> "MovedEntries":
        """Return these entries and more, by key and slot."""
        rows = b"\0".join(b"%d\0%b\0%b" % (key.root, key.path, slot.encode()) for key, slot in moves)
        return MovedEntries((*self._parts, rows)) if rows else self

    def __iter__(self) -> Iterator[tuple[Key, str]]:
        for part in self._parts:
            fields = part.split(b"\0")
            for root, path, slot in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
                yield Key(int(root), path), slot.decode()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MovedEntries) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self._parts)


class NextAction(StrEnum):
    """The action that a journal requires before any other change of its tree."""

    NONE = "clean"
    DISCARD = "forget"  # nothing was changed: remove the staged content
    ROLL_BACK = "roll back"  # the last phase did not reach its end
    FINISH = "finish"  # it reached its end; only the session and the saved files are outdated


@dataclass(frozen=True, slots=True)
class Journal:
    """The state of a journal. `changes`: the applied changes, with the types of their entries alone.

    `kept`: the slots of versions that are saved for the session, and their modes. `found`: marks recorded so far by a phase that
    has not ended.
    `implying`: the operations on whole directories whose files are applied changes, too, if there is no row for them.
    """

    header: MergeHeader | None = None
    ops: tuple[Operation, ...] = ()
    changes: tuple[Change, ...] = ()
    kept: Mapping[Key, Mapping[str, Any]] = field(default_factory=dict)
    implying: tuple[Operation, ...] = ()
    phases: tuple[Phase, ...] = ()
    found: tuple[Mapping[int, EntryMark | None], ...] = ()
    stage_paths: frozenset[str] = frozenset()  # all stage paths, current and earlier
    adopted: MovedEntries = MovedEntries()
    phases_begun: int = 0  # number of phases begun, including those rolled back
    checksum: int = 0  # the checksum of the last line
    git_updates: tuple[GitUpdate, ...] = ()  # of the user's repositories
    replaced: Mapping[int, ReplacedOp] = field(default_factory=dict)  # by operation, until a redo or a rollback
    opened_directories: tuple[
        tuple[Key, int, int], ...
    ] = ()  # unreadable directories made accessible: inode and original mode, in order

    @property
    def next_action(self) -> NextAction:
        """Return the required next action."""
        if not self.phases:
            return NextAction.DISCARD
        last = self.phases[-1]
        if last.result is None:
            return NextAction.ROLL_BACK
        return NextAction.NONE if last.is_concluded else NextAction.FINISH

    def with_intent(self, intent: "Intent") -> "Journal":
        """Return the journal with more operations and changes of the merge, and with what ends them."""
        ops = self.ops + intent.ops
        return replace(
            self,
            ops=ops,
            changes=self.changes + intent.changes,
            kept={**self.kept, **intent.kept} if intent.kept else self.kept,
            implying=tuple(op for op in ops if op.members) if intent.implied else (),
            git_updates=_joined(self.git_updates, intent.git_updates),
        )

    def with_members(self, number: int, members: tuple[tuple[bytes, EntryMark], ...]) -> "Journal":
        """Return the journal with more content of a whole directory that is not applied yet."""
        op = replace(self.ops[number], members=self.ops[number].members + members)
        return replace(self, ops=(*self.ops[:number], op, *self.ops[number + 1 :]))

    def implied_files(self) -> Iterator[tuple[Key, FileType]]:
        """Yield the files of whole directories that have no row: they are new, and were applied unchanged."""
        recorded = {change.key for change in self.changes} if self.implying else ()
        for op in self.implying:
            for key, mark in op.member_marks():
                if mark.type is not FileType.DIRECTORY and key not in recorded:
                    yield key, mark.type

    def with_phase(self, phase: Phase) -> "Journal":
        """Return the journal with another phase begun."""
        ops, replaced = self.ops, self.replaced
        if phase.substitutes:
            found = self.known_marks()
            own = {one.number: ReplacedOp(ops[one.number], found.get(one.number), one.agent_slot) for one in phase.substitutes}
            others = {one.number: one.op for one in phase.substitutes}
            ops, replaced = tuple(others.get(number, op) for number, op in enumerate(ops)), {**replaced, **own}
        return replace(self, ops=ops, replaced=replaced, phases=(*self.phases, phase), phases_begun=self.phases_begun + 1)

    def with_result(self, result: PhaseResult) -> "Journal":
        """Return the journal with its last phase ended. A redo ends the substitution of operations."""
        *before, last = self.phases
        if self.found:
            result = replace(result, marks=dict(chain.from_iterable(marks.items() for marks in (*self.found, result.marks))))
        driven = last.numbers if last.is_forward else (one.number for one in last.substitutes)
        restored = [number for number in driven if number in self.replaced and (number in result.stopped) != last.is_forward]
        if restored:
            result = replace(result, marks=result.marks | {number: self.replaced[number].mark for number in restored})
        phases = (*(phase.without_marks(result.marks) for phase in before), replace(last, result=result))
        return replace(self._with_own(restored), phases=phases, found=())

    def without_last_phase(self) -> "Journal":
        """Return the journal as if its last phase had never begun."""
        *before, last = self.phases
        return replace(self._with_own(one.number for one in last.substitutes), phases=tuple(before), found=())

    def _with_own(self, numbers: Iterable[int]) -> "Journal":
        own = {number: self.replaced[number].op for number in numbers}
        if not own:
            return self
        ops = tuple(own.get(number, op) for number, op in enumerate(self.ops))
        return replace(self, ops=ops, replaced={number: one for number, one in self.replaced.items() if number not in own})

    def with_split_directory(self, number: int, digests: tuple[bytes, ...]) -> "Journal":
        """Return the journal with one whole directory split into its entries; the phases treat each as the whole."""
        known = frozenset(change.key for change in self.changes)
        first, *more = self.ops[number].split(known, digests)
        numbers = tuple(range(len(self.ops), len(self.ops) + len(more)))
        marks = {one: op.new for one, op in zip(numbers, more, strict=True)}
        ops = (*self.ops[:number], first, *self.ops[number + 1 :], *more)
        phases = tuple(phase.with_split_op(number, marks) for phase in self.phases)
        adopted = self.adopted.add((op.key, op.slot) for op in more) if self.adopted else self.adopted
        return replace(self, ops=ops, phases=phases, adopted=adopted)

    @property
    def last_phase_time(self) -> int:
        """Return when the last phase began, or the merge itself; in ns since 1970."""
        if self.phases:
            return self.phases[-1].time
        return self.header.time if self.header is not None else 0

    @property
    def is_applied(self) -> bool:
        """Return whether the last completed phase applied the merge."""
        ended = [phase for phase in self.phases if phase.result is not None]
        return bool(ended) and ended[-1].is_forward

    @property
    def declined_commits(self) -> tuple[str, ...]:
        """The agent's commits that the merge declined."""
        return tuple(oid for git in self.git_updates for oid in git.declined_commits)

    def moves_refs(self, *, is_forward: bool) -> bool:
        """Return whether a run moves the user's refs: only the first one in its direction does."""
        return bool(self.git_updates) and self.is_applied != is_forward

    def applied_ops(self) -> AbstractSet[int]:
        """Return the numbers of the operations that are applied, according to the completed phases."""
        after: set[int] = set()
        for phase in self.phases:
            if phase.result is not None:
                stopped = phase.result.stopped
                moved = (number for number in phase.numbers if number not in stopped)
                (after.update if phase.is_forward else after.difference_update)(moved)
        return after

    def known_marks(self) -> dict[int, EntryMark | None]:
        """Return the marks at the operations' paths when each was last run to completion."""
        seen: dict[int, EntryMark | None] = {}
        for phase in self.phases:
            if phase.result is not None:
                seen |= phase.result.marks
        return seen

    def known_mark_times(self) -> dict[int, int]:
        """Return when the phase began that recorded each of the `known_marks`; in ns since 1970."""
        return {number: phase.time for phase in self.phases if phase.result is not None for number in phase.result.marks}
