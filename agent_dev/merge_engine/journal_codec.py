"""The encoding of a journal: its records as lines, and the state that they describe together.

One record is one line: a CRC-32 as eight hex digits, a space, JSON, a newline. The checksum continues from the previous line's,
so a missing, duplicate or misplaced line is detected as damage too.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import file_digest
from io import BufferedReader, BytesIO
from itertools import islice
from typing import Any, TypeVar

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git.updates import NO_ENTRY, GitUpdate, IndexUpdate, RefUpdate
from agent_dev.merge_engine.journal import (
    EntryMark,
    Intent,
    Journal,
    MergeHeader,
    Operation,
    OpKind,
    Phase,
    PhaseResult,
    Substitute,
)
from agent_dev.overlay.changes import Change, ChangeKind, Resolution
from agent_dev.quick_dataclass import replace

VERSION = 1
PART = 1000  # operations, changes or marks in one record: decoding a record of 100,000 took 200 MiB

Row = TypeVar("Row")


class CorruptJournalError(ValueError):
    """A journal has content that no crash can cause."""


def encode_line(record: Mapping[str, Any], chain: int) -> bytes:
    """Return a record as the line after one with the checksum `chain` (0 for the first)."""
    body = json.dumps(record, separators=(",", ":"), default=_encode_value).encode("ascii")
    return b"%08x %b\n" % (zlib.crc32(body, chain), body)


def _encode_value(value: object) -> object:
    """Return a path or a mark as JSON values: those of a whole directory's content are encoded one at a time."""
    match value:
        case EntryMark():
            return _mark_row(value)
        case bytes():
            return _text(value)
        case _:
            raise TypeError(f"{type(value).__name__} cannot be encoded")


def line_checksum(line: bytes | memoryview) -> int:
    """Return a line's checksum."""
    return int(bytes(line[:8]), 16)


def begin_record(begin: MergeHeader) -> dict[str, Any]:
    """Return the first record, which is written before anything is staged, so that staged content is always found again."""
    return {
        "record": "begin",
        "version": VERSION,
        "id": begin.id,
        "session": begin.session,
        "roots": begin.roots,
        "stages": begin.stages,
        "time": begin.time,
        "boot": begin.boot_id,
        **({"git": begin.git_dirs} if begin.git_dirs else {}),
    }


def adopt_records(adopted: tuple[tuple[Key, str], ...]) -> Iterator[dict[str, Any]]:
    """Yield the records of the entries to move from the session into slots, which are written before the first move."""
    for part in _parts(adopted):
        yield {"record": "adopt", "slots": [[key.root, _text(key.path), slot] for key, slot in part]}


def intent_records(intent: Intent) -> Iterator[dict[str, Any]]:
    """Yield the records of what a merge will do; once a phase begins after the last one, any operation may have run."""
    for part in _parts(intent.ops):
        yield {"record": "intent", "ops": list(map(_op_row, part)), "rows": []}
    for number, op in enumerate(intent.ops):
        for start in range(PART, len(op.members), PART):
            yield {"record": "members", "op": number, "members": op.members[start : start + PART]}
    for changes in _parts(intent.changes):
        rows = [{**_change_row(change), **intent.kept.get(change.key, {})} for change in changes]
        yield {"record": "intent", "ops": [], "rows": rows}
    for git in intent.git_updates:
        for number, entries in enumerate([*_parts(git.index_updates)] or [()]):
            others = {"commits": (), "declined": ()} if number else {}  # they may be many: in the first record only
            yield {"record": "intent", "ops": [], "rows": [], "git": [_git_row(git, entries) | others]}
    if intent.implied or not (intent.ops or intent.changes or intent.git_updates):
        yield {"record": "intent", "ops": [], "rows": [], **({"implies": intent.implied} if intent.implied else {})}


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    return (rows[start : start + PART] for start in range(0, len(rows), PART))


