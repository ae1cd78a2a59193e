"""Kill an import of commits, its undo or its redo at any step: refs, reflogs, stash, index and files are all old or all new."""

import atexit
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Self

import pytest

from agent_dev.diff.merge3 import ConflictSide
from agent_dev.merge import recover
from agent_dev.merge_engine import pending_marks
from agent_dev.session import store
from tests.harness.faults import faults
from tests.harness.git.git_session import GitSession
from tests.harness.repository import ENVIRON, git, repository
from tests.harness.scale import stride

if TYPE_CHECKING:
    from agent_dev.git.merge_tree_conflict import ConflictResolution, PathConflict

STRIDE = stride(7)


@dataclass(frozen=True)
class State:
    """The complete state of a user's git repository and work tree."""

    refs: str
    logs: dict[str, bytes]
    stash: str
    index: str
    status: str
    files: dict[str, bytes]


@cache
def template() -> Path:
    """Return a repository with a stash, a staged and an unstaged edit, which is created once."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder)
    root = repository(folder / "root")
    git(root, "config", "user.name", "Grace")
    git(root, "config", "user.email", "grace@example.invalid")
    (root / "a.txt").write_text("stashed\n")
    git(root, "stash", "-q")
    (root / "staged").write_text("mine\n")
    git(root, "add", "staged")
    (root / "sub/c.txt").write_text("mine\n")
    return root


class World:
    """A session with commits, in a repository with a stash, a staged and an unstaged edit."""

    def __init__(self, folder: Path) -> None:
        root = folder / "root"
        shutil.copytree(template(), root, symlinks=True)
        git(root, "update-index", "-q", "--refresh")
        self.session = GitSession(folder, root, *self.other_roots(folder))
        self.root = root
        os.makedirs(self.session.store.pending, 0o700)  # exists after any other merge
        (self.session.agent / "sub/b.txt").unlink()
        self.session.write("new/deep/file", "new\n")
        self.session.write("a.txt", "agent\n")
        self.session.run_agent_git("add", "a.txt", "sub/b.txt", "new")
        self.session.run_agent_git("commit", "-q", "-m", "one", "--", "a.txt", "sub/b.txt", "new/deep/file")
        self.session.write("a.txt", "agent\nand more, not committed\n")
        self.add_commits()
        self.session.end()
        store.unlock_session(self.session.session)

    def other_roots(self, _folder: Path) -> tuple[Path, ...]:
        """Create the other roots of the session."""
        return ()

    def add_commits(self) -> None:
        """Let the agent commit in the other roots."""

    @property
    def pack(self) -> Path:
        """Return the directory of the repository's packs."""
        return self.root / ".git/objects/pack"

    def ours(self) -> set[str]:
        """Return the paths and file sizes in the directories of merges."""
        folders = [Path(self.session.store.merges), Path(self.session.store.pending)]
        return {f"{path} {path.is_file() and path.stat().st_size}" for folder in folders for path in folder.rglob("*")}

    def state(self) -> State:
        logs = {str(path): path.read_bytes() for path in (self.root / ".git/logs").rglob("*") if path.is_file()}
        return State(
            git(self.root, "for-each-ref") + (self.root / ".git/HEAD").read_text(),
            logs,
            git(self.root, "stash", "list"),
            git(self.root, "ls-files", "-s", "-v"),
            git(self.root, "--no-optional-locks", "status", "--porcelain"),
            self.session.files(),
        )

    def recover(self) -> None:
        recover.recover_root(self.session.store, str(self.root), ENVIRON, self.session.printed.append)

    def expect_rest(self) -> None:
        """Assert that the repository is valid, no merge is pending, and no files of agent-dev are left."""
        assert git(self.root, "fsck", "--strict", "--no-dangling") == ""
        assert pending_marks.unfinished_merges(self.session.store) == ()
        left = [path for path in self.root.rglob("*") if "agent-dev" in path.name or path.name.endswith(".lock")]
        assert [path for path in left if "refs/agent-dev" not in str(path)] == []
        assert not list((self.root / ".git/objects/pack").glob("tmp_*"))

    def again(self) -> "GitSession":
        """Lock the session again, and return it."""
        self.session.session = store.lock_session(self.session.session)
        return self.session


@contextmanager
def world(kind: type[World] = World) -> Iterator[World]:
    with TemporaryDirectory() as folder:
        yield kind(Path(folder))


Action = Callable[[World], None]


class Worlds:
    """Worlds for commands that run one after the other; a world is reused until a command changes it."""

    def __init__(self, prepare: Action, kind: type[World] = World) -> None:
        self.prepare, self.kind, self.open = prepare, kind, ExitStack()
        self.one: World | None = None
        self.before: State | None = None
        self.packs: set[str] = set()
        self.ours: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open.close()

    def take(self) -> tuple[World, State]:
        """Return a world and its state."""
        if self.one is None or self.before is None:
            self.open.close()
            self.one = self.open.enter_context(world(self.kind))
            self.prepare(self.one)
            self.before, self.packs = self.one.state(), set(os.listdir(self.one.pack))
            self.ours = self.one.ours()
        return self.one, self.before

    def is_kept(self, *, is_as_before: bool) -> bool:
        """Return whether the world is reused for the next command; remove the unreferenced packs that a crash may leave in it.

        A world is not reused if the directory of a merge has additional files: the next command would take other steps.
        """
        if self.one is None or not is_as_before or self.one.ours() != self.ours:
            self.one = None
            return False
        for name in set(os.listdir(self.one.pack)) - self.packs:
            (self.one.pack / name).unlink()
        return True


