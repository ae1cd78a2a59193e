"""Let a user work in the tree before, between and during merges: no data of the user is lost, and only selected paths change."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from agent_dev.errors import CannotUndo
from agent_dev.fs import background_removal
from agent_dev.fs.entry import Key
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls
from agent_dev.merge import recover, undo
from agent_dev.merge.merge import MergeResult
from agent_dev.merge_engine import pending_marks
from agent_dev.overlay.selection import EMPTY_SELECTION, select
from agent_dev.session.sessions import CommandContext
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.faults import faults
from tests.harness.faults.concurrent_writers import ACTIONS, AGENT_ACTIONS, Agent, User, tokens_below
from tests.harness.scale import repeat, stride
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

HISTORIES = repeat(80)
STRIDE = stride(37)  # the user acts before every n-th change
SEED = int(os.environ.get("AGENT_DEV_TEST_SEED", "1"))

FOLDER = Node(DIRECTORY, b"", 0o755)
PATHS = ("a", "b", "d", "d/a", "d/e", "d/e/a", "n", "n/a")
START: Tree = {
    b"a": Node(FILE, b"one\n<base1>\nthree\n"),
    b"b": Node(FILE, b"one\n<base2>\nthree\n"),
    b"d": FOLDER,
    b"d/a": Node(FILE, b"one\n<base3>\nthree\n"),
    b"d/e": FOLDER,
    b"d/e/a": Node(FILE, b"one\n<base4>\nthree\n"),
}


class Machine(RuleBasedStateMachine):
    """A state machine: histories of a user, one or two agents, and merges, undos and redos, some of which are killed."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="agent-dev-races-", dir=faults.memory_directory())
        self._patches = ExitStack()
        self._patches.enter_context(mock.patch.object(os, "fsync", return_value=None))  # no power cut is simulated here
        self._patches.enter_context(mock.patch.object(syscalls, "syncfs", return_value=None))
        self._patches.enter_context(mock.patch.object(background_removal, "remove_in_background", remove_tree))

    def teardown(self) -> None:
        self._patches.close()
        self._folder.cleanup()

    @initialize()
    def begin(self) -> None:
        folder = Path(self._folder.name)
        first = EndedSession(folder, START, [])
        os.close(first.session.lock)
        self.sessions = [first]
        self.real = first.real
        self.user = User(self.real, folder / "outside")
        self.outside = folder / "outside"
        self.agents = [Agent(first.upper, self.real, b"agent")]
        self.here = CommandContext(first.store, str(self.real), str(self.real), ENVIRON)
        self.model = trees.read(self.real)

    # Writers

    @rule(action=st.sampled_from(ACTIONS), path=st.sampled_from(PATHS))
    def the_user_does(self, action: str, path: str) -> None:
        self.user.do(action, path)
        self.model = trees.read(self.real)

    @rule(action=st.sampled_from(AGENT_ACTIONS), path=st.sampled_from(PATHS), which=st.integers(0, 1))
    def an_agent_does(self, action: str, path: str, which: int) -> None:
        self.agents[which % len(self.agents)].do(action, path)

    @precondition(lambda self: len(self.sessions) == 1)
    @rule()
    def a_second_session_begins(self) -> None:
        second = EndedSession.another(self.sessions[0])
        os.close(second.session.lock)
        self.sessions.append(second)
        self.agents.append(Agent(second.upper, self.real, b"other"))

    # Merges

    @rule(which=st.integers(0, 1), selected=st.lists(st.sampled_from(PATHS), min_size=1, max_size=4), crash=st.integers(0, 60))
    def somebody_merges(self, which: int, selected: list[str], crash: int) -> None:
        ended = self.sessions[which % len(self.sessions)]
        changes = ended.changes()
        keys = frozenset(change.key for change in changes.changes if os.fsdecode(change.key.path) in selected)
        if not keys:
            return
        wanted = select(EMPTY_SELECTION, keys, changes).keys
        reported = {change.key.path: change for change in changes.changes}
        before = dict(self.model)
        if self._runs(crash, lambda: ended.merge(*(key.path for key in keys))):
            done = ended.merge(*(key.path for key in keys))
            self._expect_reported(wanted, done)
            taken = {change.key.path for change in done.applied}
        else:
            taken = {path for path, change in reported.items() if change.is_clean and change.key in wanted}
        now = trees.read(self.real)
        moved = {path for path in {*before, *now} if before.get(path) != now.get(path)}
        assert all(any(_is_near(path, other) for other in taken) for path in moved), (moved, taken)
        for path in taken & moved:
            assert reported[path].is_clean, f"{path!r} was in conflict"
        self.model = now

    @staticmethod
    def _expect_reported(wanted: frozenset[Key], done: MergeResult) -> None:
        reported = {change.key for change in done.applied} | {one.key for one in (*done.skipped, *done.conflicts)}
        assert wanted <= reported, "a selected change was neither merged nor reported"

    @rule(is_forward=st.booleans(), crash=st.integers(0, 60))
    def somebody_goes_back(self, is_forward: bool, crash: int) -> None:  # noqa: FBT001  drawn
        action = undo.redo if is_forward else undo.undo
        before = dict(self.model)
        try:
            if self._runs(crash, lambda: self._again(action)):
                done = action(self.here, "", lambda _: None)
                near = {key.path for key in done.paths}
                now = trees.read(self.real)
                moved = {path for path in {*before, *now} if before.get(path) != now.get(path)}
                assert all(any(_is_near(path, other) for other in near) for path in moved), (moved, near)
        except CannotUndo:
            pass
        self.model = trees.read(self.real)

    def _again(self, action: Callable[[CommandContext, str, Callable[[str], None]], object]) -> None:
        try:
            action(self.here, "", lambda _: None)
        except CannotUndo:
            pass

    def _runs(self, crash: int, act: Callable[[], object]) -> bool:
        """Kill a third of all commands, and recover; return whether the command is still to be run."""
        if crash > 20 or not faults.killed_at(crash + 1, act):
            return crash > 20
        recover.recover_root(self.here.store, self.here.root, ENVIRON, lambda _: None)
        return False

    # Invariants

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "model"):
            return
        assert trees.read(self.real) == self.model
        kept = tokens_below(self.real, self.outside, Path(self.here.store.merges))
        assert self.user.alive <= kept, self.user.alive - kept
        for agent, over in zip(self.agents, self.sessions, strict=True):
            known = kept | tokens_below(over.upper)
            assert agent.alive - self.user.overwritten <= known, agent.alive - known
        assert pending_marks.unfinished_merges(self.here.store) == ()
        assert not [path for path in self.model if b"agent-dev" in path]