def _change_row(change: Change) -> dict[str, object]:
    sides = {side: entry.type if entry else None for side, entry in (("before", change.before), ("after", change.after))}
    flags = {"merged": change.is_merged, "dropped": change.is_session_only, "apart": change.is_from_commit}
    origin = {"from": _text(change.renamed_from.path)} if change.renamed_from else {}
    return {"root": change.key.root, "path": _text(change.key.path), "kind": change.kind, **flags, **sides, **origin}


def _change(row: Mapping[str, Any]) -> Change:
    before, after = (_ENTRIES[row[side]] if row[side] else None for side in ("before", "after"))
    change = Change(
        _key(row["root"], row["path"]),
        _KINDS[row["kind"]],
        before,
        after,
        resolution=Resolution.YOURS if row["dropped"] else Resolution.BOTH if row["merged"] else None,
        is_from_commit=bool(row.get("apart")),
        renamed_from=_key(row["root"], row["from"]) if row.get("from") else None,
    )
    known = _shared[change.key]
    return known if isinstance(known, Change) and known == change else change


def _git_row(git: GitUpdate, index_updates: Iterable[IndexUpdate]) -> dict[str, Any]:
    return {
        "folder": git.folder,
        "git": git.program,
        "environ": git.environ,
        "refs": [[one.name, one.old, one.new] for one in git.refs],
        "index": git.index_operation,
        "entries": [[_text(one.path), *one.old, *one.new] for one in index_updates],
        "root": git.root,
        "branch": git.imported_branch,
        "commits": git.imported_commits,
        **({"declined": git.declined_commits} if git.declined_commits else {}),
    }


def _git(row: Mapping[str, Any]) -> GitUpdate:
    root = int(row.get("root", 0))
    entries = (IndexUpdate(_key(root, path).path, _blob(a, b), _blob(c, d)) for path, a, b, c, d in row["entries"])
    return GitUpdate(
        str(row["folder"]),
        str(row["git"]),
        tuple((str(key), str(value)) for key, value in row["environ"]),
        tuple(RefUpdate(str(name), str(old), str(new)) for name, old, new in row["refs"]),
        int(row["index"]),
        tuple(entries),
        root=root,
        imported_branch=(str(row.get("branch", ("", ""))[0]), str(row.get("branch", ("", ""))[1])),
        imported_commits=tuple(map(str, row.get("commits", ()))),
        declined_commits=tuple(map(str, row.get("declined", ()))),
    )


def _blob(mode: int, oid: str) -> tuple[int, str]:
    return (int(mode), str(oid)) if mode else NO_ENTRY


def phase_record(phase: Phase) -> dict[str, Any]:
    """Return the record that begins a phase; of another kind if an undo substitutes operations."""
    record = {"record": "phase", "why": phase.why, "ops": phase.numbers, "forward": phase.is_forward, "time": phase.time}
    others = [
        [one.number, one.op.slot, _mark_row(one.op.new), _mark_row(one.op.old), one.agent_slot] for one in phase.substitutes
    ]
    return record | {"record": "instead", "instead": others} if others else record


def reached_records(result: PhaseResult) -> Iterator[dict[str, Any]]:
    """Yield the records of a phase's marks, and its commit record."""
    rows = ([number, _mark_row(mark)] for number, mark in result.marks.items())
    for _ in range(PART, len(result.marks), PART):
        yield {"record": "found", "found": list(islice(rows, PART))}
    yield {"record": "reached", "stopped": list(result.stopped.items()), "found": list(rows)}


FINISHED = {"record": "finished"}
BACK: dict[str, Any] = {"record": "back"}  # the last phase was rolled back to its start


def back_record(found: Mapping[int, EntryMark]) -> dict[str, Any]:
    """Return the record that the last phase was rolled back; `found`: restored entries with a new ctime, by operation."""
    return BACK | ({"found": [[number, _mark_row(mark)] for number, mark in found.items()]} if found else {})


