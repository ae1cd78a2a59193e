"""A real tree and an upper, and merge plans applied from one to the other."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from agent_dev.fs import dir_tree
from agent_dev.fs.entry import Entry, Key
from agent_dev.linux import syscalls
from agent_dev.merge_engine import journal_file, merge_execution, remove_merge, replaced_files, staging
from agent_dev.merge_engine.journal import Intent, OpKind
from agent_dev.merge_engine.merge_execution import MergeTrees
from agent_dev.merge_engine.merge_plan import MergePlan, PutEntry, RemoveEntry, Step
from agent_dev.session.store import Store
from tests.harness import trees
from tests.harness.trees import DIRECTORY, FIFO, FILE, SYMLINK, Node, Tree


@dataclass
class Applied:
    """The outcome of a merge: keys of applied and of blocked changes, and the slots of replaced entries."""

    taken: list[Key]
    stopped: dict[Key, str]
    kept: dict[Key, str]
    needless: list[Key]  # the operations that had nothing to do


class World:
    """A real tree, an upper, and the directory of a merge in a state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.real, self.upper, self.merge = folder / "real", folder / "upper", self.state / "merges/1"
        for path in (self.real, self.upper, self.merge.parent):
            path.mkdir(parents=True, exist_ok=True)
        self.places: tuple[str, ...] = (f"{self.merge}/stage-0",)
        self._real, self._upper = dir_tree.Tree(str(self.real)), dir_tree.Tree(str(self.upper))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._real.close()
        self._upper.close()

    def now(self, path: str) -> Entry:
        """Return the current entry of the real tree."""
        entry = self._real.entry_at(os.fsencode(path))
        assert entry is not None, path
        return entry

    def new(self, path: str) -> Entry:
        """Return the agent's entry."""
        entry = self._upper.entry_at(os.fsencode(path))
        assert entry is not None, path
        return entry

    def add(self, path: str) -> PutEntry:
        return PutEntry(key(path), self.new(path), None)

    def put(self, path: str) -> PutEntry:
        return PutEntry(key(path), self.new(path), self.now(path))

    def remove(self, path: str) -> RemoveEntry:
        return RemoveEntry(key(path), self.now(path))

    def apply(self, *steps: Step) -> Applied:
        plan = MergePlan([*steps], tuple(step.key for step in steps), (), ())
        place, grounds = Store(str(self.state)), MergeTrees((self._upper,), (self._real,), (self.places,))
        merging = merge_execution.begin_merge(place, "1", "session", grounds, {0})
        try:
            intent = Intent(staging.stage_plan(merging, plan, grounds.upper_trees)[0])
            reached = merge_execution.run_merge(merging, intent, is_atomic=False)
            ops = merging.journal.ops
            if merging.journal.phases:
                replaced_files.secure_replaced_files(merging)
            assert merging.journal == journal_file.read_journal(merging.folder)  # a later command reads exactly this journal
        except BaseException:
            remove_merge.remove_merge_files(place, "1", merging.journal.stage_paths)
            raise
        finally:
            merging.close()
        stopped = {ops[number].key: why for number, why in reached.stopped.items() if why}
        done = [op for number, op in enumerate(ops) if number not in reached.stopped]
        kept = {op.key: op.slot for op in done if op.old and op.slot and op.kind is not OpKind.PRUNE}
        needless = [ops[number].key for number, why in reached.stopped.items() if not why]
        return Applied([key for key in plan.selected if key not in stopped], stopped, kept, needless)

    def kept(self, done: Applied, path: str) -> Path:
        return self.merge / "stage-0" / done.kept[key(path)]


def key(path: str) -> Key:
    return Key(0, os.fsencode(path))


@contextmanager
def world_below(folder: Path) -> Iterator[World]:
    """Yield a world; check that no stage, probe or overlay attribute is left in its real tree."""
    with World(folder) as world:
        yield world
        left = [path for path in world.real.rglob("*") if path.name.startswith((".agent-dev", "probe"))]
        marked = [
            path
            for path in world.real.rglob("*")
            if not path.is_symlink() and any("overlay" in name for name in os.listxattr(path))
        ]
        assert (left, marked) == ([], []), (left, marked)
        assert not world.merge.exists() or {path.name for path in world.merge.iterdir()} <= {"journal", "results", "stage-0"}


SORTS = {
    FILE: Node(FILE, b"content", 0o640),
    SYMLINK: Node(SYMLINK, b"../elsewhere", 0o777),
    FIFO: Node(FIFO, b"", 0o600),
    DIRECTORY: Node(DIRECTORY, b"", 0o750),
}
OTHERS = {FILE: Node(FILE, b"old", 0o600), SYMLINK: Node(SYMLINK, b"/etc/passwd", 0o777), FIFO: Node(FIFO, b"", 0o644)} | {
    DIRECTORY: Node(DIRECTORY, b"", 0o700)
}


def place(folder: Path, tree: dict[str, Node]) -> None:
    trees.write(folder, {os.fsencode(path): node for path, node in tree.items()})


def tree_of(folder: Path) -> Tree:
    return trees.read(folder)


class LastInstant:
    """Calls functions just before or after the merge's own renames of one name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []
        self._name, self._real = name, syscalls.rename
        monkeypatch.setattr(syscalls, "rename", self)

    def __call__(self, old_folder: int, old: bytes, new_folder: int, new: bytes, flags: int = 0) -> None:
        is_sessions = os.readlink(f"/proc/self/fd/{old_folder}").endswith("/upper")
        if self._name not in (old, new) or is_sessions:
            self._real(old_folder, old, new_folder, new, flags)
            return
        if self.before:
            self.before.pop(0)()
        self._real(old_folder, old, new_folder, new, flags)
        if self.after:
            self.after.pop(0)()
