"""Merges, undos and redos that are recorded, and tried after a power cut anywhere in them (tests/harness/powercut)."""

import json
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from unittest import mock

from agent_dev.errors import CannotUndo
from agent_dev.fs.rmtree import remove_tree
from agent_dev.merge import merge, recover, undo
from agent_dev.merge.engine import pending
from agent_dev.merge.review import Review
from agent_dev.merge_engine import journal_file as journals
from agent_dev.merge_engine.journal import Verdict
from agent_dev.overlay.changes import Kind
from agent_dev.session import removal as removing
from agent_dev.session import store
from agent_dev.session.sessions import Here
from tests.harness import faults, trees
from tests.harness.ended import ENVIRON, Ended
from tests.harness.powercut import Model, Rebuilt, State
from tests.harness.recorded import Recorder, Tape
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree

FOLDER = Node(DIRECTORY, b"", 0o755)
ONE, TWO = Node(FILE, b"one\n", 0o644), Node(FILE, b"two\nthree\n", 0o755)
PLANS: dict[str, tuple[Tree, Tree]] = {
    "edited": ({b"a": ONE}, {b"a": TWO}),
    "added": ({}, {b"a": ONE}),
    "removed": ({b"a": ONE}, {}),
    "new folder": ({}, {b"d": Node(DIRECTORY, b"", 0o750), b"d/a": ONE}),
    "gone folder": ({b"d": Node(DIRECTORY, b"", 0o775), b"d/a": ONE}, {}),
    "mode": ({b"d": FOLDER}, {b"d": Node(DIRECTORY, b"", 0o700)}),
    "shut folder": ({}, {b"d": Node(DIRECTORY, b"", 0o500)}),
    "file to folder": ({b"a": ONE}, {b"a": FOLDER, b"a/b": TWO}),
    "folder to link": ({b"a": FOLDER, b"a/b": ONE}, {b"a": Node(SYMLINK, b"c", 0o777)}),
    "three": ({b"a": ONE, b"b": ONE}, {b"a": TWO, b"c": TWO}),
}
TWINS: dict[str, tuple[Tree, Tree]] = {"twins": ({b"a": ONE, b"b": TWO}, {b"a": TWO, b"b": ONE})}  # with another name each
BESIDE = " beside"  # staged in the real tree, as when the state directory lies on another file system
NAMES = (*PLANS, *(name + BESIDE for name in ("edited", "new folder", "gone folder", "shut folder", "three")))
UNTOUCHED: Tree = {b"kept": Node(FILE, b"mine", 0o640)}
LINES, AGENTS, MINE = (Node(FILE, data, 0o644) for data in (b"1\n2\n3\n4\n", b"one\n2\n3\n4\n", b"one\n2\n3\nmine\n"))
LEFT = Node(FILE, b"1\n2\n3\nmine\n", 0o644)
# What there was, what the agent made of it, what the user made of that since, and what is left of it by an undo of three ways.
THREE_WAYS: dict[str, tuple[Tree, Tree, Tree, Tree]] = {
    "lines": ({b"a": LINES}, {b"a": AGENTS}, {b"a": MINE}, {b"a": LEFT}),
    "own mode": (
        *({b"a": LINES}, {b"a": AGENTS}),
        *({b"a": replace(AGENTS, mode=0o600)}, {b"a": replace(LINES, mode=0o600)}),
    ),
    "lines of three": (
        *({b"a": LINES, b"b": ONE}, {b"a": AGENTS, b"b": TWO, b"c": TWO}),
        *({b"a": MINE, b"b": TWO, b"c": TWO}, {b"a": LEFT, b"b": ONE}),
    ),
}
KEPT = (*THREE_WAYS, *(name + BESIDE for name in ("lines", "lines of three")))


@dataclass
class Played:
    """A session, and the tape of what was done with it."""

    folder: Path
    before: Tree
    after: Tree
    ended: Ended
    tape: Tape
    agents: Tree  # what the session holds of all that differs, where the tree is the one before
    good: set[tuple[object, ...]] = field(default_factory=set)  # what was found to be right, and need not be tried again
    tried: int = 0
    is_apart: bool = False  # an undo that keeps what the user did since: the other side can be had from each, too

    @property
    def here(self) -> Here:
        return Here(self.ended.store, str(self.ended.real), str(self.ended.real), ENVIRON)

    def allowed(self, end: int) -> frozenset[str]:
        """Return the sides on which the tree may be after a cut: what was told last holds."""
        sides: frozenset[str] = frozenset()
        for event in self.tape.events[: max(end, 1)]:  # the first says how it begins
            if event.said:
                sides = frozenset(event.said.split("|"))
        return sides

    def kinds(self) -> dict[bytes, Kind]:
        return trees.differences(self.before, self.after)