def moved_record(stages: tuple[str, ...], marks: Mapping[int, tuple[EntryMark | None, EntryMark | None]]) -> dict[str, Any]:
    """Return the record of slots that were moved or copied: new and old marks by operation."""
    rows = [[number, _mark_row(new), _mark_row(old)] for number, (new, old) in marks.items()]
    return {"record": "moved", "stages": stages, "marks": rows}


def opened_record(key: Key, inode: int, mode: int) -> dict[str, Any]:
    """Return the record that an unreadable directory is made accessible; `mode` is its own, to be restored."""
    return {"record": "opened", "root": key.root, "path": _text(key.path), "inode": inode, "mode": mode}


LOCKED: dict[str, Any] = {"record": "locked"}  # the modes of all opened directories are restored


def parted_record(number: int, digests: tuple[bytes, ...]) -> dict[str, Any]:
    """Return the record that splits a whole directory into many operations, because the user has changed its content.

    `digests`: of its files, empty for other types and changed files.
    """
    return {"record": "parted", "op": number, "digests": [digest.hex() for digest in digests]}


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _bytes(path: str) -> bytes:
    """Return a path below a root; raise CorruptJournalError for any other path."""
    found = path.encode("utf-8", "surrogateescape")
    if found and not _is_below(found):
        raise CorruptJournalError(f"{path!r} is not a path below a root")
    return found


def _key(root: int, path: str) -> Key:
    """Return the key of a path below a root: the same object whenever a journal names it, which it does twice."""
    key = Key(int(root), _bytes(path))
    found = _shared.setdefault(key, key)
    return found.key if isinstance(found, Change) else found


def _slot(name: str) -> str:
    if "/" in name or (name and not _is_below(name.encode("utf-8", "surrogateescape"))):
        raise CorruptJournalError(f"{name!r} is not a slot name")
    return name


def _is_below(path: bytes) -> bool:
    inside = b"/%b/" % path
    return not any(bad in inside for bad in (b"//", b"/./", b"/../", b"\0"))


def _op_row(op: Operation) -> list[Any]:
    row = [
        op.kind,
        op.key.root,
        _text(op.key.path),
        op.slot,
        _mark_row(op.new),
        _mark_row(op.old),
        op.digest.hex(),
        int(op.is_auxiliary),
    ]
    return [*row, op.members[:PART], op.attributes_digest] if op.members or op.attributes_digest else row


def _mark_row(mark: EntryMark | None) -> list[Any] | None:
    if mark is None:
        return None
    row: list[Any] = [mark.type, mark.inode, mark.size, mark.mtime, mark.ctime, mark.mode]
    return [*row, [[name, value.hex()] for name, value in mark.attributes]] if mark.attributes else row


_numbers: list[int] = []  # of operations, up to the largest that a journal has named
_shared: dict[Key, Key | Change] = {}  # the keys that the journal being decoded has named, and the known changes
_last: dict[bytes, Journal] = {}  # by digest: an undo reads a journal five times, to find, open and repair it


def decode(file: BufferedReader | BytesIO, known: Iterable[Change] = ()) -> Journal:
    """Decode a journal. Raises CorruptJournalError for damage that no crash causes.

    A crash may leave an incomplete last line; every complete line must be intact.
    `known`: changes that are used if the journal has equal ones, which saves 20 MB for 100,000.
    """
    digest = file_digest(file, "sha256").digest()
    if digest not in _last:
        _last.clear()  # first: one of 100,000 changes needs much memory
        file.seek(0)
        _shared.update((change.key, change) for change in known)
        _last[digest] = _decode(file)
    return _last[digest]


def _decode(file: BufferedReader | BytesIO) -> Journal:
    journal = Journal()
    try:
        for line in file:
            if line.endswith(b"\n"):
                journal = with_line(journal, memoryview(line)[:-1])
            elif _record(line, journal.checksum) is not None:
                journal = with_line(journal, line)
            elif _record(line[:-1], journal.checksum) is not None:
                raise CorruptJournalError("the end of its last line is damaged")
    finally:
        _shared.clear()
    return journal


