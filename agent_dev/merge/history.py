"""The merges of a repository, read from their journals: changes, state, and the merge that an undo would revert."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_dev.errors import AgentDevError, CannotUndo, RecoveryRequired
from agent_dev.git.updates import RefUpdate
from agent_dev.merge import conclude
from agent_dev.merge_engine import journal_file, merge_execution, pending_marks
from agent_dev.merge_engine.journal import EntryMark
from agent_dev.overlay.changes import Change
from agent_dev.overlay.rows_before_merge import id_time_ms
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext


@dataclass(frozen=True, slots=True)
class MergeRecord:
    """A merge for lists. Times in ns since 1970; `changes` are all its changes, `applied` those that are applied now.

    `last_changed`: when it was last merged, undone or redone. `name`: the session's name, else its id. `declined`: the
    commits that it declined.
    """

    id: str
    session: str
    roots: tuple[str, ...]
    time: int
    changes: tuple[Change, ...]
    applied: tuple[Change, ...]
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
        if len(self.applied) == len(self.changes):
            return "merged"
        return "partly undone" if self.applied else "undone"


def list_merges(where: CommandContext, *, every: bool = False) -> tuple[MergeRecord, ...]:
    """Return the merges of this repository, oldest first; with `every` of all repositories."""
    found = [_recorded(where, name) for name in _names(where.store)]
    own = [one for one in found if one is not None and (every or where.root in one.roots)]
    return tuple(sorted(own, key=lambda one: one.time))


def _names(where: store.Store) -> list[str]:
    try:
        return sorted(os.listdir(where.merges))
    except FileNotFoundError:
        return []


def _recorded(where: CommandContext, merge_id: str) -> MergeRecord | None:
    try:
        journal = merge_execution.read_journal(f"{where.store.merges}/{merge_id}", merge_id)
        if pending_marks.is_truncated(where.store, merge_id, journal):
            raise RecoveryRequired(merge=merge_id, reason="its journal is truncated")
    except RecoveryRequired as error:
        return MergeRecord(merge_id, "", _roots(where, merge_id), id_time_ms(merge_id) * 10**6, (), (), error.message)
    if journal.header is None or not journal.phases:
        return None
    roots = tuple(path for path, _, _ in journal.header.roots)
    table = merge_execution.Merge(where.store, merge_id, "", journal, (), (), None)  # type: ignore[arg-type]  # only its journal is used
    first = journal.phases[0]
    stopped = first.result.stopped if first.result is not None else {}
    everything = conclude.applied_changes(table, tuple(number for number in first.numbers if number not in stopped))
    done, refs = conclude.applied_changes(table), tuple(one for git in journal.git_updates for one in git.refs)
    begin, last = journal.header, journal.phases[-1].time
    found = MergeRecord(
        merge_id, begin.session, roots, begin.time, everything, done, refs=refs, is_applied=journal.is_applied, last_changed=last
    )
    return replace(found, name=store.name_of_session(where.store, begin.session), declined=journal.declined_commits)


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
    for at, name in _by_age(where, _last_phase_time if is_forward else _id_time_ns):
        if found is not None and found.last_changed >= at:
            break
        one = _recorded(where, name) if name != excluded else None
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
    return len(one.applied) < len(one.changes) if is_forward else bool(one.applied)
