"""Histories of a git repository: imports of an agent's commits, all or one, undo and redo; the user edits and commits.

The expected content comes from git alone; trees are compared as in `oracle`.
"""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_dev.errors import AgentDevError, RecoveryRequired, UnknownOutcome, UnreadableSession
from agent_dev.merge_engine import pending_marks
from tests.harness import owner_view
from tests.harness.git.git_session import GitSession
from tests.harness.owner_view import TreeEntries, TreeEntry
from tests.harness.repository import git
from tests.histories import actions, oracle
from tests.histories.actions import Action
from tests.histories.history import Step, first_violation
from tests.histories.oracle import Merge, Violation, demand

STEPS = 8
_KINDS = ("write", "write", "edit", "edit", "edit", "replace", "remove", "rename", "link", "chmod")  # that git can record
_MODES = (0o644, 0o755)
_WORDS = ("user", "user", "user commits", "import", "import", "import one", "undo", "undo", "three-way", "redo", "redo")
_LEFT = "uncommitted"  # the agent's actions after its last commit


def draw(seed: int) -> tuple[Step, ...]:
    """Return the history for a seed: the tree, one to three commits of the agent, its uncommitted changes, then steps."""
    chance = random.Random(seed)  # noqa: S311  (nothing secret)
    first = [Step("begin", (*actions.start(), *draw_recordable(chance, "u", chance.randrange(4))))]
    first += [Step("agent commits", draw_recordable(chance, "a", chance.randrange(1, 5))) for _ in range(chance.randrange(1, 4))]
    first.append(Step(_LEFT, draw_recordable(chance, "a", chance.randrange(3))))
    return (*first, *(_draw(chance) for _ in range(STEPS)))


def _draw(chance: random.Random) -> Step:
    word = chance.choice(_WORDS)
    count = chance.randrange(1, 4) if word.startswith("user") else 0
    return Step(word, draw_recordable(chance, "u", count), chance.randrange(1 << 30))


def draw_recordable(chance: random.Random, who: str, count: int) -> tuple[Action, ...]:
    """Draw some actions whose results git can record."""
    found: list[Action] = []
    while len(found) < count:
        name, path, argument = actions.draw(chance, who, 1)[0]
        if name in _KINDS:
            found.append((name, path, chance.choice(_MODES) if name == "chmod" else argument))
    return tuple(found)


def violation_of(steps: tuple[Step, ...]) -> str:
    """Play a history; return the violation, or ""."""
    return first_violation(lambda place: Player(place, steps), steps)


@dataclass
class Import(Merge):
    """An import of commits; `heads`: HEAD before and after it."""

    heads: tuple[str, str] = ("", "")


@dataclass
class State:
    """The state of the repository and its files."""

    things: TreeEntries
    head: str
    refs: str
    status: dict[bytes, bytes] = field(default_factory=dict)  # by path: two letters


def create_repository(root: Path) -> None:
    """Create the user's repository in an existing directory."""
    git(root, "init", "-q")
    for key, value in (("user.name", "Grace"), ("user.email", "grace@example.invalid")):
        git(root, "config", key, value)


def act_in_git(place: Path, some: tuple[Action, ...]) -> None:
    """Perform actions in a work tree; git records no modes of directories, so that these stay."""
    for name, path, argument in some:
        if name != "chmod" or not os.path.isdir(os.path.join(os.fsencode(place), path)):
            actions.do(os.fsencode(place), (name, path, argument))


