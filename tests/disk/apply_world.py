"""A real tree, an upper beside it, and merge plans carried out from one on the other."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from agent_dev.fs import dir_tree as files
from agent_dev.linux import syscalls as kernel
from agent_dev.merge_engine import journal_file as journals
from agent_dev.merge_engine import merge_execution as apply
from agent_dev.merge_engine import replaced_files as secure
from agent_dev.merge_engine import staging
from agent_dev.merge_engine.journal import Act
from agent_dev.merge_engine.merge_execution import Grounds
from agent_dev.merge_engine.merge_plan import MergePlan, Put, Remove, Step
from agent_dev.overlay.changes import Entry, Key
from agent_dev.session.store import Store
from tests.harness import trees
from tests.harness.trees import DIRECTORY, FIFO, FILE, SYMLINK, Node, Tree


@dataclass
class Applied:
    """What a merge did: taken keys, those that were stopped, the slots of what was replaced."""

    taken: list[Key]
    stopped: dict[Key, str]
    kept: dict[Key, str]


class World:
    """A real tree, an upper beside it, and a merge's own folder in a state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.real, self.upper, self.merge = folder / "real", folder / "upper", self.state / "merges/1"
        for path in (self.real, self.upper, self.merge.parent):
            path.mkdir(parents=True, exist_ok=True)
        self.places: tuple[str, ...] = (f"{self.merge}/stage-0",)
        self._real, self._upper = files.Tree(str(self.real)), files.Tree(str(self.upper))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._real.close()
        self._upper.close()

    def now(self, path: str) -> Entry:
        """Return what stands in the real tree."""
        entry = self._real.look(os.fsencode(path))
        assert entry is not None, path
        return entry

    def new(self, path: str) -> Entry:
        """Return what the agent left."""
        entry = self._upper.look(os.fsencode(path))
        assert entry is not None, path
        return entry

    def add(self, path: str) -> Put:
        return Put(key(path), self.new(path), None)

    def put(self, path: str) -> Put:
        return Put(key(path), self.new(path), self.now(path))

    def remove(self, path: str) -> Remove:
        return Remove(key(path), self.now(path))

    def apply(self, *steps: Step) -> Applied:
        plan = MergePlan(steps, tuple(step.key for step in steps), (), ())
        place, grounds = Store(str(self.state)), Grounds((self._upper,), (self._real,), (self.places,))
        merging = apply.begin(place, "1", "session", grounds, {0})
        try:
            reached = apply.carry_out(merging, staging.stage(merging, plan, grounds.uppers)[0], (), is_atomic=False)
            ops = merging.journal.ops
            if merging.journal.phases:
                secure.secure(merging)
            assert merging.journal == journals.read(merging.folder)  # what we think is what a later command reads
        except BaseException:
            apply.forget(place, "1", merging.journal.places)
            raise
        finally:
            merging.close()
        stopped = {ops[number].key: why for number, why in reached.stopped.items() if why}
        done = [op for number, op in enumerate(ops) if number not in reached.stopped]
        kept = {op.key: op.slot for op in done if op.old and op.slot and op.act is not Act.PRUNE}
        return Applied([key for key in plan.taken if key not in stopped], stopped, kept)

    def kept(self, done: Applied, path: str) -> Path:
        return self.merge / "stage-0" / done.kept[key(path)]


def key(path: str) -> Key:
    return Key(0, os.fsencode(path))


@contextmanager
def world_below(folder: Path) -> Iterator[World]:
    """Make a world; no test leaves a stage, a probe or an overlay attribute in its real tree."""
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
    """Do something just before or after a merge's own renames of one name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []
        self._name, self._real = name, kernel.rename
        monkeypatch.setattr(kernel, "rename", self)

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
