"""Record merges, undos and redos, and test recovery after a power cut anywhere in them, with the model in `powercut`."""

import json
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from unittest import mock

from agent_dev.errors import CannotUndo
from agent_dev.fs import background_removal
from agent_dev.fs.rmtree import remove_tree
from agent_dev.merge import merge, recover, undo
from agent_dev.merge.review import Review
from agent_dev.merge_engine import journal_file, pending_marks
from agent_dev.merge_engine.journal import NextAction
from agent_dev.overlay.changes import ChangeKind
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.faults import faults
from tests.harness.faults.powercut import DiskState, PowerCutModel, RebuiltDisk
from tests.harness.faults.recorded import Recorder, Tape
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree

DIRECTORY_NODE = Node(DIRECTORY, b"", 0o755)
ONE, TWO = Node(FILE, b"one\n", 0o644), Node(FILE, b"two\nthree\n", 0o755)
PLANS: dict[str, tuple[Tree, Tree]] = {
    "edited": ({b"a": ONE}, {b"a": TWO}),
    "added": ({}, {b"a": ONE}),
    "removed": ({b"a": ONE}, {}),
    "new directory": ({}, {b"d": Node(DIRECTORY, b"", 0o750), b"d/a": ONE}),
    "deleted directory": ({b"d": Node(DIRECTORY, b"", 0o775), b"d/a": ONE}, {}),
    "mode": ({b"d": DIRECTORY_NODE}, {b"d": Node(DIRECTORY, b"", 0o700)}),
    "read-only directory": ({}, {b"d": Node(DIRECTORY, b"", 0o500)}),
    "file to directory": ({b"a": ONE}, {b"a": DIRECTORY_NODE, b"a/b": TWO}),
    "directory to symlink": ({b"a": DIRECTORY_NODE, b"a/b": ONE}, {b"a": Node(SYMLINK, b"c", 0o777)}),
    "three": ({b"a": ONE, b"b": ONE}, {b"a": TWO, b"c": TWO}),
}
LINKED_PLANS: dict[str, tuple[Tree, Tree]] = {
    "twins": ({b"a": ONE, b"b": TWO}, {b"a": TWO, b"b": ONE})
}  # each also has another hard link
STAGED_IN_TREE = " in tree"  # staged in the real tree, as if the state directory were on another file system
NAMES = (
    *PLANS,
    *(name + STAGED_IN_TREE for name in ("edited", "new directory", "deleted directory", "read-only directory", "three")),
)
UNTOUCHED: Tree = {b"kept": Node(FILE, b"mine", 0o640)}
LINES, AGENTS, YOURS = (Node(FILE, data, 0o644) for data in (b"1\n2\n3\n4\n", b"one\n2\n3\n4\n", b"one\n2\n3\nmine\n"))
UNDONE = Node(FILE, b"1\n2\n3\nmine\n", 0o644)
# The original tree, the agent's version, the user's later version, and the result of a three-way undo.
THREE_WAYS: dict[str, tuple[Tree, Tree, Tree, Tree]] = {
    "lines": ({b"a": LINES}, {b"a": AGENTS}, {b"a": YOURS}, {b"a": UNDONE}),
    "own mode": (
        *({b"a": LINES}, {b"a": AGENTS}),
        *({b"a": replace(AGENTS, mode=0o600)}, {b"a": replace(LINES, mode=0o600)}),
    ),
    "lines of three": (
        *({b"a": LINES, b"b": ONE}, {b"a": AGENTS, b"b": TWO, b"c": TWO}),
        *({b"a": YOURS, b"b": TWO, b"c": TWO}, {b"a": UNDONE, b"b": ONE}),
    ),
}
KEPT = (*THREE_WAYS, *(name + STAGED_IN_TREE for name in ("lines", "lines of three")))


@dataclass
class Recording:
    """A session, and the tape of everything that was done with it."""

    folder: Path
    before: Tree
    after: Tree
    ended: EndedSession
    tape: Tape
    agents: Tree  # the session's version of all differing paths, if the tree is the one before
    verified: set[tuple[object, ...]] = field(default_factory=set)  # results already found correct, not checked again
    tried: int = 0
    is_three_way: bool = False  # an undo that keeps the user's later changes: from each side the other one can be reached, too

    @property
    def here(self) -> CommandContext:
        return CommandContext(self.ended.store, str(self.ended.real), str(self.ended.real), ENVIRON)

    def allowed(self, end: int) -> frozenset[str]:
        """Return the sides on which the tree may be after a cut: the last report to the user is binding."""
        sides: frozenset[str] = frozenset()
        for event in self.tape.events[: max(end, 1)]:  # the first event names the initial side
            if event.report:
                sides = frozenset(event.report.split("|"))
        return sides

    def expected_changes(self) -> dict[bytes, ChangeKind]:
        return trees.differences(self.before, self.after)