def read_applied_updates(file: BufferedReader | BytesIO) -> tuple[GitUpdate, ...]:
    """Return a merge's git updates, none unless it is applied. Raises CorruptJournalError.

    Operations, which may be 100,000, are not decoded.
    """
    journal, chain = Journal(), 0
    for complete in file:
        line = complete.removesuffix(b"\n")
        if not _is_intact(line, chain):
            if line is not complete:
                raise CorruptJournalError("a line is damaged")
            break
        chain = line_checksum(line)
        if line.startswith(_PHASE_RECORDS, 9) or b'"git":' in line:
            journal = _with_updates_or_phase(journal, line[9:])
    return journal.git_updates if journal.is_applied else ()


_PHASE_RECORDS = tuple(b'{"record":"%b"' % kind for kind in (b"phase", b"instead", b"reached", b"back"))


def _with_updates_or_phase(journal: Journal, body: bytes) -> Journal:
    try:
        record = json.loads(body)
        match record["record"]:
            case "intent":
                rows = ({**row, "entries": ()} for row in _list(record.get("git")))
                return journal.with_intent(Intent((), git_updates=tuple(map(_git, rows))))
            case "phase" | "instead":
                return journal.with_phase(Phase(record["why"], (), bool(record["forward"])))
            case "reached":
                return journal.with_result(PhaseResult())
            case "back":
                return journal.without_last_phase()
            case _:
                return journal
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptJournalError(f"a line is invalid ({error})") from error


def with_line(journal: Journal, line: bytes | memoryview) -> Journal:
    """Return a journal's state after another line, without its newline. Raises CorruptJournalError."""
    record = _record(line, journal.checksum)
    if record is None:
        raise CorruptJournalError("a line is damaged")
    try:
        return replace(_after(journal, record), checksum=line_checksum(line))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, CorruptJournalError):
            raise
        raise CorruptJournalError(f"a line is invalid ({error})") from error


def inspect(file: BufferedReader | BytesIO) -> tuple[int, bool, int]:
    """Return the length of a journal's intact part, whether only the final newline is missing, and the last line's checksum."""
    journal, length, chain = decode(file), 0, 0
    file.seek(0)
    for line in file:
        if not line.endswith(b"\n") and _record(line, chain) is None:
            break
        length, chain, lacks_end = length + len(line), line_checksum(line), not line.endswith(b"\n")
    return length, bool(length) and lacks_end, journal.checksum


def _is_intact(line: bytes | memoryview, chain: int) -> bool:
    return line[:9] == b"%08x " % zlib.crc32(memoryview(line)[9:], chain)


