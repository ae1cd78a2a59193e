"""Histories that mix imports of commits with merges of files, in a git repository with up to two sessions.

The agents work in overlays, where they also commit; the user edits and commits. The oracles are those of `history` and `commits`.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_dev.agent_git import refs
from agent_dev.commits import importer
from agent_dev.commits.import_result import ImportResult
from agent_dev.commits.targets import ImportOptions
from agent_dev.errors import AgentDevError, RecoveryRequired, UnknownOutcome, UnreadableSession
from agent_dev.git import private_copy
from agent_dev.merge import pack, session_access
from agent_dev.merge.review import Review
from agent_dev.merge.undo import UndoResult
from agent_dev.overlay import lower_snapshot_request, lower_snapshot_take
from agent_dev.session import store
from tests.harness.repository import ENVIRON, git
from tests.histories import actions, history
from tests.histories.actions import Action
from tests.histories.commits import Import, RepositoryChecks, act_in_git, create_repository, draw_recordable
from tests.histories.history import Step, first_violation
from tests.histories.oracle import Settled, Violation, demand
from tests.histories.world import Session, World

STEPS = 10
_COMMIT = "commit"  # an agent's action
WORDS = (
    *("user", "user", "user commits", "run", "resume", "merge", "merge all", "merge part", "merge part", "import", "import"),
    *("import one", "import one", "undo", "undo", "undo", "three-way", "redo", "redo", "checkpoint", "checkpoint", "rollback"),
    *("discard", "undiscard", "again"),
)


def draw(seed: int) -> tuple[Step, ...]:
    """Return the history for a seed: a committed tree, a run with commits, then steps."""
    chance = random.Random(seed)  # noqa: S311  (nothing secret)
    begun = (*actions.start(), *draw_recordable(chance, "u", chance.randrange(4)))
    first = (Step("user commits", begun), Step("run", _draw_agent(chance, 8)))
    return (*first, *(_draw(chance) for _ in range(STEPS)))


def _draw(chance: random.Random) -> Step:
    word = chance.choice(WORDS)
    some: tuple[Action, ...] = ()
    if word.startswith("user"):
        some = draw_recordable(chance, "u", chance.randrange(1, 4))
    elif word == "run" or (word == "resume" and chance.random() < 0.7):
        some = _draw_agent(chance, 6)
    return Step(word, some, chance.randrange(1 << 30))


def _draw_agent(chance: random.Random, most: int) -> tuple[Action, ...]:
    """Draw actions of an agent, with commits among them."""
    found: list[Action] = []
    for action in draw_recordable(chance, "a", chance.randrange(1, most + 1)):
        found.append(action)
        if chance.random() < 0.4:
            found.append((_COMMIT, b".", b"<a%06x>" % chance.randrange(1 << 24)))
    return tuple(found)


def violation_of(steps: tuple[Step, ...]) -> str:
    """Play a history as the current user; return the violation, or ""."""
    return first_violation(Player, steps)


class GitWorld(World):
    """A world whose root is a repository, of which each session has a private copy."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        create_repository(self.real)
        git(self.real, "commit", "-q", "--allow-empty", "-m", "first")
        self.result: UndoResult | None = None  # of the last undo or redo

    def user(self, some: tuple[Action, ...]) -> list[bool]:
        act_in_git(self.real, some)
        return []

    def _prepare(self, held: store.Session) -> store.Record:
        git_dir, upper = f"{self.real}/.git", held.root(0, str(self.real)).upper
        os.mkdir(f"{held.folder}/git")
        request = private_copy.CopyRequest(git_dir, f"{upper}/.git", f"{held.folder}/objects", "0")
        copy = private_copy.create_private_copy(request, "")
        record: store.Record = {
            **super()._prepare(held),
            "agent_home": f"{self.view}-home",  # an empty one would contain git
            "git": [{"root": 0, "folder": git_dir, "common": git_dir, "inside": True}],
            "stores": [list(pair) for pair in copy.stores],
        }
        refs.record_initial_refs(held, record)
        store.write_record(held, record)
        return record

    def _take_snapshot(self, held: store.Session, touched: tuple[lower_snapshot_request.PriorChanges, ...] = ()) -> None:
        request = lower_snapshot_request.SnapshotRequest(
            roots=(str(self.real),), git=f"{self.real}/.git", program="/usr/bin/git", environ=ENVIRON, touched=touched
        )
        lower_snapshot_take.take_snapshot(held.lower_snapshot, request)

    def _do(self, session: store.Session, view: bytes, action: Action) -> bool:
        if action[0] != _COMMIT:
            act_in_git(Path(os.fsdecode(view)), (action,))
            return True
        self._git(session, Path(os.fsdecode(view)), "add", "-A")
        self._git(session, Path(os.fsdecode(view)), "commit", "-q", "-m", os.fsdecode(bytes(action[2])))
        return True

    def _git(self, session: store.Session, place: Path, *words: str) -> str:
        """Run git with the object stores at their paths outside; an error leaves the repository as it is."""
        stores = [outside for outside, _ in store.read_record(session)["stores"]]
        return git(place, *words, check=False, GIT_ALTERNATE_OBJECT_DIRECTORIES=":".join(stores))

    def list_commits(self, one: Session) -> list[str]:
        """Return the commits of a session's agent that the user does not have."""
        held = self.listed(one).session
        head = git(self.real, "rev-parse", "HEAD").strip()
        rows = self._git(held, Path(held.root(0, str(self.real)).upper), "rev-list", "HEAD", f"^{head}")
        return [row for row in rows.split() if len(row) == len(head)]

    def import_commits(self, one: Session, words: tuple[str, ...], *, onto_current: bool) -> ImportResult:
        """Import commits of a session, those of its branch by default."""
        done: list[ImportResult] = []

        def act(review: Review) -> None:
            options = ImportOptions(words or ("",), include_risky=True, onto_current=onto_current)
            done.append(importer.import_commits(review, options, self.store, lambda _: None))

        self.reviewed(one, act)
        return done[0]

    def undo(self, merge_id: str, *, is_three_way: bool) -> UndoResult:
        with self._archived():
            self.result = super().undo(merge_id, is_three_way=is_three_way)
        return self.result

    def redo(self, merge_id: str) -> UndoResult:
        with self._archived():
            self.result = super().redo(merge_id)
        return self.result

    @contextmanager
    def _archived(self) -> Iterator[None]:
        """Archive all sessions, as the cleaning does with old merged ones; restore them at the end, if no command has."""
        for one in store.all_sessions(self.store):
            held = store.lock_session(one)
            pack._archive(held)
            store.unlock_session(held)
        try:
            yield
        finally:
            for one in store.all_sessions(self.store):
                held = store.lock_session(one)
                session_access.finish_interrupted_work(held)
                store.unlock_session(held)


