"""The merges of a repository, as their journals tell: what each did, whether it stands, which one an undo means."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from agent_dev.errors import AgentDevError, CannotUndo, RecoveryRequired
from agent_dev.merge import conclude
from agent_dev.merge_engine import journal_file as journals
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine.journal import RefMove
from agent_dev.overlay.changes import Change
from agent_dev.session import store
from agent_dev.session.sessions import Here


@dataclass(frozen=True, slots=True)
class Recorded:
    """A merge as lists show it. Time in ns since 1970; `changes` are all it brought, `done` those that stand now.

    `last`: when it was last merged, undone or redone.
    """

    id: str
    session: str
    roots: tuple[str, ...]
    time: int
    changes: tuple[Change, ...]
    done: tuple[Change, ...]
    problem: str = ""
    refs: tuple[RefMove, ...] = ()
    stands: bool = False
    last: int = 0

    @property
    def state(self) -> str:
        """One word: merged, undone, or partly undone."""
        if self.problem:
            return "damaged"
        if not self.changes:
            return "merged" if self.stands else "undone"
        if len(self.done) == len(self.changes):
            return "merged"
        return "partly undone" if self.done else "undone"


def recorded(where: Here, *, every: bool = False) -> tuple[Recorded, ...]:
    """Return the merges of this repository, oldest first; `every`: of all."""
    found = [_recorded(where, name) for name in _names(where)]
    mine = [one for one in found if one is not None and (every or where.root in one.roots)]
    return tuple(sorted(mine, key=lambda one: one.time))


def _names(where: Here) -> list[str]:
    try:
        return sorted(os.listdir(where.store.merges))
    except FileNotFoundError:
        return []


def _recorded(where: Here, merge_id: str) -> Recorded | None:
    try:
        said = apply.read(f"{where.store.merges}/{merge_id}", merge_id)
    except RecoveryRequired as error:
        return Recorded(merge_id, "", _roots(where, merge_id), _made(merge_id) * 10**6, (), (), error.message)
    if said.begin is None or not said.phases:
        return None
    roots = tuple(path for path, _, _ in said.begin.roots)
    table = apply.Merge(where.store, merge_id, "", said, (), (), None)  # type: ignore[arg-type]  # only its journal is asked
    first = said.phases[0]
    stopped = first.reached.stopped if first.reached is not None else {}
    everything = conclude.done_changes(table, tuple(number for number in first.numbers if number not in stopped))
    done, refs = conclude.done_changes(table), said.git.refs if said.git is not None else ()
    begin, last = said.begin, said.phases[-1].time
    return Recorded(merge_id, begin.session, roots, begin.time, everything, done, refs=refs, stands=said.stands, last=last)


def _roots(where: Here, merge_id: str) -> tuple[str, ...]:
    """Return the roots of a merge whose journal cannot be read, by its session's record; all that is known where that is gone."""
    session = merge_id.rpartition(".")[0]
    try:
        return tuple(store.read(store.Session(session, f"{where.store.sessions}/{session}"))["roots"])
    except (AgentDevError, OSError):
        return (where.root,)


def _made(merge_id: str) -> int:
    """Return when a merge was made, as its id has it: ms since 1970; 0 for an id that is none of ours."""
    try:
        return int(merge_id.rpartition(".")[2], 16)
    except ValueError:
        return 0


def newest(where: Here, *, is_forward: bool) -> str:
    """Return the newest merge that stands, or the one undone last. Raises CannotUndo.

    Journals are read from the newest on, and no more of them than that takes: there may be hundreds. One that cannot be read may
    be the one that is meant.
    """
    found: Recorded | None = None
    for at, name in _ages(where, _touched if is_forward else _made_ns):
        if found is not None and found.last >= at:
            break
        one = _recorded(where, name)
        if one is None or where.root not in one.roots:
            continue
        if one.problem:
            raise CannotUndo(message=one.problem, hint="agent-dev merges lists the others: name the one that you mean")
        if _can_be_driven(one, is_forward=is_forward) and (found is None or one.last > found.last):
            found = one
            if not is_forward:
                break
    if found is None:
        word = "undone" if is_forward else "merged"
        raise CannotUndo(message=f"nothing of {where.root} was {word}", hint="agent-dev merges --all lists those of other places")
    return found.id


def _ages(where: Here, age: Callable[[Here, str], int]) -> list[tuple[int, str]]:
    return sorted(((age(where, name), name) for name in _names(where)), reverse=True)


def _touched(where: Here, merge_id: str) -> int:
    """Return when a journal was last written to, ns since 1970: not before its last phase began."""
    try:
        return os.stat(f"{where.store.merges}/{merge_id}/{journals.JOURNAL}").st_mtime_ns
    except FileNotFoundError:
        return 0


def _made_ns(_where: Here, merge_id: str) -> int:
    return _made(merge_id) * 10**6


def _can_be_driven(one: Recorded, *, is_forward: bool) -> bool:
    if one.refs and one.stands != is_forward:
        return True
    return len(one.done) < len(one.changes) if is_forward else bool(one.done)
