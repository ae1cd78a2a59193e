"""The merges of a repository, read from their journals: changes, state, and the merge that an undo would revert.

A journal of 100,000 changes takes up to two seconds and 400 MiB to read. So a summary of each complete merge is cached next to
its journal, and used while the journal has the same stat data.
"""

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agent_dev.errors import AgentDevError, CannotUndo, RecoveryRequired
from agent_dev.fs import checksummed_json
from agent_dev.git.updates import RefUpdate
from agent_dev.merge import conclude
from agent_dev.merge_engine import journal_file, merge_execution, pending_marks
from agent_dev.merge_engine.journal import EntryMark, Journal
from agent_dev.overlay.changes import Change
from agent_dev.overlay.fold_renames import fold_recorded
from agent_dev.overlay.rows_before_merge import id_time_ms
from agent_dev.quick_dataclass import asdict, dataclass, replace
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext

SUMMARY = "summary.json"
_FORMAT = 1  # of a summary


@dataclass(frozen=True, slots=True)
class MergeRecord:
    """A merge for lists. Times in ns since 1970; `changes` is the number of its changes, `applied` of those applied now.

    `kinds`: the number of its changes by kind, with each rename as one. `last_changed`: when it was last merged, undone or
    redone. `name`: the session's name, else its id. `declined`: the commits that it declined.
    """

    id: str
    session: str
    roots: tuple[str, ...]
    time: int
    changes: int = 0
    applied: int = 0
    kinds: tuple[tuple[str, int], ...] = ()
    problem: str = ""
    refs: tuple[RefUpdate, ...] = ()
    is_applied: bool = False
    last_changed: int = 0
    name: str = ""
    declined: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Return the state: merged, undone, partly undone, or damaged."""
        if self.problem:
            return "damaged"
        if not self.changes:
            return "merged" if self.is_applied else "undone"
        if self.applied == self.changes:
            return "merged"
        return "partly undone" if self.applied else "undone"


def list_merges(where: CommandContext, *, every: bool = False) -> tuple[MergeRecord, ...]:
    """Return the merges of this repository, oldest first; with `every` of all repositories."""
    unfinished = frozenset(pending_marks.unfinished_merges(where.store))
    found = [_recorded(where, name, is_complete=name not in unfinished) for name in _names(where.store)]
    own = [one for one in found if one is not None and (every or where.root in one.roots)]
    return tuple(sorted(own, key=lambda one: one.time))


def _names(where: store.Store) -> list[str]:
    try:
        return sorted(os.listdir(where.merges))
    except FileNotFoundError:
        return []


def _recorded(where: CommandContext, merge_id: str, *, is_complete: bool) -> MergeRecord | None:
    """Return a merge's record; None for one that changed nothing. `is_complete`: its summary may be used and cached."""
    folder = f"{where.store.merges}/{merge_id}"
    stamp = _stamp(folder) if is_complete else ()
    found = _read_summary(where, merge_id, stamp) or _read_record(where, merge_id, stamp)
    return replace(found, name=store.name_of_session(where.store, found.session)) if found and not found.problem else found