@dataclass
class SessionImport(Import):
    """An import from a session; `committed`: the entries that the agent committed, by path."""

    committed: Settled = field(default_factory=dict)

    @property
    def settled(self) -> Settled:
        return {path: one for path, one in self.committed.items() if path not in self.back}


class Player(history.Player, RepositoryChecks):
    """A player of steps that runs the oracles after each."""

    def __init__(self, folder: Path) -> None:
        self.git_world = GitWorld(folder)
        super().__init__(folder, self.git_world)
        self.root = self.git_world.real
        self.now = self._state()

    def play(self, step: Step) -> None:
        super().play(step)
        self._check_repository()

    def _settled(self, one: Session) -> tuple[Settled, ...]:
        imports = (merge for merge in self.merges if isinstance(merge, SessionImport) and merge.session == one.id)
        return (*super()._settled(one), *(merge.settled for merge in imports))

    def _user_commits(self, step: Step, _: random.Random) -> None:
        self._user(step, _)
        self._commit()

    # Imports

    def _import(self, _: Step, chance: random.Random) -> None:
        one = self._one(chance)
        if one is not None:
            self._imported(one, (), onto_current=chance.random() < 0.5)

    def _import_one(self, _: Step, chance: random.Random) -> None:
        one = self._one(chance)
        commits = self.git_world.list_commits(one) if one else []
        if one is not None and commits:
            self._imported(one, (chance.choice(commits),), onto_current=False)

    def _imported(self, one: Session, words: tuple[str, ...], *, onto_current: bool) -> None:
        self.now = was = self._state()
        reported, view = self.world.changes(one), self.world.shown(one)
        try:
            done = self.git_world.import_commits(one, words, onto_current=onto_current)
        except (RecoveryRequired, UnknownOutcome, UnreadableSession) as error:
            raise Violation(f"merge --commits: {type(error).__name__}: {error.message}") from error
        except AgentDevError:
            self._same(was, "merge --commits failed")
            return
        if not done.merge:
            self._same(was, "merge --commits imported nothing")
            return
        self.now = self._state()
        self.real = self.now.things
        named = frozenset(os.fsencode(row.key.path) for row in done.not_updated)
        self._check_files(was, named | {key.path for key in (*done.merged_files, *done.split_links)})
        committed: Settled = dict(self._committed(was.head, self.now.head))
        one.version += 100
        heads, trees = (was.head, self.now.head), (was.things, self.real)
        self.merges.append(SessionImport(done.merge, one.id, -1, *trees, reported, view, heads=heads, committed=committed))

    # Undo and redo

    def _undone(self, chance: random.Random, *, is_three_way: bool) -> None:
        self.git_world.result, was = None, self._head()
        super()._undone(chance, is_three_way=is_three_way)
        self._check_head(was, is_forward=False)

    def _redo(self, step: Step, chance: random.Random) -> None:
        self.git_world.result, was = None, self._head()
        super()._redo(step, chance)
        self._check_head(was, is_forward=True)

    def _may_refuse_undo(self) -> bool:
        """Return whether an import stands: its undo is refused if the user committed since."""
        return any(isinstance(merge, SessionImport) and not merge.is_undone for merge in self.merges)

    def _check_head(self, was: str, *, is_forward: bool) -> None:
        """Check that HEAD moved only with an import, between the commits before and after it."""
        done, now = self.git_world.result, self._head()
        merge = next((one for one in self.merges if done is not None and one.id == done.merge), None)
        if done is not None and done.refs and isinstance(merge, SessionImport) and merge.heads[0] != merge.heads[1]:
            wanted = merge.heads if is_forward else merge.heads[::-1]
            demand((was, now) == wanted, f"HEAD moved from {was} to {now}, and not from {wanted[0]} to {wanted[1]}")
        else:
            demand(was == now, f"HEAD moved from {was} to {now}")
