"""Kill a merge, an undo, a redo or a recovery before any change to the disk: the tree is entirely before or entirely after."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_dev.merge import recover, undo
from agent_dev.merge_engine import pending_marks
from agent_dev.session.sessions import CommandContext
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.faults import faults
from tests.harness.scale import stride
from tests.harness.trees import DIRECTORY, FIFO, FILE, SYMLINK, Node, Tree

STRIDE = min(stride(29), 47)  # the step between kill points if the recovery is killed, too: a merge has about a hundred changes

FOLDER = Node(DIRECTORY, b"", 0o755)
BEFORE: Tree = {
    b"edited": Node(FILE, b"one\ntwo\n", 0o644),
    b"gone": Node(FILE, b"gone", 0o600),
    b"link": Node(SYMLINK, b"edited", 0o777),
    b"dir": FOLDER,
    b"dir/kept": Node(FILE, b"kept"),
    b"dir/lost": Node(FILE, b"lost"),
    b"whole": FOLDER,
    b"whole/deep": Node(DIRECTORY, b"", 0o700),
    b"whole/deep/a": Node(FILE, b"a"),
    b"whole/b": Node(FILE, b"b"),
    b"turned": FOLDER,
    b"turned/c": Node(FILE, b"c"),
    b"mode": Node(DIRECTORY, b"", 0o755),
    b"untouched": Node(FILE, b"mine", 0o640),
}
AFTER: Tree = {
    b"edited": Node(FILE, b"one\n2\nthree\n", 0o755),
    b"link": Node(SYMLINK, b"dir/kept", 0o777),
    b"dir": FOLDER,
    b"dir/kept": Node(FILE, b"kept"),
    b"turned": Node(FILE, b"a file now"),
    b"mode": Node(DIRECTORY, b"", 0o700),
    b"new": Node(DIRECTORY, b"", 0o750),
    b"new/inner": FOLDER,
    b"new/inner/x": Node(FILE, b"x"),
    b"new/y": Node(FILE, b"y", 0o600),
    b"new/fifo": Node(FIFO, b"", 0o600),
    b"fresh": FOLDER,
    b"fresh/deep": FOLDER,
    b"fresh/deep/z": Node(FILE, b"z"),
    b"fresh/empty": FOLDER,
    b"fresh/link": Node(SYMLINK, b"deep/z", 0o777),
    b"shut": Node(DIRECTORY, b"", 0o500),
    b"untouched": Node(FILE, b"mine", 0o640),
}


class World:
    """An ended session, with the commands as a later process of agent-dev would run them."""

    def __init__(self, folder: Path, state: Path | None = None, *, more: tuple[Tree, Tree] = ({}, {})) -> None:
        """Create the session; `more`: additional entries, before and after."""
        before, after = ({**some, **others} for some, others in zip((BEFORE, AFTER), more, strict=True))
        self.ended = EndedSession(folder, before, trees.upper_of(before, after, frozenset()), state)
        self.here = CommandContext(self.ended.store, str(self.ended.real), str(self.ended.real), ENVIRON)
        self.all = trees.differences(BEFORE, AFTER)
        self.printed: list[str] = []
        self.note = folder.with_suffix(".told")  # next to the tree, so that it does not count as a leftover

    def reported(self) -> str:
        """Return the message that a child process wrote to the note file, and delete the file."""
        text = self.note.read_text(encoding="utf-8")
        self.note.unlink()
        return text

    def side(self) -> str:
        """Return the side on which the tree is now: before, after, or neither."""
        tree = trees.read(self.ended.real)
        return "before" if tree == BEFORE else "after" if tree == AFTER else "neither"

    def merge(self) -> None:
        self.ended.merge_all()

    def undo(self) -> None:
        undo.undo(self.here, "", self.printed.append)

    def redo(self) -> None:
        undo.redo(self.here, "", self.printed.append)

    def recover(self) -> None:
        recover.recover_root(self.here.store, self.here.root, ENVIRON, self.printed.append)

    def let_go(self) -> None:
        """Close the lock's descriptor, which a real command's process would no longer have."""
        os.close(self.ended.session.lock)

    def expect_rest(self) -> str:
        """Assert that tree and session agree, no merge is pending, and no files of agent-dev are left; return the side."""
        tree = trees.read(self.ended.real)
        assert tree in (BEFORE, AFTER), differing(tree)
        side = "before" if tree == BEFORE else "after"
        assert self.ended.kinds() == (self.all if side == "before" else {}), side
        assert self.ended.conflicts() == {}, side
        assert pending_marks.unfinished_merges(self.ended.store) == ()
        siblings = {path.name for path in self.ended.real.parent.iterdir()}
        assert siblings - {"state"} == {"real"}
        assert not [path for path in self.ended.upper.rglob("*") if path.name.startswith(".agent-dev")]
        return side


def differing(tree: Tree) -> str:
    paths = sorted(path for path in {*tree, *BEFORE, *AFTER} if not tree.get(path) == BEFORE.get(path) == AFTER.get(path))
    return "\n".join(f"{path!r}: {tree.get(path)}, was {BEFORE.get(path)}, comes {AFTER.get(path)}" for path in paths)


@contextmanager
def world(place: str | None = None, *, more: tuple[Tree, Tree] = ({}, {})) -> Iterator[World]:
    with TemporaryDirectory(dir=place) as folder:
        made = World(Path(folder), more=more)
        made.let_go()
        yield made


def merged(one: World) -> None:
    one.merge()


def undone(one: World) -> None:
    one.merge()
    one.undo()


ACTIONS: dict[str, tuple[Callable[[World], None], Callable[[World], None]]] = {
    "merge": (lambda _: None, World.merge),
    "undo": (merged, World.undo),
    "redo": (undone, World.redo),
}
ENDS = {"merge": "after", "undo": "before", "redo": "after"}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_command_killed_anywhere_leaves_the_state_before_or_after(
    action: str, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = ACTIONS[action]
    sides, number, more = set(), 1 - stride(1), True
    while more:
        number += stride(1)
        with world() as one:
            prepare(one)
            more = faults.killed_at(number, lambda one=one: act(one))  # type: ignore[misc]
            one.recover()
            sides.add(side := one.expect_rest())
            one.recover()
            assert one.expect_rest() == side
            if side != ENDS[action]:
                act(one)
                assert one.expect_rest() == ENDS[action], "the command cannot be repeated"
    record_property("points", number - 1)
    assert sides == {"before", "after"}
    assert number > 30


def broken_recoveries(action: str, broken: Callable[[int, World], bool], stride: int) -> int:
    """Kill a command, fail its recovery at every `stride`-th step, then recover; return the number of failed recoveries.

    `broken` recovers with a failure at the step of that number (from 1), and returns whether that step was reached.
    """
    prepare, act = ACTIONS[action]
    points, number, more = 0, 1, True
    while more:
        second, goes_on = 1, True
        while goes_on:
            with world() as one:
                prepare(one)
                more = faults.killed_at(number, lambda one=one: act(one))  # type: ignore[misc]
                goes_on = broken(second, one)
                one.recover()
                one.expect_rest()
            points += goes_on
            second += stride
        number += STRIDE
    return points


@pytest.mark.parametrize("action", ACTIONS)
def test_a_recovery_killed_anywhere_is_finished_by_the_next(action: str, record_property: Callable[[str, object], None]) -> None:
    points = broken_recoveries(action, lambda step, one: faults.killed_at(step, one.recover), 1)
    record_property("points", points)
    assert points > 10