def run_import(one: World) -> None:
    one.session.import_commits()


def import_as_ref(one: World) -> None:
    one.session.import_commits(name="theirs")


def import_onto_current(one: World) -> None:
    one.session.import_commits(onto_current=True)


def import_resolved(one: World) -> None:
    """Import commits, and resolve a conflict with a commit and two with uncommitted changes, one of which is staged."""
    answers: dict[PathConflict, ConflictResolution] = {}
    while met := one.session.import_commits(onto_current=True, resolutions=answers).resolvable:
        answers |= {each.conflict: ConflictSide.AGENT if each.conflict.path == b"sub/b.txt" else b"both\n" for each in met}


def undo(one: World) -> None:
    one.again().undo()
    store.unlock_session(one.session.session)


def redo(one: World) -> None:
    one.again().redo()
    store.unlock_session(one.session.session)


def nothing(_one: World) -> None:
    pass


def with_a_commit(one: World) -> None:
    (one.root / "mine").write_text("m\n")
    git(one.root, "add", "mine")
    git(one.root, "commit", "-q", "-m", "mine", "--", "mine")


def in_the_way(one: World) -> None:
    """Make a commit and uncommitted edits that conflict with the agent's commits."""
    (one.root / "sub/b.txt").write_text("mine\n")
    git(one.root, "commit", "-q", "-m", "mine", "--", "sub/b.txt")
    (one.root / "a.txt").write_text("mine\n")
    git(one.root, "add", "a.txt")
    (one.root / "a.txt").write_text("mine, and more\n")


def resolved(one: World) -> None:
    in_the_way(one)
    import_resolved(one)


def imported(one: World) -> None:
    one.session.import_commits()


def imported_and_staged(one: World) -> None:
    one.session.import_commits()
    (one.root / "later").write_text("l\n")
    git(one.root, "add", "later")


def undone(one: World) -> None:
    one.session.import_commits()
    undo(one)


def half_undone(one: World) -> None:
    """Let an undo skip two paths that the user had edited, then change both back to the merge's result."""
    one.session.import_commits()
    (one.root / "a.txt").write_text("mine\n")
    (one.root / "sub/b.txt").write_text("mine\n")
    undo(one)
    (one.root / "a.txt").write_text("agent\n")
    (one.root / "sub/b.txt").unlink()


ACTIONS: dict[str, tuple[Action, Action]] = {
    "the branch goes forward": (nothing, run_import),
    "a new branch": (nothing, import_as_ref),
    "on top of mine": (with_a_commit, import_onto_current),
    "with all settled that is in the way": (in_the_way, import_resolved),
    "an undo of what was settled": (resolved, undo),
    "an undo": (imported, undo),
    "an undo after git wrote the index": (imported_and_staged, undo),
    "an undo of what another had to leave": (half_undone, undo),
    "a redo": (undone, redo),
}


def without_time(state: State) -> State:
    """Return the state without what differs between runs, such as the times and the merge's id in reflogs."""
    logs = {os.path.basename(name): b"%d" % data.count(b"\n") for name, data in state.logs.items()}
    index = "\n".join(line.split("\t")[1] for line in state.index.splitlines())
    refs = "\n".join(line.split("\t")[1] for line in state.refs.splitlines() if "\t" in line)
    return State(refs, logs, "", index, state.status, state.files)


def after(prepare: Action, act: Action, kind: type[World] = World) -> tuple[State, list[str]]:
    """Return the state after a command, and its changes to the disk."""
    with world(kind) as one:
        prepare(one)
        steps = faults.list_changes(lambda: act(one))
        one.expect_rest()
        return without_time(one.state()), steps


@pytest.mark.parametrize("action", ACTIONS)
def test_an_import_killed_anywhere_leaves_the_state_before_or_after(
    action: str, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = ACTIONS[action]
    record_property("points", kill_everywhere(prepare, act))


def kill_everywhere(prepare: Action, act: Action, kind: type[World] = World) -> int:
    """Kill a command at its changes to the disk; assert that the state is always the one before or after. Return the number."""
    end, calls = after(prepare, act, kind)
    steps, refs = len(calls), [number for number, call in enumerate(calls, start=1) if call == "refs"]
    near_refs = {min(steps, number + distance) for number in refs for distance in (0, 1)}
    numbers = sorted({1, *range(2, steps + 1, STRIDE), *near_refs, steps + 1})
    sides = set()
    with Worlds(prepare, kind) as worlds:
        for number in numbers:
            one, before = worlds.take()
            was_killed = faults.killed_at(number, lambda one=one: act(one))  # type: ignore[misc]
            assert was_killed == (number <= steps), number
            one.recover()
            state = one.state()
            side = "before" if state == before else "after"
            assert side == "before" or without_time(state) == end, (number, state)
            assert state.stash == before.stash
            one.expect_rest()
            sides.add(side)
            if not worlds.is_kept(is_as_before=side == "before") and side == "before" and number % 2:
                act(one)  # the command can be repeated
                one.expect_rest()
                assert without_time(one.state()) == end, number
    assert sides == {"before", "after"}
    return len(numbers)


@pytest.mark.parametrize("action", ["an undo", "a redo"])
def test_an_import_killed_repeatedly_can_be_finished(action: str) -> None:
    prepare, act = ACTIONS[action]
    end, _ = after(prepare, act)
    with world() as one:
        prepare(one)
        for number in range(1, 25):
            faults.killed_at(number, lambda: act(one))
            one.recover()
            one.expect_rest()
        act(one)

        one.expect_rest()
        assert without_time(one.state()) == end
