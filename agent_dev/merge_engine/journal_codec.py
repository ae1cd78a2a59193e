"""A journal as it is written: records of it as lines, and what all of them say together.

One record is one line: a CRC-32 as eight hex digits, a space, JSON, a newline. The sum goes on from that of the line before,
so that a line that is missing, doubled or out of its place is damage too.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent_dev.merge_engine.journal import Act, Begin, GitSide, IndexMove, Instead, Journal, Mark, Op, Phase, Reached, RefMove
from agent_dev.overlay.changes import FileType, Key, Kind

VERSION = 1


class CorruptJournalError(ValueError):
    """A journal holds what no crash can have left there."""


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
        "boot": begin.boot,
        **({"git": begin.git} if begin.git else {}),
    }


def adopt_record(adopted: tuple[tuple[Key, str], ...]) -> dict[str, Any]:
    """Return the record of what will be moved from the session into slots: written before the first move."""
    return {"record": "adopt", "slots": [[key.root, _text(key.path), slot] for key, slot in adopted]}


def intent_record(ops: tuple[Op, ...], rows: tuple[Mapping[str, Any], ...], git: GitSide | None = None) -> dict[str, Any]:
    """Return the record of all operations: from here on each may have happened."""
    implied = {(op.key.root, _text(key.path)): new.type for op in ops if op.whole for key, new in op.below()}
    own = [row for row in rows if not _is_implied(row, implied)] if implied else list(rows)
    said: dict[str, Any] = {"record": "intent", "ops": [_op_row(op) for op in ops], "rows": own}
    if len(own) < len(rows):
        said["implies"] = len(rows) - len(own)
    return said if git is None else {**said, "git": _git_row(git)}


def _is_implied(row: Mapping[str, Any], implied: Mapping[tuple[int, str], FileType]) -> bool:
    """Whether a row says only what the whole directory says with which its path comes."""
    kind = implied.get((row["root"], row["path"]))
    return kind is not None and kind is not FileType.DIRECTORY and row == _row_within(row["root"], row["path"], kind)


def _row_within(root: int, path: str, kind: str) -> dict[str, Any]:
    how = {"merged": False, "dropped": False, "apart": False}
    return {"root": root, "path": path, "kind": Kind.ADDED, **how, "before": None, "after": kind}


def _rows_within(ops: tuple[Op, ...], rows: tuple[dict[str, Any], ...]) -> Iterator[dict[str, Any]]:
    """Yield the rows that were implied when a journal was written."""
    said = {(row["root"], row["path"]) for row in rows}
    for op in ops:
        for key, new in op.below():
            path = _text(key.path)
            if new.type is not FileType.DIRECTORY and (key.root, path) not in said:
                yield _row_within(key.root, path, new.type)


def _git_row(git: GitSide) -> dict[str, Any]:
    return {
        "folder": git.folder,
        "git": git.git,
        "environ": git.environ,
        "refs": [[one.name, one.old, one.new] for one in git.refs],
        "index": git.index,
        "entries": [[_text(one.path), *one.old, *one.new] for one in git.entries],
        "more": git.has_more,
    }


def _git(row: Mapping[str, Any]) -> GitSide:
    entries = (IndexMove(_bytes(path), (int(a), str(b)), (int(c), str(d))) for path, a, b, c, d in row["entries"])
    return GitSide(
        str(row["folder"]),
        str(row["git"]),
        tuple((str(key), str(value)) for key, value in row["environ"]),
        tuple(RefMove(str(name), str(old), str(new)) for name, old, new in row["refs"]),
        int(row["index"]),
        tuple(entries),
        has_more=bool(row["more"]),
    )


def phase_record(phase: Phase) -> dict[str, Any]:
    """Return the record that begins a phase; of another kind where it drives other operations than the merge did."""
    said = {"record": "phase", "why": phase.why, "ops": phase.numbers, "forward": phase.is_forward, "time": phase.time}
    others = [[one.number, one.op.slot, _mark_row(one.op.new), _mark_row(one.op.old), one.agent] for one in phase.instead]
    return said | {"record": "instead", "instead": others} if others else said


def reached_record(reached: Reached) -> dict[str, Any]:
    """Return the commit mark of a phase."""
    found = [[number, _mark_row(mark)] for number, mark in reached.found.items()]
    return {"record": "reached", "stopped": list(reached.stopped.items()), "found": found}


SETTLED = {"record": "settled"}
BACK: dict[str, Any] = {"record": "back"}  # the last phase was driven back to where it began


def back_record(found: Mapping[int, Mark]) -> dict[str, Any]:
    """Return the record that the last phase was driven back; `found`: what stands again, with another ctime, by operation."""
    return BACK | ({"found": [[number, _mark_row(mark)] for number, mark in found.items()]} if found else {})


def moved_record(stages: tuple[str, ...], marks: Mapping[int, tuple[Mark | None, Mark | None]]) -> dict[str, Any]:
    """Return the record of slots that lie elsewhere now, or hold copies: new and old marks by operation."""
    rows = [[number, _mark_row(new), _mark_row(old)] for number, (new, old) in marks.items()]
    return {"record": "moved", "stages": stages, "marks": rows}


def parted_record(number: int, digests: tuple[str, ...]) -> dict[str, Any]:
    """Return the record after which a whole directory is many operations: the user has changed something in it.

    `digests`: of what it brought, "" for what is no file or is changed already.
    """
    return {"record": "parted", "op": number, "digests": digests}


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _bytes(path: str) -> bytes:
    """Return a path below a root; one that leads anywhere else was written by nobody who keeps journals."""
    found = path.encode("utf-8", "surrogateescape")
    if found and not _is_below(found):
        raise CorruptJournalError(f"{path!r} is no path below a root")
    return found


def _slot(name: str) -> str:
    if "/" in name or (name and not _is_below(name.encode("utf-8", "surrogateescape"))):
        raise CorruptJournalError(f"{name!r} is no slot")
    return name


def _is_below(path: bytes) -> bool:
    inside = b"/%b/" % path
    return not any(bad in inside for bad in (b"//", b"/./", b"/../", b"\0"))


def _op_row(op: Op) -> list[Any]:
    row = [op.act, op.key.root, _text(op.key.path), op.slot, _mark_row(op.new), _mark_row(op.old), op.digest, int(op.is_loose)]
    return [*row, [[_text(path), _mark_row(mark)] for path, mark in op.whole]] if op.whole else row


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
    adopted = tuple((Key(root, _bytes(path)), _slot(slot)) for root, path, slot in record["slots"])
    return replace(journal, adopted=journal.adopted + adopted)


def _with_intent(journal: Journal, record: dict[str, Any]) -> Journal:
    git = _git(record["git"]) if "git" in record else None
    ops, rows = tuple(map(_op, record["ops"])), tuple(record["rows"])
    return replace(journal, ops=ops, rows=(*rows, *_rows_within(ops, rows)) if record.get("implies") else rows, git=git)


def _with_parts(journal: Journal, record: dict[str, Any]) -> Journal:
    number = int(record["op"])
    if not 0 <= number < len(journal.ops) or not journal.ops[number].whole:
        raise CorruptJournalError("what is no whole directory was parted")
    return journal.parted(number, tuple(map(str, record["digests"])))


def _with_phase(journal: Journal, record: dict[str, Any]) -> Journal:
    numbers = tuple(record["ops"])
    if any(not 0 <= number < len(journal.ops) for number in numbers) or _is_open(journal):
        raise CorruptJournalError("a phase stands where it cannot")
    instead = tuple(_instead(journal, row) for row in record.get("instead", ()))
    phase = Phase(record["why"], numbers, bool(record["forward"]), record["time"], instead=instead)
    if instead and (phase.is_forward or not {one.number for one in instead} <= set(numbers)):
        raise CorruptJournalError("what is not undone was replaced")
    return journal.with_phase(phase)


def _instead(journal: Journal, row: list[Any]) -> Instead:
    number, slot, new, old, agent = row
    op = journal.ops[number]
    if op.act is not Act.EXCHANGE or number in journal.replaced or new is None or old is None:
        raise CorruptJournalError("what does not change places was replaced")
    return Instead(number, replace(op, slot=_slot(slot), new=_mark(new), old=_mark(old), digest=""), _slot(agent))


def _is_open(journal: Journal) -> bool:
    return bool(journal.phases) and not journal.phases[-1].is_settled


def _begin(record: dict[str, Any]) -> Begin:
    if record["version"] != VERSION:
        raise CorruptJournalError(f"it has version {record['version']}: another version of agent-dev made it")
    roots = tuple((str(path), int(device), int(inode)) for path, device, inode in record["roots"])
    stages = tuple(map(str, record["stages"]))
    told = (str(record.get("git", "")), str(record.get("boot", "")))
    return Begin(str(record["id"]), str(record["session"]), roots, stages, int(record["time"]), *told)


def _with_end(journal: Journal, record: dict[str, Any]) -> Journal:
    if not _is_open(journal):
        raise CorruptJournalError("the end of a phase stands where none is open")
    *before, last = journal.phases
    if record["record"] == "back":
        if last.reached is not None:
            raise CorruptJournalError("a phase that ended was driven back")
        return _seen_again(journal.driven_back(), record)
    if (record["record"] == "reached") != (last.reached is None):
        raise CorruptJournalError("a phase ends twice")
    if record["record"] == "settled":
        return replace(journal, phases=(*before, replace(last, is_settled=True)))
    stopped = {int(number): str(why) for number, why in record["stopped"]}
    found = {int(number): _mark(row) for number, row in record["found"]}
    return journal.with_reached(Reached(stopped, found))


def _seen_again(journal: Journal, record: dict[str, Any]) -> Journal:
    """Return the journal with what stands at paths to which a phase that was driven back has brought it again."""
    found = {int(number): _mark(row) for number, row in record.get("found", ())}
    if not found:
        return journal
    if not journal.phases or (reached := journal.phases[-1].reached) is None:
        raise CorruptJournalError("a phase was driven back to where none had ended")
    return journal.with_reached(replace(reached, found=reached.found | found))


def _with_moved(journal: Journal, record: dict[str, Any]) -> Journal:
    if journal.begin is None:
        raise CorruptJournalError("slots moved before there were any")
    ops = list(journal.ops)
    for number, new, old in record["marks"]:
        ops[number] = replace(ops[number], new=_mark(new), old=_mark(old))
    stages = tuple(map(str, record["stages"]))
    return replace(journal, ops=tuple(ops), begin=replace(journal.begin, stages=stages), places=journal.places | set(stages))


def _op(row: list[Any]) -> Op:
    act, root, path, slot, new, old, digest, is_loose, *rest = row
    whole = tuple((_bytes(below), _known(_mark(one))) for below, one in rest[0]) if rest else ()
    return Op(
        Act(act),
        Key(int(root), _bytes(path)),
        _slot(slot),
        _mark(new),
        _mark(old),
        str(digest),
        bool(is_loose),
        whole,
    )


def _known(mark: Mark | None) -> Mark:
    if mark is None:
        raise CorruptJournalError("a whole directory holds nothing")
    return mark


def _mark(row: list[Any] | None) -> Mark | None:
    if row is None:
        return None
    kind, inode, size, mtime, ctime, mode, *rest = row
    attributes = tuple((str(name), bytes.fromhex(value)) for name, value in rest[0]) if rest else ()
    return Mark(_TYPES[kind], inode, size, mtime, ctime, mode, attributes)


_TYPES = {str(kind): kind for kind in FileType}


_RECORDS: dict[str, Callable[[Journal, dict[str, Any]], Journal]] = {
    "begin": _with_begin,
    "adopt": _with_adopted,
    "intent": _with_intent,
    "phase": _with_phase,
    "instead": _with_phase,
    "parted": _with_parts,
    "moved": _with_moved,
    "reached": _with_end,
    "back": _with_end,
    "settled": _with_end,
}