def record_plan(plan: str, *, killed: int = 0) -> Recording:
    """Record a merge, its undo and its redo; `killed`: a merge killed after that many percent, and its recovery."""
    with mock.patch.object(merge, "_stage_candidates", _stage_in_tree) if plan.endswith(STAGED_IN_TREE) else nullcontext():
        return _play(plan, killed)


def _stage_in_tree(review: Review, _: store.Store, merge_id: str) -> tuple[tuple[str, ...], ...]:
    return tuple((f"{real.path}/.agent-dev-stage.{merge_id}",) for real in review.real_trees)


def _play(plan: str, killed: int) -> Recording:
    if plan in KEPT:
        return _play_apart(plan)
    before, after = (tree | UNTOUCHED for tree in (PLANS | LINKED_PLANS)[plan.removesuffix(STAGED_IN_TREE)])
    ended = _ended(before, after)
    if plan in LINKED_PLANS:
        for path in before:
            os.link(ended.real / os.fsdecode(path), ended.real.parent / f"link to {os.fsdecode(path)}")
    recorder = _recorder(ended, plan)
    played = _played(ended, (before, after, after), recorder)
    played.is_three_way = plan in LINKED_PLANS
    if killed:
        length = len(recorded_plan(plan).tape.events) // 3
        recorder = _killed(recorder, ended.merge_all, length * killed // 100)
        played.tape = recorder.tape
        with recorder.watching():
            recover.recover_root(ended.store, str(ended.real), ENVIRON, lambda _: None)
        recorder.record_report("before" if trees.read(ended.real) == before else "after")
        return played
    _record(recorder, ("after", ended.merge_all), ("before", lambda: _undo(played)), ("after", lambda: _redo(played)))
    return played


def _play_apart(plan: str) -> Recording:
    """Record a three-way undo after changes by the user, and its redo; both sides contain the user's changes."""
    first, agents, yours, left = (tree | UNTOUCHED for tree in THREE_WAYS[plan.removesuffix(STAGED_IN_TREE)])
    ended = _ended(first, agents)
    with mock.patch.object(background_removal, "remove_in_background", remove_tree):  # complete before the recording
        ended.merge_all()
    for path in agents:
        if yours[path] != agents[path]:
            (ended.real / os.fsdecode(path)).write_bytes(yours[path].content)
            (ended.real / os.fsdecode(path)).chmod(yours[path].mode)
    recorder = _recorder(ended, plan)
    played = _played(ended, (left, yours, agents), recorder)
    played.is_three_way = True
    _record(recorder, ("before", lambda: _undo(played, is_three_way=True)), ("after", lambda: _redo(played)), first="after")
    return played


def _ended(before: Tree, after: Tree) -> EndedSession:
    folder = Path(tempfile.mkdtemp(prefix="agent-dev-cut-", dir=faults.memory_directory()))
    ended = EndedSession(folder, before, trees.upper_of(before, after))
    os.close(ended.session.lock)
    return ended


def _recorder(ended: EndedSession, plan: str) -> Recorder:
    return Recorder(ended.real.parent, ended.real if plan.endswith(STAGED_IN_TREE) else None)


def _played(ended: EndedSession, sides: tuple[Tree, Tree, Tree], recorder: Recorder) -> Recording:
    before, after, agents = sides
    played = Recording(ended.real.parent, before, after, ended, recorder.tape, agents)
    weakref.finalize(played, remove_tree, str(played.folder))
    return played


def _record(recorder: Recorder, *actions: tuple[str, Callable[[], object]], first: str = "before") -> None:
    recorder.record_report(first)
    for output, act in actions:
        recorder.record_report("before|after")
        with recorder.watching():
            act()
        recorder.record_report(output)


def _undo(played: Recording, *, is_three_way: bool = False) -> None:
    undo.undo(played.here, "", lambda _: None, is_three_way=is_three_way)


def _forward(played: Recording) -> None:
    """Redo the merge, or merge for the first time if it left no record."""
    try:
        _redo(played)
    except CannotUndo:
        played.ended.merge_all()


def _redo(played: Recording) -> None:
    undo.redo(played.here, "", lambda _: None)


def _killed(recorder: Recorder, act: Callable[[], object], number: int) -> Recorder:
    """Call `act` in a process that ends before its `number`-th event; return the recording."""
    tape, saved = tempfile.mkstemp()
    os.close(tape)

    def stop(now: int) -> None:
        if now >= number:
            with open(saved, "wb") as file:
                pickle.dump(recorder, file)
            os._exit(faults.KILLED)

    recorder.record_report("before")
    recorder.record_report("before|after")
    recorder.stop = stop

    def run() -> int:
        with recorder.watching():
            act()
        return faults.DONE

    assert faults.in_child(run) == faults.KILLED
    with open(saved, "rb") as file:
        found = pickle.load(file)  # noqa: S301  ours
    os.unlink(saved)
    assert isinstance(found, Recorder)
    return found


@cache
def recorded_plan(plan: str) -> Recording:
    """Return a recorded merge with its undo and redo; recorded once."""
    return record_plan(plan)


def first_failure(played: Recording, model: PowerCutModel, stride: int = 1) -> str:
    """Test every `stride`-th of all states after all cuts; return the first failure."""
    disk = RebuiltDisk(played.folder, played.ended.real)
    try:
        for end, state in islice(model.states(), 0, None, stride):
            allowed = played.allowed(end)
            known = (allowed, state.fingerprint())
            if known in played.verified:
                continue
            wrong = _wrong(played, disk, model.tape, state, allowed)
            played.tried += 1
            if wrong:
                return f"cut before event {end}, {_around(model, end)}: {wrong}"
            played.verified.add(known)
    finally:
        disk.close()
    return ""


def _around(model: PowerCutModel, end: int) -> str:
    return " | ".join(event.report or event.site or "?" for event in model.events[max(0, end - 1) : end + 1])


def _by_journal(ended: EndedSession) -> str:
    """Return the side that the last completed phase led to, from the journal alone, without agent-dev's parser."""
    side = past = "before"
    for journal in Path(ended.store.merges).glob("*/journal"):
        for line in journal.read_bytes().splitlines():
            try:
                row = json.loads(line.partition(b" ")[2])
            except ValueError:
                break  # a truncated line counts as not written
            past = ("after" if row["forward"] else "before") if row["record"] in ("phase", "instead") else past
            side = past if row["record"] == "reached" else side
    return side


def _wrong(played: Recording, disk: RebuiltDisk, tape: Tape, cut: DiskState, allowed: frozenset[str]) -> str:
    disk.make(tape, cut)
    ended = played.ended
    output = _by_journal(ended)
    with disk.seen():
        try:
            recover.recover_root(ended.store, str(ended.real), ENVIRON, lambda _: None)
            tree = trees.read(ended.real)
            side = "before" if tree == played.before else "after" if tree == played.after else "neither"
            if side not in allowed or side != output:
                return f"{side}, not {output}, of {' or '.join(sorted(allowed))}: {tree}"
            kinds, conflicts = ended.kinds(), ended.conflicts()
            state = store.read_record(ended.session)["state"]
        except Exception as error:  # noqa: BLE001  (any exception is a failure)
            return f"{type(error).__name__}: {error}"
    wrong = _wrong_session(played, side, (kinds, conflicts), state)
    return wrong or (_wrong_other(played, disk, side) if played.is_three_way else "")


def _wrong_session(played: Recording, side: str, reported: tuple[dict[bytes, ChangeKind], dict[bytes, str]], state: str) -> str:
    """Return how the session contradicts the side: its content, its state, or unfinished work."""
    if reported != ((played.expected_changes() if side == "before" else {}), {}):
        return f"{side}, and the session holds {reported[0]}, in conflict {reported[1]}"
    if side == "before" and (lost := _lost(played)):
        return f"before, and the session lacks the agent's version of {lost}"
    if state != (store.WAITING if side == "before" else store.MERGED):
        return f"{side}, and the session is {state}"
    at_work = (*pending_marks.unfinished_merges(played.ended.store), *_unsettled(played.ended))
    return f"unfinished: {at_work}" if at_work else ""


def _wrong_other(played: Recording, disk: RebuiltDisk, side: str) -> str:
    """Return the failure to reach the other side again by a three-way undo or its redo, or ""."""
    with disk.seen():
        try:
            _undo(played, is_three_way=True) if side == "after" else _forward(played)
            tree = trees.read(played.ended.real)
        except Exception as error:  # noqa: BLE001  (any exception is a failure)
            return f"{side}, and from there {type(error).__name__}: {error}"
    wanted = played.before if side == "after" else played.after
    return "" if tree == wanted else f"{side}, and from there {tree}"


def _lost(played: Recording) -> tuple[bytes, ...]:
    """Return the files whose agent's version is missing in the session."""
    wanted = [(path, played.agents[path]) for path in played.expected_changes() if path in played.agents]
    return tuple(
        path
        for path, node in wanted
        if node.type is FILE and (played.ended.upper / os.fsdecode(path)).read_bytes() != node.content
    )


def _unsettled(ended: EndedSession) -> tuple[str, ...]:
    """Return merges that neither recovery nor an undo would finish any more."""
    folders = [path.parent for path in Path(ended.store.merges).glob("*/journal")]
    return tuple(
        one.name
        for one in folders
        if journal_file.read_journal(str(one)).next_action not in (NextAction.NONE, NextAction.DISCARD)
    )