def play(plan: str, *, killed: int = 0) -> Played:
    """Record a merge, its undo and its redo; `killed`: a merge that ends at so many hundredths of itself, and its recovery."""
    with mock.patch.object(merge, "_places", _beside) if plan.endswith(BESIDE) else nullcontext():
        return _play(plan, killed)


def _beside(review: Review, _: store.Store, merge_id: str) -> tuple[tuple[str, ...], ...]:
    return tuple((f"{real.path}/.agent-dev-stage.{merge_id}",) for real in review.reals)


def _play(plan: str, killed: int) -> Played:
    if plan in KEPT:
        return _play_apart(plan)
    before, after = (tree | UNTOUCHED for tree in (PLANS | TWINS)[plan.removesuffix(BESIDE)])
    ended = _ended(before, after)
    if plan in TWINS:
        for path in before:
            os.link(ended.real / os.fsdecode(path), ended.real.parent / f"twin of {os.fsdecode(path)}")
    recorder = _recorder(ended, plan)
    played = _played(ended, (before, after, after), recorder)
    played.is_apart = plan in TWINS
    if killed:
        length = len(whole(plan).tape.events) // 3
        recorder = _killed(recorder, ended.merge_all, length * killed // 100)
        played.tape = recorder.tape
        with recorder.watching():
            recover.recover_here(ended.store, str(ended.real), ENVIRON, lambda _: None)
        recorder.say("before" if trees.read(ended.real) == before else "after")
        return played
    _record(recorder, ("after", ended.merge_all), ("before", lambda: _undo(played)), ("after", lambda: _redo(played)))
    return played


def _play_apart(plan: str) -> Played:
    """Record an undo that keeps what the user did since to a merge, and its redo: both are about what the user made of it."""
    first, agents, mine, left = (tree | UNTOUCHED for tree in THREE_WAYS[plan.removesuffix(BESIDE)])
    ended = _ended(first, agents)
    with mock.patch.object(removing, "remove_aside", remove_tree):  # done before anything is looked at
        ended.merge_all()
    for path in agents:
        if mine[path] != agents[path]:
            (ended.real / os.fsdecode(path)).write_bytes(mine[path].content)
            (ended.real / os.fsdecode(path)).chmod(mine[path].mode)
    recorder = _recorder(ended, plan)
    played = _played(ended, (left, mine, agents), recorder)
    played.is_apart = True
    _record(recorder, ("before", lambda: _undo(played, is_three_way=True)), ("after", lambda: _redo(played)), first="after")
    return played


def _ended(before: Tree, after: Tree) -> Ended:
    folder = Path(tempfile.mkdtemp(prefix="agent-dev-cut-", dir=faults.quick()))
    ended = Ended(folder, before, trees.upper_of(before, after))
    os.close(ended.session.lock)
    return ended


def _recorder(ended: Ended, plan: str) -> Recorder:
    return Recorder(ended.real.parent, ended.real if plan.endswith(BESIDE) else None)


def _played(ended: Ended, sides: tuple[Tree, Tree, Tree], recorder: Recorder) -> Played:
    before, after, agents = sides
    played = Played(ended.real.parent, before, after, ended, recorder.tape, agents)
    weakref.finalize(played, remove_tree, str(played.folder))
    return played


def _record(recorder: Recorder, *deeds: tuple[str, Callable[[], object]], first: str = "before") -> None:
    recorder.say(first)
    for said, act in deeds:
        recorder.say("before|after")
        with recorder.watching():
            act()
        recorder.say(said)


def _undo(played: Played, *, is_three_way: bool = False) -> None:
    undo.undo(played.here, "", lambda _: None, is_three_way=is_three_way)


def _forward(played: Played) -> None:
    """Do it again, or for the first time when nothing is known of it."""
    try:
        _redo(played)
    except CannotUndo:
        played.ended.merge_all()


def _redo(played: Played) -> None:
    undo.redo(played.here, "", lambda _: None)


def _killed(recorder: Recorder, act: Callable[[], object], number: int) -> Recorder:
    """Act in a process that ends before its `number`-th event; return what was recorded."""
    tape, saved = tempfile.mkstemp()
    os.close(tape)

    def stop(now: int) -> None:
        if now >= number:
            with open(saved, "wb") as file:
                pickle.dump(recorder, file)
            os._exit(faults.KILLED)

    recorder.say("before")
    recorder.say("before|after")
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
def whole(plan: str) -> Played:
    """Return a merge, its undo and its redo, recorded once."""
    return play(plan)


def first_failure(played: Played, model: Model) -> str:
    """Try every state after every cut; return what is wrong with the first that does not come right."""
    disk = Rebuilt(played.folder, played.ended.real)
    try:
        for end, state in model.states():
            allowed = played.allowed(end)
            known = (allowed, state.fingerprint())
            if known in played.good:
                continue
            wrong = _wrong(played, disk, model.tape, state, allowed)
            played.tried += 1
            if wrong:
                return f"cut before event {end}, {_around(model, end)}: {wrong}"
            played.good.add(known)
    finally:
        disk.close()
    return ""


def _around(model: Model, end: int) -> str:
    return " | ".join(event.said or event.site or "?" for event in model.events[max(0, end - 1) : end + 1])


def _by_journal(ended: Ended) -> str:
    """Return the side that the journal names, as anyone may read it: where the last phase that reached its end led."""
    side = past = "before"
    for journal in Path(ended.store.merges).glob("*/journal"):
        for line in journal.read_bytes().splitlines():
            try:
                row = json.loads(line.partition(b" ")[2])
            except ValueError:
                break  # torn: it was not written
            past = ("after" if row["forward"] else "before") if row["record"] in ("phase", "instead") else past
            side = past if row["record"] == "reached" else side
    return side


def _wrong(played: Played, disk: Rebuilt, tape: Tape, cut: State, allowed: frozenset[str]) -> str:
    disk.make(tape, cut)
    ended = played.ended
    said = _by_journal(ended)
    with disk.seen():
        try:
            recover.recover_here(ended.store, str(ended.real), ENVIRON, lambda _: None)
            tree = trees.read(ended.real)
            side = "before" if tree == played.before else "after" if tree == played.after else "neither"
            if side not in allowed or side != said:
                return f"{side}, not {said}, of {' or '.join(sorted(allowed))}: {tree}"
            kinds, conflicts = ended.kinds(), ended.conflicts()
            state = store.read(ended.session)["state"]
        except Exception as error:  # noqa: BLE001  whatever it is, that is not what should happen
            return f"{type(error).__name__}: {error}"
    wrong = _wrong_session(played, side, (kinds, conflicts), state)
    return wrong or (_wrong_other(played, disk, side) if played.is_apart else "")


def _wrong_session(played: Played, side: str, told: tuple[dict[bytes, Kind], dict[bytes, str]], state: str) -> str:
    """Return what does not fit the side: what the session holds, in which state it is, what is still at work."""
    if told != ((played.kinds() if side == "before" else {}), {}):
        return f"{side}, and the session holds {told[0]}, in conflict {told[1]}"
    if side == "before" and (lost := _lost(played)):
        return f"before, and the session has not what the agent made of {lost}"
    if state != (store.WAITING if side == "before" else store.MERGED):
        return f"{side}, and the session is {state}"
    at_work = (*pending.listed(played.ended.store), *_unsettled(played.ended))
    return f"not at rest: {at_work}" if at_work else ""


def _wrong_other(played: Played, disk: Rebuilt, side: str) -> str:
    """Return what is wrong with going to the other side once more: an undo that keeps what the user did, or its redo."""
    with disk.seen():
        try:
            _undo(played, is_three_way=True) if side == "after" else _forward(played)
            tree = trees.read(played.ended.real)
        except Exception as error:  # noqa: BLE001  whatever it is, that is not what should happen
            return f"{side}, and from there {type(error).__name__}: {error}"
    wanted = played.before if side == "after" else played.after
    return "" if tree == wanted else f"{side}, and from there {tree}"


def _lost(played: Played) -> tuple[bytes, ...]:
    """Return the files of which a session does not hold the agent's bytes."""
    wanted = [(path, played.agents[path]) for path in played.kinds() if path in played.agents]
    return tuple(
        path
        for path, node in wanted
        if node.type is FILE and (played.ended.upper / os.fsdecode(path)).read_bytes() != node.content
    )


def _unsettled(ended: Ended) -> tuple[str, ...]:
    """Return merges that nobody would bring to rest any more, and no undo could go on from."""
    folders = [path.parent for path in Path(ended.store.merges).glob("*/journal")]
    return tuple(one.name for one in folders if journals.read(str(one)).verdict not in (Verdict.CLEAN, Verdict.FORGET))
