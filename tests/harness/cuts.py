"""Merges, undos and redos that are recorded, and tried after a power cut anywhere in them (tests/harness/powercut)."""

import json
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest import mock

from agent_dev.commands import merge, recover, undo
from agent_dev.commands.review import Review
from agent_dev.commands.sessions import Here
from agent_dev.core.changes import Kind
from agent_dev.core.journal import Verdict
from agent_dev.host import journals, pending, store
from agent_dev.host.remove import remove_tree
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
BESIDE = " beside"  # staged in the real tree, as when the state directory lies on another file system
NAMES = (*PLANS, *(name + BESIDE for name in ("edited", "new folder", "gone folder", "shut folder", "three")))
UNTOUCHED: Tree = {b"kept": Node(FILE, b"mine", 0o640)}


@dataclass
class Played:
    """A session, and the tape of what was done with it."""

    folder: Path
    before: Tree
    after: Tree
    ended: Ended
    tape: Tape
    good: set[tuple[object, ...]] = field(default_factory=set)  # what was found to be right, and need not be tried again
    tried: int = 0

    @property
    def here(self) -> Here:
        return Here(self.ended.store, str(self.ended.real), str(self.ended.real), ENVIRON)

    def allowed(self, end: int) -> frozenset[str]:
        """Return the sides on which the tree may be after a cut: what was told last holds."""
        sides = frozenset(("before",))
        for event in self.tape.events[:end]:
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
    before, after = (tree | UNTOUCHED for tree in PLANS[plan.removesuffix(BESIDE)])
    folder = Path(tempfile.mkdtemp(prefix="agent-dev-cut-", dir=faults.quick()))
    ended = Ended(folder, before, trees.upper_of(before, after))
    os.close(ended.session.lock)
    recorder = Recorder(folder, ended.real if plan.endswith(BESIDE) else None)
    played = Played(folder, before, after, ended, recorder.tape)
    weakref.finalize(played, remove_tree, str(folder))
    if killed:
        length = len(whole(plan).tape.events) // 3
        recorder = _killed(recorder, ended.merge_all, length * killed // 100)
        played.tape = recorder.tape
        with recorder.watching():
            recover.recover_here(ended.store, str(ended.real), ENVIRON, lambda _: None)
        recorder.say("before" if trees.read(ended.real) == before else "after")
        return played
    deeds: tuple[tuple[str, Callable[[], object]], ...] = (
        ("after", ended.merge_all),
        ("before", lambda: undo.undo(played.here, "", lambda _: None)),
        ("after", lambda: undo.redo(played.here, "", lambda _: None)),
    )
    for said, act in deeds:
        recorder.say("before|after")
        with recorder.watching():
            act()
        recorder.say(said)
    return played


def _killed(recorder: Recorder, act: Callable[[], object], number: int) -> Recorder:
    """Act in a process that ends before its `number`-th event; return what was recorded."""
    tape, saved = tempfile.mkstemp()
    os.close(tape)

    def stop(now: int) -> None:
        if now >= number:
            with open(saved, "wb") as file:
                pickle.dump(recorder, file)
            os._exit(faults.KILLED)

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
            past = ("after" if row["forward"] else "before") if row["record"] == "phase" else past
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
    if (kinds, conflicts) != ((played.kinds() if side == "before" else {}), {}):
        return f"{side}, and the session holds {kinds}, in conflict {conflicts}"
    if state != (store.WAITING if side == "before" else store.MERGED):
        return f"{side}, and the session is {state}"
    at_work = (*pending.listed(ended.store), *_unsettled(ended))
    return f"not at rest: {at_work}" if at_work else ""


def _unsettled(ended: Ended) -> tuple[str, ...]:
    """Return merges that nobody would bring to rest any more, and no undo could go on from."""
    folders = [path.parent for path in Path(ended.store.merges).glob("*/journal")]
    return tuple(one.name for one in folders if journals.read(str(one)).verdict not in (Verdict.CLEAN, Verdict.FORGET))
