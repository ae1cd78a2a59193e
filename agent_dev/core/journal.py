"""A merge's journal: its operations, how far they got, and what its records say must happen next (DESIGN.md section 6).

Every operation moves whole things between a path of a real tree and a numbered slot of a staging directory, or gives a
directory another mode. So it is either *before* or *after*, which of the two the inodes tell, and it can be driven both
ways: a merge drives operations forward, a rollback and an undo drive them back, a redo forward again. Each drive is a
phase: it begins with a record of what it will do and ends with one of what it reached.

One record is one line: a CRC-32 as eight hex digits, a space, JSON, a newline. The sum goes on from that of the line before,
so that a line that is missing, doubled or out of its place is damage too.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from agent_dev.core.changes import Entry, FileType, Key

VERSION = 1


class CorruptJournalError(ValueError):
    """A journal holds what no crash can have left there."""


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
    """

    act: Act
    key: Key
    slot: str = ""
    new: Mark | None = None
    old: Mark | None = None
    digest: str = ""
    is_loose: bool = False


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


@dataclass(frozen=True, slots=True)
class Begin:
    """What a merge is about. `roots`: path, device and inode of each; `stages`: where each root's slots lie ("": nowhere)."""

    id: str
    session: str
    roots: tuple[tuple[str, int, int], ...]
    stages: tuple[str, ...]
    time: int


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

    @property
    def verdict(self) -> Verdict:
        """What must happen next."""
        if not self.phases:
            return Verdict.FORGET
        last = self.phases[-1]
        if last.reached is None:
            return Verdict.ROLL_BACK
        return Verdict.CLEAN if last.is_settled else Verdict.FINISH

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


# Records


def line(record: Mapping[str, Any], chain: int) -> bytes:
    """Return a record as it is written behind a line with the checksum `chain` (0 at the start)."""
    body = json.dumps(record, separators=(",", ":")).encode("ascii")
    return b"%08x %b\n" % (zlib.crc32(body, chain), body)


def chain_of(line: bytes) -> int:
    """Return a line's checksum."""
    return int(line[:8], 16)


def begin_record(begin: Begin) -> dict[str, Any]:
    """Return the first record: written before anything is staged, so that staged things are always found again."""
    return {
        "record": "begin",
        "version": VERSION,
        "id": begin.id,
        "session": begin.session,
        "roots": begin.roots,
        "stages": begin.stages,
        "time": begin.time,
    }


def adopt_record(adopted: tuple[tuple[Key, str], ...]) -> dict[str, Any]:
    """Return the record of what will be moved from the session into slots: written before the first move."""
    return {"record": "adopt", "slots": [[key.root, _text(key.path), slot] for key, slot in adopted]}