def _is_near(path: bytes, other: bytes) -> bool:
    """Return whether two paths are equal, or one is above the other."""
    return path == other or path.startswith(other + b"/") or other.startswith(path + b"/")


def test_no_history_loses_anybodys_data() -> None:
    machine = hypothesis.seed(SEED)(Machine)
    asked = settings(
        max_examples=HISTORIES,
        stateful_step_count=14,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=asked)
    except BaseException as error:
        error.add_note(f"AGENT_DEV_TEST_SEED={SEED} {HISTORIES} histories")
        raise


# Changes during a command

BEFORE: Tree = {
    b"edited": Node(FILE, b"one\n<base1>\n"),
    b"gone": Node(FILE, b"<base2>"),
    b"dir": FOLDER,
    b"dir/lost": Node(FILE, b"<base3>"),
    b"deep": FOLDER,
    b"deep/edited": Node(FILE, b"<base4>"),
    b"untouched": Node(FILE, b"<base5>"),
}
AFTER: Tree = {
    b"edited": Node(FILE, b"one\n<agent1>\n", 0o755),
    b"deep": FOLDER,
    b"deep/edited": Node(FILE, b"<agent2>"),
    b"added": Node(FILE, b"<agent4>"),
    b"new": FOLDER,
    b"new/x": Node(FILE, b"<agent3>"),
    b"untouched": Node(FILE, b"<base5>"),
}
RIVALRY = [
    (action, path) for action in ACTIONS for path in ("edited", "gone", "dir", "dir/lost", "deep", "deep/edited", "new", "new/x")
]


class World:
    def __init__(self, folder: Path) -> None:
        self.ended = EndedSession(folder, BEFORE, trees.upper_of(BEFORE, AFTER))
        os.close(self.ended.session.lock)
        self.real = self.ended.real
        self.user = User(self.real, folder / "outside")
        self.here = CommandContext(self.ended.store, str(self.real), str(self.real), ENVIRON)

    def merge(self) -> None:
        self.ended.merge_all()

    def undo(self) -> None:
        undo.undo(self.here, "", lambda _: None)

    def redo(self) -> None:
        undo.redo(self.here, "", lambda _: None)


ACTS: dict[str, tuple[Callable[[World], None], ...]] = {
    "merge": (World.merge,),
    "undo": (World.merge, World.undo),
    "redo": (World.merge, World.undo, World.redo),
}


@contextmanager
def world() -> Iterator[World]:
    with (
        tempfile.TemporaryDirectory(dir=faults.memory_directory()) as folder,
        mock.patch.object(os, "fsync", return_value=None),
        mock.patch.object(syscalls, "syncfs", return_value=None),
        mock.patch.object(background_removal, "remove_in_background", remove_tree),
    ):
        yield World(Path(folder))


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(("action", "path"), RIVALRY)
def test_a_concurrent_change_of_the_user_is_never_lost(
    act: str, action: str, path: str, record_property: Callable[[str, object], None]
) -> None:
    (*prepare, last), number, more = ACTS[act], 1, True
    while more:
        with world() as one:
            for earlier in prepare:
                earlier(one)
            more = interfered(one, last, number, action, path)
        number += STRIDE
    record_property("points", number // STRIDE)


def interfered(one: World, act: Callable[[World], None], number: int, action: str, path: str) -> bool:
    count = [0]
    there: list[bool] = []

    def interfere(call: str, _words: tuple[object, ...]) -> None:
        count[0] += 1
        if count[0] == number:
            there.append(os.path.lexists(one.real / path))
            one.user.do(action, path)

    with faults.with_hook(interfere):
        act(one)
    if not there:
        return False
    where = f"{action} {path} before call {number}"
    kept = tokens_below(one.real, one.real.parent / "outside", Path(one.here.store.merges))
    assert one.user.alive <= kept, where
    known = kept | tokens_below(one.ended.upper) | one.user.overwritten
    assert {b"<agent1>", b"<agent2>", b"<agent3>", b"<agent4>"} <= known, where
    if action == "remove" and there[0]:
        assert not tokens_below(one.real / path), f"{where}: it is there again"
    assert (one.real / "untouched").read_bytes() == b"<base5>", where
    assert pending_marks.unfinished_merges(one.here.store) == (), where
    recover.recover_root(one.here.store, one.here.root, ENVIRON, lambda _: None)
    one.ended.changes()
    return True