def _stamp(folder: str) -> tuple[int, ...]:
    """Return the stat data of a journal, () if it does not exist."""
    try:
        status = os.stat(f"{folder}/{journal_file.FILE_NAME}")
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read_summary(where: CommandContext, merge_id: str, stamp: tuple[int, ...]) -> MergeRecord | None:
    """Return the cached record of a complete merge; None if there is none, or it is damaged or of another journal."""
    if not stamp:
        return None
    try:
        with open(f"{where.store.merges}/{merge_id}/{SUMMARY}", "rb") as file:
            row = checksummed_json.loads(file.read())
        if (row["format"], row["stamp"]) != (_FORMAT, [*stamp]):
            return None
        return _decoded(row["record"]) if pending_marks.is_end(where.store, merge_id, row["checksum"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _decoded(row: dict[str, Any]) -> MergeRecord:
    refs = tuple(RefUpdate(**one) for one in row["refs"])
    kinds = tuple((str(kind), int(count)) for kind, count in row["kinds"])
    return MergeRecord(**{**row, "roots": tuple(row["roots"]), "declined": tuple(row["declined"]), "refs": refs, "kinds": kinds})


def _cache_summary(where: CommandContext, journal: Journal, record: MergeRecord, stamp: tuple[int, ...]) -> None:
    """Cache the record of a merge; without it, the next command only takes longer. A crash may damage it: it has a checksum."""
    if not stamp or not pending_marks.is_end(where.store, record.id, f"{journal.checksum:08x}"):
        return
    row = {"format": _FORMAT, "stamp": stamp, "checksum": f"{journal.checksum:08x}", "record": asdict(record)}
    with suppress(OSError, ValueError):
        data = checksummed_json.dumps(row)
        fd = os.open(f"{where.store.merges}/{record.id}/{SUMMARY}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)


def _read_record(where: CommandContext, merge_id: str, stamp: tuple[int, ...]) -> MergeRecord | None:
    """Return a merge's record from its journal, and cache it if it has the stat data `stamp`."""
    try:
        journal = merge_execution.read_journal(f"{where.store.merges}/{merge_id}", merge_id)
        if pending_marks.is_truncated(where.store, merge_id, journal):
            raise RecoveryRequired(merge=merge_id, reason="its journal is truncated")
    except RecoveryRequired as error:
        return _damaged(where, merge_id, error)
    if journal.header is None or not journal.phases:
        return None
    merge = _with_journal(where, merge_id, journal)
    everything = _all_changes(merge)
    found = MergeRecord(
        merge_id,
        journal.header.session,
        tuple(path for path, _, _ in journal.header.roots),
        journal.header.time,
        len(everything),
        len(conclude.applied_changes(merge)),
        tuple(Counter(str(change.kind) for change in fold_recorded(everything)).items()),
        refs=tuple(one for git in journal.git_updates for one in git.refs),
        is_applied=journal.is_applied,
        last_changed=journal.phases[-1].time,
        declined=journal.declined_commits,
    )
    _cache_summary(where, journal, found, stamp)
    return found


def with_changes(where: CommandContext, record: MergeRecord) -> tuple[MergeRecord, tuple[Change, ...]]:
    """Return a record with all changes of its merge; as damaged, without changes, if the journal cannot be read."""
    if not record.changes:
        return record, ()
    try:
        journal = merge_execution.read_journal(f"{where.store.merges}/{record.id}", record.id)
    except RecoveryRequired as error:
        return _damaged(where, record.id, error), ()
    return record, _all_changes(_with_journal(where, record.id, journal)) if journal.phases else ()


def _damaged(where: CommandContext, merge_id: str, error: RecoveryRequired) -> MergeRecord:
    return MergeRecord(merge_id, "", _roots(where, merge_id), id_time_ms(merge_id) * 10**6, problem=error.message)


def _all_changes(merge: merge_execution.Merge) -> tuple[Change, ...]:
    first = merge.journal.phases[0]
    stopped = first.result.stopped if first.result is not None else {}
    numbers = tuple(number for number in first.numbers if number not in stopped)
    return conclude.applied_changes(merge, numbers)


def _with_journal(where: CommandContext, merge_id: str, journal: Journal) -> merge_execution.Merge:
    return merge_execution.Merge(where.store, merge_id, "", journal, (), (), None)  # type: ignore[arg-type]  # only its journal is used


def _roots(where: CommandContext, merge_id: str) -> tuple[str, ...]:
    """Return the roots of a merge with an unreadable journal from its session's record, else the current root."""
    session = merge_id.rpartition(".")[0]
    try:
        return tuple(store.read_record(store.Session(session, f"{where.store.sessions}/{session}"))["roots"])
    except (AgentDevError, OSError):
        return (where.root,)


def find_newest(where: CommandContext, *, is_forward: bool, excluded: str = "") -> MergeRecord:
    """Return the newest applied merge, or with `is_forward` the last undone one; skip the id `excluded`. Raises CannotUndo.

    Journals are read from the newest on, only as many as needed, since there may be hundreds. A damaged one stops the search:
    it may be the right one.
    """
    found: MergeRecord | None = None
    unfinished = frozenset(pending_marks.unfinished_merges(where.store))
    for at, name in _by_age(where, _last_phase_time if is_forward else _id_time_ns):
        if found is not None and found.last_changed >= at:
            break
        one = _recorded(where, name, is_complete=name not in unfinished) if name != excluded else None
        if one is None or where.root not in one.roots:
            continue
        if one.problem:
            raise CannotUndo(message=one.problem, hint="name another merge; agent-dev merges lists them")
        if _can_run(one, is_forward=is_forward) and (found is None or one.last_changed > found.last_changed):
            found = one
            if not is_forward:
                break
    if found is None:
        verb = "redo" if is_forward else "undo"
        raise CannotUndo(
            message=f"no merge to {verb} in {where.root}", hint="agent-dev merges --all lists the merges of other repositories"
        )
    return found


def left_by_others(state_dir: store.Store, merge_id: str) -> dict[tuple[str, bytes], list[tuple[int, EntryMark | None]]]:
    """Return the marks that other merges, their undos and redos last recorded for each path, by root and path, with the time."""
    left: dict[tuple[str, bytes], list[tuple[int, EntryMark | None]]] = {}
    for name in _names(state_dir):
        if name == merge_id:
            continue
        try:
            journal = merge_execution.read_journal(f"{state_dir.merges}/{name}", name)
        except RecoveryRequired:
            continue  # its results are unknown
        roots = journal.header.roots if journal.header is not None else ()
        times = journal.known_mark_times()
        for number, mark in journal.known_marks().items():
            key = journal.ops[number].key
            if key.root < len(roots):
                left.setdefault((roots[key.root][0], key.path), []).append((times[number], mark))
    return left


def _by_age(where: CommandContext, age: Callable[[CommandContext, str], int]) -> list[tuple[int, str]]:
    return sorted(((age(where, name), name) for name in _names(where.store)), reverse=True)


def _last_phase_time(where: CommandContext, merge_id: str) -> int:
    """Return when the last phase of a merge began, in ns since 1970, or the later time of the last write to its journal."""
    at = pending_marks.last_phase_time(where.store, merge_id)
    if at:
        return at
    try:
        return os.stat(f"{where.store.merges}/{merge_id}/{journal_file.FILE_NAME}").st_mtime_ns
    except FileNotFoundError:
        return 0


def _id_time_ns(_where: CommandContext, merge_id: str) -> int:
    return id_time_ms(merge_id) * 10**6


def _can_run(one: MergeRecord, *, is_forward: bool) -> bool:
    if (one.refs or one.declined) and one.is_applied != is_forward:
        return True
    return one.applied < one.changes if is_forward else one.applied > 0
