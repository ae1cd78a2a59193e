"""A repository, sessions with upper layers written by the kernel's overlayfs, and agent-dev's commands on them."""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_dev.checkpoint import checkpoint_store, rollback
from agent_dev.diff.merge3 import ConflictSide
from agent_dev.fs import durable
from agent_dev.fs.entry import Key
from agent_dev.linux import syscalls
from agent_dev.merge import merge, select_by_options, session_access
from agent_dev.merge import undo as undoing
from agent_dev.merge.merge import MergeResult
from agent_dev.merge.review import Review, open_review
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.merge.undo import UndoResult
from agent_dev.overlay import lower_snapshot_request, lower_snapshot_take
from agent_dev.run import finish, resume
from agent_dev.session import discarded, removal, sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession
from tests.harness import owner_view
from tests.harness.owner_view import TreeEntries
from tests.histories import actions
from tests.histories.actions import Action
from tests.histories.oracle import Interference, Run, Settled

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/dev/null"}
_VERSION = 0x20080522  # of capset's header


@dataclass
class Session:
    """A session as the oracle knows it."""

    id: str
    runs: list[Run]
    version: int = 0  # increases with every change of the session's content, except by undos
    is_resumed: bool = False
    is_rolled_back: bool = False
    is_discarded: bool = False
    is_gone: bool = False
    checkpoints: dict[int, TreeEntries] = field(default_factory=dict)
    refused: Settled = field(default_factory=dict)  # its content at conflicts that the user resolved for the real tree

    @property
    def bases(self) -> list[TreeEntries]:
        """Return the root's content at each start of the agent."""
        return [run.base for run in self.runs]