class RepositoryChecks:
    """What must be true of the user's repository; `now` is its state after the last step."""

    root: Path
    now: "State"

    def _commit(self) -> None:
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "--allow-empty", "-m", "by the user")

    def _head(self) -> str:
        return git(self.root, "rev-parse", "HEAD").strip()

    def _state(self) -> State:
        refs = git(self.root, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
        rows = os.fsencode(git(self.root, "status", "--porcelain", "-z", "--no-renames", "-uall")).split(b"\0")
        return State(owner_view.entries_below(self.root), self._head(), refs, {row[3:]: row[:2] for row in rows if row})

    def _check_repository(self) -> None:
        demand(not (self.root / ".git/index.lock").exists(), "the index is locked")
        output = git(self.root, "fsck", "--no-dangling", check=False).strip()
        demand(not output or "unborn" in output, f"git fsck: {output}")

    def _same(self, was: State, what: str) -> None:
        self.now = self._state()
        moved = oracle.moved(was.things, self.now.things)
        demand(not moved and (was.head, was.refs) == (self.now.head, self.now.refs), f"{what} and changed {moved or 'a ref'}")
        demand(was.status == self.now.status, f"{what} and changed the index: {was.status} became {self.now.status}")

    def _check_files(self, was: State, reported: frozenset[bytes]) -> None:
        """Check that paths that only the commits changed are as committed, others are unchanged, and no edit is lost."""
        committed = self._committed(was.head, self.now.head)
        for path in oracle.moved(was.things, self.now.things):
            some = (was.things.get(path), self.now.things.get(path))
            is_folder = all(one is None or one.content == b"" for one in some) and path not in committed
            is_meant = path in committed or (is_folder and oracle.is_near(path, committed)) or path == b"."
            demand(is_meant, f"{path!r} is in no commit: {oracle.shown(some[0])} became {oracle.shown(some[1])}")
        for path, wanted in committed.items():
            found, before = self.now.things.get(path), was.things.get(path)
            if path not in was.status and not any(oracle.is_near(path, (one,)) for one in was.status):
                is_right = found == wanted or (wanted is None and found is not None and found.type == 0o040000)
                demand(is_right or path in reported, f"{path!r} is {oracle.shown(found)}, the commit has {oracle.shown(wanted)}")
                demand(path not in self.now.status or path in reported, f"{path!r} has the status {self.now.status.get(path)!r}")
            lost = oracle.tokens(before) - oracle.all_tokens(self.now.things) - self._history_tokens(was.head)
            demand(not lost, f"{path!r}: the user's {lost} are lost")
        for path in (was.status.keys() | self.now.status.keys()) - committed.keys():
            demand(was.status.get(path) == self.now.status.get(path), f"{path!r} had the status {was.status.get(path)!r}")

    def _history_tokens(self, head: str) -> set[bytes]:
        output = os.fsencode(git(self.root, "grep", "-ahoE", "<u[0-9a-f]{6}>", head, check=False))
        return set(output.split())

    def _committed(self, old: str, new: str) -> dict[bytes, TreeEntry | None]:
        """Return the committed entry of each path that the commits changed, according to git."""
        rows = os.fsencode(git(self.root, "diff-tree", "-r", "-z", "--no-renames", old, new)).split(b"\0")
        found: dict[bytes, TreeEntry | None] = {}
        for row, path in zip(rows[::2], rows[1::2], strict=False):
            _, mode, _, oid, _ = row.split(b" ")
            found[path] = self._thing(int(mode, 8), oid.decode()) if int(mode, 8) else None
        return found

    def _thing(self, mode: int, oid: str) -> TreeEntry:
        data = os.fsencode(git(self.root, "cat-file", "blob", oid))
        return TreeEntry(0o120000, 0o777, data) if mode == 0o120000 else TreeEntry(0o100000, mode & 0o777, data)


class Player(RepositoryChecks):
    """A player of steps that runs the oracle after each."""

    def __init__(self, folder: Path, steps: tuple[Step, ...]) -> None:
        self.root = folder / "real"
        self.root.mkdir()
        create_repository(self.root)
        begun = [one for step in steps if step.word == "begin" for one in step.actions]
        act_in_git(self.root, tuple(begun))
        self._commit()
        self.session = GitSession(folder, self.root)
        for step in steps:
            if step.word in ("agent commits", _LEFT):
                act_in_git(self.session.agent, step.actions)
            if step.word == "agent commits":
                self.session.commit("by the agent")
        self.session.end()
        self.tip = self.session.run_agent_git("rev-parse", "HEAD").strip()
        self.commits = self.session.run_agent_git("rev-list", f"{self._head()}..HEAD").split()
        self.merges: list[Import] = []
        self.now = self._state()

    def play(self, step: Step) -> None:
        """Perform a step, and check its result."""
        match step.word:
            case "user":
                self._user(step)
            case "user commits":
                self._user_commits(step)
            case "import":
                self._imported((), {"onto_current": bool(step.seed % 2)})
            case "import one":
                self._import_one(step)
            case "undo" | "three-way":
                self._undone(is_three_way=step.word == "three-way")
            case "redo":
                self._redone()
            case _:
                return
        self._check()

    def _check(self) -> None:
        oracle.check_clean(self.now.things)
        demand(pending_marks.unfinished_merges(self.session.store) == (), "a merge is not complete")
        self._check_repository()

    def _user(self, step: Step) -> None:
        act_in_git(self.root, step.actions)
        self.now = self._state()

    def _user_commits(self, step: Step) -> None:
        act_in_git(self.root, step.actions)
        self._commit()
        self.now = self._state()

    # Imports

    def _import_one(self, step: Step) -> None:
        if self.commits:
            self._imported((self.commits[step.seed % len(self.commits)],), {})

    def _imported(self, words: tuple[str, ...], asked: dict[str, Any]) -> None:
        was = self.now
        try:
            done = self.session.import_commits(*words, **asked)
        except (RecoveryRequired, UnknownOutcome, UnreadableSession) as error:
            raise Violation(f"merge --commits: {type(error).__name__}: {error.message}") from error
        except AgentDevError:
            self._same(was, "merge --commits failed")
            return
        if not done.merge:
            self._same(was, "merge --commits imported nothing")
            return
        self.now = self._state()
        reported = frozenset(os.fsencode(one.key.path) for one in done.not_updated) | {
            key.path for key in (*done.merged_files, *done.split_links)
        }
        self._check_files(was, reported)
        heads = (was.head, self.now.head)
        self.merges.append(Import(done.merge, self.session.session.id, 0, was.things, self.now.things, {}, {}, heads=heads))

    # Undo and redo

    def _undone(self, *, is_three_way: bool) -> None:
        was = self.now
        try:
            done = self.session.undo(is_three_way=is_three_way)
        except (RecoveryRequired, UnknownOutcome, UnreadableSession) as error:
            raise Violation(f"undo: {type(error).__name__}: {error.message}") from error
        except AgentDevError:
            self._same(was, "an undo failed")
            return
        self.now = self._state()
        merge = next(one for one in self.merges if one.id == done.merge)
        left, kept = frozenset(one.key.path for one in done.skipped), frozenset(key.path for key in done.merged_with_yours)
        oracle.check_undo(merge, was.things, self.now.things, left, kept)
        if done.refs and merge.heads[0] != merge.heads[1]:  # otherwise it had created a branch
            demand((was.head, self.now.head) == merge.heads[::-1], f"an undo moved HEAD from {was.head} to {self.now.head}")
        else:
            demand(was.head == self.now.head, "an undo moved HEAD and did not report it")
        merge.stood, merge.undone = was.things, self.now.things

    def _redone(self) -> None:
        was = self.now
        try:
            done = self.session.redo()
        except (RecoveryRequired, UnknownOutcome, UnreadableSession) as error:
            raise Violation(f"redo: {type(error).__name__}: {error.message}") from error
        except AgentDevError:
            self._same(was, "a redo failed")
            return
        self.now = self._state()
        merge = next(one for one in self.merges if one.id == done.merge)
        oracle.check_redo(merge, was.things, self.now.things, frozenset(one.key.path for one in done.skipped))
        is_moved = done.refs and merge.heads[0] != merge.heads[1]
        is_right = (was.head, self.now.head) == merge.heads if is_moved else was.head == self.now.head
        demand(is_right, f"a redo moved HEAD from {was.head} to {self.now.head}")