def intent_record(ops: tuple[Op, ...], rows: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Return the record of all operations: from here on each may have happened."""
    return {"record": "intent", "ops": [_op_row(op) for op in ops], "rows": rows}


def phase_record(phase: Phase) -> dict[str, Any]:
    """Return the record that begins a phase."""
    return {"record": "phase", "why": phase.why, "ops": phase.numbers, "forward": phase.is_forward, "time": phase.time}


def reached_record(reached: Reached) -> dict[str, Any]:
    """Return the commit mark of a phase."""
    found = [[number, _mark_row(mark)] for number, mark in reached.found.items()]
    return {"record": "reached", "stopped": list(reached.stopped.items()), "found": found}


BACK = {"record": "back"}  # the last phase was driven back to where it began
SETTLED = {"record": "settled"}


def moved_record(stages: tuple[str, ...], marks: Mapping[int, tuple[Mark | None, Mark | None]]) -> dict[str, Any]:
    """Return the record of slots that lie elsewhere now, or hold copies: new and old marks by operation."""
    rows = [[number, _mark_row(new), _mark_row(old)] for number, (new, old) in marks.items()]
    return {"record": "moved", "stages": stages, "marks": rows}


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _op_row(op: Op) -> list[Any]:
    return [op.act, op.key.root, _text(op.key.path), op.slot, _mark_row(op.new), _mark_row(op.old), op.digest, int(op.is_loose)]


def _mark_row(mark: Mark | None) -> list[Any] | None:
    if mark is None:
        return None
    row: list[Any] = [mark.type, mark.inode, mark.size, mark.mtime, mark.ctime, mark.mode]
    return [*row, [[name, value.hex()] for name, value in mark.attributes]] if mark.attributes else row


def read(data: bytes) -> Journal:
    """Return what a journal says. Raises CorruptJournalError for what no crash leaves.

    A crash leaves a last line without its end; every line that has one must be what was written.
    """
    journal = Journal()
    pieces = data.split(b"\n")
    tail = pieces.pop()
    for piece in pieces:
        journal = after(journal, piece)
    if _record(tail, journal.chain) is not None:
        return after(journal, tail)
    if _record(tail[:-1], journal.chain) is not None:
        raise CorruptJournalError("the end of its last line is damaged")
    return journal


def after(journal: Journal, line: bytes) -> Journal:
    """Return what a journal says with one line more. Raises CorruptJournalError."""
    record = _record(line.rstrip(b"\n"), journal.chain)
    if record is None:
        raise CorruptJournalError("a line is damaged")
    try:
        return replace(_after(journal, record), chain=chain_of(line))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, CorruptJournalError):
            raise
        raise CorruptJournalError(f"a line cannot be understood ({error})") from error


def torn(data: bytes) -> tuple[int, bool]:
    """Return how much of a journal a crash left whole, and whether only the end of its last line is missing."""
    whole = data.rfind(b"\n") + 1
    chain = read(data[:whole]).chain
    if whole < len(data) and _record(data[whole:], chain) is not None:
        return len(data), True
    return whole, False


def _record(piece: bytes, chain: int) -> dict[str, Any] | None:
    head, _, body = piece.partition(b" ")
    if len(head) != 8 or head != b"%08x" % zlib.crc32(body, chain):
        return None
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _after(journal: Journal, record: dict[str, Any]) -> Journal:
    kind = record["record"]
    if (kind == "begin") != (journal.begin is None) or (kind in ("intent", "adopt") and journal.ops):
        raise CorruptJournalError(f"a record `{kind}` stands where it cannot")
    act = _RECORDS.get(kind)
    if act is None:
        raise CorruptJournalError(f"a record `{kind}` is not known")
    return act(journal, record)


def _with_begin(journal: Journal, record: dict[str, Any]) -> Journal:
    begin = _begin(record)
    return replace(journal, begin=begin, places=frozenset(begin.stages))


def _with_adopted(journal: Journal, record: dict[str, Any]) -> Journal:
    adopted = tuple((Key(root, _bytes(path)), str(slot)) for root, path, slot in record["slots"])
    return replace(journal, adopted=journal.adopted + adopted)


def _with_intent(journal: Journal, record: dict[str, Any]) -> Journal:
    return replace(journal, ops=tuple(map(_op, record["ops"])), rows=tuple(record["rows"]))


def _with_phase(journal: Journal, record: dict[str, Any]) -> Journal:
    numbers = tuple(record["ops"])
    if any(not 0 <= number < len(journal.ops) for number in numbers) or _is_open(journal):
        raise CorruptJournalError("a phase stands where it cannot")
    phase = Phase(record["why"], numbers, bool(record["forward"]), record["time"])
    return replace(journal, phases=(*journal.phases, phase), begun=journal.begun + 1)


def _is_open(journal: Journal) -> bool:
    return bool(journal.phases) and not journal.phases[-1].is_settled


def _begin(record: dict[str, Any]) -> Begin:
    if record["version"] != VERSION:
        raise CorruptJournalError(f"it has version {record['version']}: another version of agent-dev made it")
    roots = tuple((str(path), int(device), int(inode)) for path, device, inode in record["roots"])
    return Begin(str(record["id"]), str(record["session"]), roots, tuple(map(str, record["stages"])), int(record["time"]))


def _with_end(journal: Journal, record: dict[str, Any]) -> Journal:
    if not _is_open(journal):
        raise CorruptJournalError("the end of a phase stands where none is open")
    *before, last = journal.phases
    if record["record"] == "back":
        if last.reached is not None:
            raise CorruptJournalError("a phase that ended was driven back")
        return replace(journal, phases=tuple(before))
    if (record["record"] == "reached") != (last.reached is None):
        raise CorruptJournalError("a phase ends twice")
    if record["record"] == "settled":
        return replace(journal, phases=(*before, replace(last, is_settled=True)))
    stopped = {int(number): str(why) for number, why in record["stopped"]}
    found = {int(number): _mark(row) for number, row in record["found"]}
    return replace(journal, phases=(*before, replace(last, reached=Reached(stopped, found))))


def _with_moved(journal: Journal, record: dict[str, Any]) -> Journal:
    if journal.begin is None:
        raise CorruptJournalError("slots moved before there were any")
    ops = list(journal.ops)
    for number, new, old in record["marks"]:
        ops[number] = replace(ops[number], new=_mark(new), old=_mark(old))
    stages = tuple(map(str, record["stages"]))
    return replace(journal, ops=tuple(ops), begin=replace(journal.begin, stages=stages), places=journal.places | set(stages))


def _op(row: list[Any]) -> Op:
    act, root, path, slot, new, old, digest, is_loose = row
    return Op(
        Act(act),
        Key(int(root), _bytes(path)),
        str(slot),
        _mark(new),
        _mark(old),
        str(digest),
        bool(is_loose),
    )


def _mark(row: list[Any] | None) -> Mark | None:
    if row is None:
        return None
    kind, inode, size, mtime, ctime, mode, *rest = row
    attributes = tuple((str(name), bytes.fromhex(value)) for name, value in rest[0]) if rest else ()
    return Mark(_TYPES[kind], inode, size, mtime, ctime, mode, attributes)


_TYPES = {str(kind): kind for kind in FileType}
_ACTS = {str(act): act for act in Act}


_RECORDS: dict[str, Callable[[Journal, dict[str, Any]], Journal]] = {
    "begin": _with_begin,
    "adopt": _with_adopted,
    "intent": _with_intent,
    "phase": _with_phase,
    "moved": _with_moved,
    "reached": _with_end,
    "back": _with_end,
    "settled": _with_end,
}