def _record(line: bytes | memoryview, chain: int) -> dict[str, Any] | None:
    if not _is_intact(line, chain):
        return None
    try:
        found = json.loads(str(memoryview(line)[9:], "ascii"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _after(journal: Journal, record: dict[str, Any]) -> Journal:
    kind = record["record"]
    if (kind == "begin") != (journal.header is None) or (kind in ("intent", "members", "adopt") and journal.phases_begun):
        raise CorruptJournalError(f"a record `{kind}` is misplaced")
    act = _RECORDS.get(kind)
    if act is None:
        raise CorruptJournalError(f"unknown record `{kind}`")
    return act(journal, record)


def _with_begin(journal: Journal, record: dict[str, Any]) -> Journal:
    begin = _begin(record)
    return replace(journal, header=begin, stage_paths=frozenset(begin.stages))


def _with_adopted(journal: Journal, record: dict[str, Any]) -> Journal:
    moves = ((Key(int(root), _bytes(path)), _slot(slot)) for root, path, slot in record["slots"])
    return replace(journal, adopted=journal.adopted.add(moves))


def _with_intent(journal: Journal, record: dict[str, Any]) -> Journal:
    changes = tuple(map(_change, record["rows"]))
    kept = {
        change.key: {name: row[name] for name in _KEPT if name in row}
        for change, row in zip(changes, record["rows"], strict=True)
        if not _KEPT.isdisjoint(row)
    }
    git = tuple(map(_git, _list(record.get("git"))))
    return journal.with_intent(Intent(tuple(map(_op, record["ops"])), changes, kept, int(record.get("implies", 0)), git))


def _with_members(journal: Journal, record: dict[str, Any]) -> Journal:
    number = int(record["op"])
    if not 0 <= number < len(journal.ops) or not journal.ops[number].members:
        raise CorruptJournalError("an entry has content that is not a whole directory")
    return journal.with_members(number, _members(record["members"]))


def _list(value: Any) -> list[Any]:
    """Return the values for the repositories of a merge; a journal from before there could be several has one value, or none."""
    return value if isinstance(value, list) else [value] if value else []


def _with_parts(journal: Journal, record: dict[str, Any]) -> Journal:
    number = int(record["op"])
    if not 0 <= number < len(journal.ops) or not journal.ops[number].members:
        raise CorruptJournalError("an entry was split that is not a whole directory")
    return journal.with_split_directory(number, tuple(map(bytes.fromhex, record["digests"])))


def _with_phase(journal: Journal, record: dict[str, Any]) -> Journal:
    if any(not 0 <= number < len(journal.ops) for number in record["ops"]) or _is_open(journal):
        raise CorruptJournalError("a phase record is misplaced")
    numbers = tuple(map(_number, record["ops"]))
    instead = tuple(_instead(journal, row) for row in record.get("instead", ()))
    phase = Phase(record["why"], numbers, bool(record["forward"]), record["time"], substitutes=instead)
    if instead and (phase.is_forward or not {one.number for one in instead} <= set(numbers)):
        raise CorruptJournalError("an operation was replaced outside an undo")
    return journal.with_phase(phase)


def _instead(journal: Journal, row: list[Any]) -> Substitute:
    number, slot, new, old, agent = row
    op = journal.ops[number]
    if op.kind is not OpKind.EXCHANGE or number in journal.replaced or new is None or old is None:
        raise CorruptJournalError("an operation was replaced that is not an exchange")
    return Substitute(number, replace(op, slot=_slot(slot), new=_mark(new), old=_mark(old), digest=b""), _slot(agent))


def _is_open(journal: Journal) -> bool:
    return bool(journal.phases) and not journal.phases[-1].is_concluded


def _begin(record: dict[str, Any]) -> MergeHeader:
    if record["version"] != VERSION:
        raise CorruptJournalError(f"it has version {record['version']}, from another version of agent-dev")
    roots = tuple((str(path), int(device), int(inode)) for path, device, inode in record["roots"])
    stages = tuple(map(str, record["stages"]))
    optional = (tuple(map(str, _list(record.get("git")))), str(record.get("boot", "")))
    return MergeHeader(str(record["id"]), str(record["session"]), roots, stages, int(record["time"]), *optional)


def _with_end(journal: Journal, record: dict[str, Any]) -> Journal:
    if not _is_open(journal):
        raise CorruptJournalError("a phase ends that is not open")
    *before, last = journal.phases
    if record["record"] == "back":
        if last.result is not None:
            raise CorruptJournalError("a completed phase was rolled back")
        return _with_restored_marks(journal.without_last_phase(), record)
    if (record["record"] == "reached") != (last.result is None):
        raise CorruptJournalError("a phase ends twice")
    if record["record"] == "finished":
        return replace(journal, phases=(*before, replace(last, is_concluded=True)))
    stopped = {int(number): str(why) for number, why in record["stopped"]}
    return journal.with_result(PhaseResult(stopped, _marks(journal, record)))


def _with_found(journal: Journal, record: dict[str, Any]) -> Journal:
    if not _is_open(journal) or journal.phases[-1].result is not None:
        raise CorruptJournalError("marks were recorded outside a phase")
    return replace(journal, found=(*journal.found, _marks(journal, record)))


def _marks(journal: Journal, record: dict[str, Any]) -> dict[int, EntryMark | None]:
    if any(not 0 <= int(number) < len(journal.ops) for number, _ in record["found"]):
        raise CorruptJournalError("a mark was recorded for an unknown operation")
    return {_number(number): _mark(row) for number, row in record["found"]}


def _number(number: int) -> int:
    """Return the number of an operation: the same object for all records, of which each may name 100,000."""
    _numbers.extend(range(len(_numbers), number + 1))
    return _numbers[number]


def _with_restored_marks(journal: Journal, record: dict[str, Any]) -> Journal:
    """Return the journal with the new marks of entries that a rolled-back phase has restored."""
    found = {int(number): _mark(row) for number, row in record.get("found", ())}
    if not found:
        return journal
    if not journal.phases or (result := journal.phases[-1].result) is None:
        raise CorruptJournalError("a phase was rolled back without a completed one before it")
    return journal.with_result(replace(result, marks=result.marks | found))


def _with_moved(journal: Journal, record: dict[str, Any]) -> Journal:
    if journal.header is None:
        raise CorruptJournalError("slots were moved before the first record")
    ops = list(journal.ops)
    for number, new, old in record["marks"]:
        ops[number] = replace(ops[number], new=_mark(new), old=_mark(old))
    stages = tuple(map(str, record["stages"]))
    return replace(
        journal, ops=tuple(ops), header=replace(journal.header, stages=stages), stage_paths=journal.stage_paths | set(stages)
    )


def _with_opened(journal: Journal, record: dict[str, Any]) -> Journal:
    one = (_key(record["root"], record["path"]), int(record["inode"]), int(record["mode"]))
    return replace(journal, opened_directories=(*journal.opened_directories, one))


def _with_locked(journal: Journal, _record: dict[str, Any]) -> Journal:
    return replace(journal, opened_directories=())


def _op(row: list[Any]) -> Operation:
    act, root, path, slot, new, old, digest, is_loose, *rest = row
    whole = _members(rest[0]) if rest else ()
    attributes_digest = str(rest[1]) if len(rest) > 1 else ""
    return Operation(
        OpKind(act),
        _key(root, path),
        _slot(slot),
        _mark(new),
        _mark(old),
        bytes.fromhex(digest),
        bool(is_loose),
        whole,
        attributes_digest,
    )


def _members(rows: Iterable[Any]) -> tuple[tuple[bytes, EntryMark], ...]:
    return tuple((_bytes(path), _required_mark(_mark(row))) for path, row in rows)


def _required_mark(mark: EntryMark | None) -> EntryMark:
    if mark is None:
        raise CorruptJournalError("a whole directory has an entry without a mark")
    return mark


def _mark(row: list[Any] | None) -> EntryMark | None:
    if row is None:
        return None
    kind, inode, size, mtime, ctime, mode, *rest = row
    attributes = tuple((str(name), bytes.fromhex(value)) for name, value in rest[0]) if rest else ()
    if not 0 <= mode <= _MODES:
        raise CorruptJournalError(f"an entry has the mode {mode}")
    return EntryMark(_TYPES[kind], mode, size, inode, mtime, ctime, attributes=attributes)


_MODES = 0o7777
_TYPES = {str(kind): kind for kind in FileType}  # a look-up is five times faster than FileType(value)
_ENTRIES = {str(kind): Entry(kind) for kind in FileType}
_KINDS = {str(kind): kind for kind in ChangeKind}
_KEPT = frozenset(("agent", "part", "part_mode"))

_RECORDS: dict[str, Callable[[Journal, dict[str, Any]], Journal]] = {
    "begin": _with_begin,
    "adopt": _with_adopted,
    "intent": _with_intent,
    "members": _with_members,
    "phase": _with_phase,
    "instead": _with_phase,
    "parted": _with_parts,
    "opened": _with_opened,
    "locked": _with_locked,
    "moved": _with_moved,
    "found": _with_found,
    "reached": _with_end,
    "back": _with_end,
    "finished": _with_end,
}