class World:
    """A root, a state directory, a mount point."""

    def __init__(self, folder: Path) -> None:
        self.real, self.view = folder / "real", folder / "view"
        for place in (self.real, self.view):
            place.mkdir()
        self.store = store.Store(str(folder / "state"))
        self.here = CommandContext(self.store, str(self.real), str(self.real), ENVIRON)
        self.sessions: list[Session] = []

    def things(self) -> TreeEntries:
        return owner_view.entries_below(self.real)

    # The user and the agents

    def user(self, some: tuple[Action, ...]) -> list[bool]:
        return [actions.do(os.fsencode(self.real), one) for one in some]

    def run(self, some: tuple[Action, ...]) -> Session:
        """Run an agent in a new session."""
        held = store.create_session(self.store)
        store.add_root(held, 0, str(self.real))
        record = self._prepare(held)
        self._take_snapshot(held)
        one = Session(held.id, [Run(self.things(), self._act(held, some))])
        self._end(one, held, record)
        self.sessions.append(one)
        return one

    def resume(self, one: Session, some: tuple[Action, ...]) -> None:
        """Run the agent again in its session."""
        listed = session_access.lock_ended(self.listed(one))
        touched = resume.list_prior_changes(listed.session, listed.record, 1)
        removal.remove_work_directories(listed.session)
        store.recreate_work(listed.session, 0)
        self._take_snapshot(listed.session, touched)
        one.is_resumed = True
        one.version += bool(some)
        one.runs.append(Run(self.things(), self._act(listed.session, some)))
        self._end(one, listed.session, listed.record)

    def _prepare(self, _: store.Session) -> store.Record:
        """Prepare a new session, and return its record."""
        return {**store.BLANK, "root": str(self.real), "roots": [str(self.real)], "launched": time.time_ns()}

    def _take_snapshot(self, held: store.Session, touched: "tuple[lower_snapshot_request.PriorChanges, ...]" = ()) -> None:
        request = lower_snapshot_request.SnapshotRequest(roots=(str(self.real),), touched=touched)
        lower_snapshot_take.take_snapshot(held.lower_snapshot, request)

    def _act(self, session: store.Session, some: tuple[Action, ...]) -> TreeEntries:
        root = session.root(0, str(self.real))
        view = os.fsencode(self.view)

        def act() -> TreeEntries:
            options = f"lowerdir={root.path},upperdir={root.upper},workdir={root.work},userxattr"
            syscalls.mount("overlay", str(self.view), "overlay", syscalls.NOSUID | syscalls.NODEV, options)
            _in_child(lambda: [self._do(session, view, one) for one in some])
            return owner_view.read(view, (b".git",))

        return owner_view.call_as_owner(act, mounts=True)

    def _do(self, _: store.Session, view: bytes, action: Action) -> bool:
        """Perform an action of the agent."""
        return actions.do(view, action)

    def shown(self, one: Session) -> TreeEntries:
        """Return the tree that the kernel shows for a session over the current root."""
        upper, view = f"{self._folder(one)}/roots/0/upper", os.fsencode(self.view)

        def act() -> TreeEntries:
            options = f"lowerdir={upper}:{self.real},userxattr"
            syscalls.mount("overlay", str(self.view), "overlay", syscalls.NOSUID | syscalls.NODEV, options)
            return owner_view.read(view, (b".git",))

        return owner_view.call_as_owner(act, mounts=True)

    def _end(self, one: Session, held: store.Session, record: store.Record) -> None:
        pid = os.fork()  # stands for the process that takes the lower snapshot while the agent runs
        if pid == 0:
            os._exit(0)
        finish.finish_session(held, record, pid, 0, ENVIRON, lambda: "")
        one.is_gone = not os.path.isdir(held.folder)  # a removed session is released, too
        if not one.is_gone:
            store.unlock_session(held)

    @contextmanager
    def interference(self, some: tuple[Action, ...], moment: int) -> Iterator[Interference]:
        """Let the user act before the `moment`-th change to the disk (from 1) that a command makes.

        A user who changes modes acts before the next one that sets none: no call changes a mode only if it is still the same.
        """
        met, left = Interference(), moment
        changes_modes = any(action in ("chmod", "special") for action, _, _ in some)

        def watch(call: str, _words: tuple[object, ...]) -> None:
            nonlocal left
            left -= left > 1 or (left == 1 and not (changes_modes and call == "chmod"))
            if not left:
                left = -1
                met.was = self.things()
                self.user(some)
                met.now = self.things()

        durable.hook = watch if some else None
        try:
            yield met
        finally:
            durable.hook = None

    # The commands

    def _folder(self, one: Session) -> str:
        return f"{self.store.trash if one.is_discarded else self.store.sessions}/{one.id}"

    def listed(self, one: Session) -> ListedSession:
        return sessions.find_session(self.here, one.id)

    def reviewed(self, one: Session, act: Callable[[Review], object]) -> object:
        """Call `act` with a session that is locked and open."""
        listed = session_access.lock_ended(self.listed(one))
        try:
            review = open_review(listed.session, ENVIRON, with_risks=False)
            try:
                return act(review)
            finally:
                review.close()
        finally:
            store.unlock_session(listed.session)

    def changes(self, one: Session) -> dict[bytes, str]:
        """Return the listed changes of a session: path → kind."""
        found: dict[bytes, str] = {}

        def look(review: Review) -> None:
            found.update((change.key.path, str(change.kind)) for change in review.changes.changes)
            found.update((os.fsencode(problem.partition(":")[0]), problem) for problem in review.changes.problems)

        self.reviewed(one, look)
        return found

    def merge(
        self, one: Session, paths: frozenset[bytes], sides: dict[bytes, str], part: int
    ) -> tuple[MergeResult, frozenset[bytes]]:
        """Merge some paths, with conflicts resolved as in `sides`; return the result, and the path that was merged in part.

        `part`: of the first file with hunks, select only some.
        """
        done: list[tuple[MergeResult, frozenset[bytes]]] = []

        def act(review: Review) -> None:
            known = review.changes.by_key()
            keys = tuple(key for key in known if key.path in paths)
            resolved = [
                (key, ConflictSide(sides[key.path])) for key in keys if not known[key].is_clean and key in review.reconciliations
            ]
            parts = [(key, _blocks(review, key, part)) for key in keys if part] if part else []
            parts = [(key, numbers) for key, numbers in parts if numbers][:1]
            selected = tuple(key for key in keys if key not in {key for key, _ in parts})
            wanted = SelectionRequest(paths=selected, resolutions=tuple(resolved), parts=tuple(parts))
            selection, asked = select_by_options.select_requested(review, wanted)
            planned = merge.plan_selection(review, selection, asked)
            done.append((merge.apply_plan(review, planned, self.store), frozenset(key.path for key, _ in parts)))

        self.reviewed(one, act)
        return done[0]

    def undo(self, merge_id: str, *, is_three_way: bool) -> UndoResult:
        return undoing.undo(self.here, merge_id, lambda _: None, is_three_way=is_three_way)

    def redo(self, merge_id: str) -> UndoResult:
        return undoing.redo(self.here, merge_id, lambda _: None)

    def checkpoint(self, one: Session) -> int:
        listed = session_access.lock_ended(self.listed(one))
        try:
            return checkpoint_store.take_checkpoint(listed.session, listed.record, checkpoint_store.MANUAL, always=True).number
        finally:
            store.unlock_session(listed.session)

    def roll_back(self, one: Session, number: int) -> tuple[str, ...]:
        listed = session_access.lock_ended(self.listed(one))
        try:
            return rollback.roll_back_ended(listed, number).problems
        finally:
            store.unlock_session(listed.session)

    def discard(self, one: Session) -> None:
        session_access.discard(self.here, self.listed(one))
        one.is_discarded = True

    def undiscard(self, one: Session) -> None:
        discarded.undiscard(self.here, discarded.find_discarded(self.here, one.id))
        one.is_discarded = False


def _blocks(review: Review, key: Key, part: int) -> frozenset[int]:
    """Return every (part + 1)-th hunk of a clean change with several hunks, else none."""
    change = review.changes.by_key()[key]
    try:
        measured = review.measure(change) if change.is_clean else None
    except OSError:
        return frozenset()
    if measured is None or measured.hunks < 2:
        return frozenset()
    return frozenset(range(1, measured.hunks + 1, part + 1))


def _in_child(act: Callable[[], object]) -> None:
    """Run in a child without capabilities, like an agent."""
    pid = os.fork()
    if pid == 0:
        try:
            header = (ctypes.c_uint32 * 2)(_VERSION, 0)
            if ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0:
                act()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
