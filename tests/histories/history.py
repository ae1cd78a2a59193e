"""Histories: drawn from a seed, played, and shortened if the oracle finds a violation."""

import os
import random
import tempfile
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from unittest import mock

from agent_dev.errors import AgentDevError, RecoveryRequired, UnknownOutcome, UnreadableSession
from agent_dev.fs import background_removal
from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls
from agent_dev.merge.undo import CHANGED, UndoResult
from agent_dev.merge_engine import merge_execution, pending_marks
from agent_dev.overlay.changes import Resolution
from agent_dev.risk import load as risk_load
from tests.harness.owner_view import TreeEntries
from tests.histories import actions, oracle
from tests.histories.actions import Action
from tests.histories.oracle import Interference, Merge, Settled, Violation, demand
from tests.histories.world import Session, World

STEPS = 10
_WORDS = (
    *("user", "user", "run", "resume", "merge", "merge", "merge all", "merge all", "merge part", "undo", "undo", "three-way"),
    *("redo", "redo", "checkpoint", "rollback", "discard", "undiscard", "again"),
)
_COMMANDS = ("merge", "merge all", "merge part", "undo", "three-way", "redo")


@dataclass(frozen=True)
class Step:
    """A step: its kind, the actions of a user or an agent, a seed for choices that depend on the state, concurrent actions."""

    word: str
    actions: tuple[Action, ...] = ()
    seed: int = 0
    concurrent: tuple[Action, ...] = ()  # the user's actions while the command runs:
    moment: int = 0  # the number of the command's change to the disk before which they happen

    def __str__(self) -> str:
        met = (f"at change {self.moment} the user:", *map(actions.reported, self.concurrent)) if self.concurrent else ()
        return "; ".join((self.word if not self.actions else f"{self.word}:", *map(actions.reported, self.actions), *met))


def draw(seed: int) -> tuple[Step, ...]:
    """Return the history for a seed."""
    chance = random.Random(seed)  # noqa: S311  (nothing secret)
    begun = (*actions.start(), *actions.draw(chance, "u", chance.randrange(6)))
    first = (Step("user", begun), Step("run", actions.draw(chance, "a", 12)))
    return (*first, *(_draw(chance) for _ in range(STEPS - len(first))))


def _draw(chance: random.Random) -> Step:
    word = chance.choice(_WORDS)
    count = {"user": 3, "run": 12, "resume": 5}.get(word, 0)
    who = "u" if word == "user" else "a"
    idle = word == "resume" and chance.random() < 0.4
    some = () if idle else actions.draw(chance, who, chance.randrange(1, count + 1) if count else 0)
    seed = chance.randrange(1 << 30)
    if word not in _COMMANDS or chance.random() < 0.7:
        return Step(word, some, seed)
    return Step(word, some, seed, actions.draw(chance, "u", chance.randrange(1, 3)), chance.randrange(1, 50))


def violation_of(steps: tuple[Step, ...]) -> str:
    """Play a history as the current user; return the violation, or ""."""
    return first_violation(Player, steps)


def stages_in_tree() -> AbstractContextManager[object]:
    """Let merges stage their content in the tree, as if the state directory were on another file system."""
    return mock.patch.object(merge_execution, "find_stage_path", lambda places, _: places[-1])


def first_violation(begin: "Callable[[Path], StepPlayer]", steps: tuple[Step, ...]) -> str:
    """Let a new player in a temporary directory play the steps; return the first violation, or ""."""
    with tempfile.TemporaryDirectory(prefix="agent-dev-history-", ignore_cleanup_errors=True) as place, ExitStack() as patches:
        patches.callback(remove_tree, f"{place}/real")
        patches.callback(remove_tree, f"{place}/state")
        patches.enter_context(mock.patch.object(os, "fsync", return_value=None))  # no power is lost here
        patches.enter_context(mock.patch.object(syscalls, "syncfs", return_value=None))
        patches.enter_context(mock.patch.object(background_removal, "remove_in_background", remove_tree))
        patches.enter_context(mock.patch.object(risk_load, "load_risk_rules", return_value=()))  # slow to read
        player = begin(Path(place))
        for number, step in enumerate(steps):
            try:
                player.play(step)
            except Violation as error:
                return f"step {number}: {error}"
            except Exception:  # noqa: BLE001  (any exception is a violation)
                return f"step {number}: {traceback.format_exc()}"
    return ""


def shortened(steps: tuple[Step, ...], play: Callable[[tuple[Step, ...]], str] = violation_of) -> tuple[Step, ...]:
    """Return a history without the steps and actions that the violation does not need."""
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for shorter in _shorter(steps):
            if play(shorter):
                steps, is_shorter = shorter, True
                break
    return steps


def _shorter(steps: tuple[Step, ...]) -> "list[tuple[Step, ...]]":
    found = [(*steps[:at], *steps[at + 1 :]) for at in range(len(steps))]
    for at, step in enumerate(steps):
        for gone in range(len(step.actions)):
            kept = (*step.actions[:gone], *step.actions[gone + 1 :])
            found.append((*steps[:at], replace(step, actions=kept), *steps[at + 1 :]))
        if step.concurrent:
            found.append((*steps[:at], replace(step, concurrent=()), *steps[at + 1 :]))
    return found


class StepPlayer(Protocol):
    """A player of steps."""

    def play(self, step: Step) -> None:
        """Play a step. Raises Violation."""


class Player:
    """A player of steps that runs the oracle after each."""

    def __init__(self, folder: Path, world: World | None = None) -> None:
        self.world = world or World(folder)
        self.merges: list[Merge] = []
        self.real = self.world.things()
        self._step = Step("")
        self._acts = 0  # number of the user's actions
        self._last: Step | None = None
        self._checked: object = None

    def play(self, step: Step) -> None:
        word = step.word
        if word == "again" and self._last is not None:
            word = self._last.word
        chance = random.Random(step.seed)  # noqa: S311  (nothing secret)
        self._step = step
        act = getattr(self, f"_{word.replace(' ', '_').replace('-', '_')}", None)
        if act is not None:
            act(step, chance)
        self._last = replace(step, word=word) if word != "again" else None
        self._check()

    def _check(self) -> None:
        now = self.world.things()
        if now != self.real:
            raise Violation(f"the tree changed: {sorted(oracle.moved(self.real, now))}")
        oracle.check_clean(now)
        demand(
            pending_marks.unfinished_merges(self.world.store) == (),
            f"{pending_marks.unfinished_merges(self.world.store)} is unfinished",
        )
        is_same, self._checked = self._checked == (now, self._versions()), (now, self._versions())
        for one in () if is_same else self._open():
            reported = self.world.changes(one)
            if not (one.is_resumed or one.is_rolled_back):
                oracle.check_reported(reported, (self.world.shown(one), self.real), one.bases, self._settled(one))

    def _settled(self, one: Session) -> tuple[Settled, ...]:
        """Return the agent's changes that the user discarded or merged since."""
        return (one.refused, *(run.merged_entries for run in one.runs))

    def _versions(self) -> "list[tuple[int, int, bool]]":
        return [(one.version, len(one.bases), one.is_discarded) for one in self.world.sessions]

    def _open(self) -> list[Session]:
        return [one for one in self.world.sessions if not (one.is_gone or one.is_discarded)]

    def _one(self, chance: random.Random) -> Session | None:
        some = self._open()
        return chance.choice(some) if some else None

    # The user and agents

    def _user(self, step: Step, _: random.Random) -> None:
        self.world.user(step.actions)
        self._acts += 1
        self.real = self.world.things()

    def _run(self, step: Step, _: random.Random) -> None:
        if len(self._open()) < 2:
            self.world.run(step.actions)

    def _resume(self, step: Step, chance: random.Random) -> None:
        one = self._one(chance)
        if one is not None:
            self.world.resume(one, step.actions)

    # Merges

    def _merge(self, _: Step, chance: random.Random) -> None:
        self._merged(chance, share=0.4)

    def _merge_all(self, _: Step, chance: random.Random) -> None:
        self._merged(chance, share=1.0)

    def _merge_part(self, _: Step, chance: random.Random) -> None:
        self._merged(chance, share=0.7, part=chance.randrange(1, 3))

    def _merged(self, chance: random.Random, share: float, part: int = 0) -> None:
        one = self._one(chance)
        if one is None:
            return
        reported = self.world.changes(one)
        offered = [path for path in sorted(reported) if ":" not in reported[path]]  # the others are problems
        sides = {path: chance.choice(("yours", "agent", "both")) for path in offered}
        paths = frozenset(path for path in offered if chance.random() < share)
        before, view = self.real, self.world.shown(one)
        try:
            with self._interference() as met:
                done, parted = self.world.merge(one, paths, sides, part)
        except (RecoveryRequired, UnknownOutcome, UnreadableSession) as error:
            raise Violation(f"merge: {type(error).__name__}: {error.message}") from error
        except AgentDevError:
            self._nothing_changed(before, met)  # an invalid selection
            return
        began = before
        taken = {change.key.path: str(change.kind) for change in done.applied}
        by_hand = frozenset(
            change.key.path for change in done.applied if change.resolution is Resolution.AGENT or change.is_session_only or part
        )
        before, self.real = self._since(
            before, met, frozenset(one.key.path for one in done.applied if one.resolution is Resolution.AGENT)
        )
        asked = taken.keys() | {one.key.path for one in (*done.skipped, *done.conflicts)}
        done_by_user = {path for path in met.paths if oracle.is_alike(view.get(path), before.get(path))}
        left = (paths & reported.keys()) - asked - done_by_user
        demand(not left or part, f"{left} were selected, and neither applied nor reported")
        trees = met.apart(before), met.apart(self.real)
        oracle.check_merge(trees, met.apart_of(taken), view, one.runs, by_hand, self._settled(one))
        dropped = {change.key.path for change in done.applied if change.is_session_only}
        over = [*dropped, *(taken.keys() & met.paths)]  # changed by the user right after they were merged
        one.refused |= {path: view.get(path) for path in over}
        for run in one.runs:
            run.merged.update(taken.keys() - parted)
        if done.id:
            one.version += 1
            version = -1 if met.paths else one.version  # the earlier list of changes may be outdated
            split = met.split(began, self.real, view, taken.keys() - dropped)
            by_both = met.by_both(began, self.real, view, taken.keys() - dropped)
            self.merges.append(Merge(done.id, one.id, version, *split, reported, view, by_both=by_both))

    def _interference(self) -> AbstractContextManager[Interference]:
        self._acts += bool(self._step.concurrent)
        return self.world.interference(self._step.concurrent, self._step.moment)

    def _since(
        self, before: TreeEntries, met: Interference, by_hand: frozenset[bytes] = frozenset()
    ) -> tuple[TreeEntries, TreeEntries]:
        """Return the tree before a command with the user's concurrent changes, and the current tree."""
        now = self.world.things()
        met.check(now, by_hand)
        return met.applied(before), now

    def _nothing_changed(self, before: TreeEntries, met: Interference) -> None:
        before, now = self._since(before, met)
        changed = oracle.moved(met.apart(before), met.apart(now))
        demand(not changed, f"the command failed and changed {changed}")
        self.real = now

    # Undo and redo

    def _undo(self, _: Step, chance: random.Random) -> None:
        self._undone(chance, is_three_way=False)

    def _three_way(self, _: Step, chance: random.Random) -> None:
        self._undone(chance, is_three_way=True)

    def _undone(self, chance: random.Random, *, is_three_way: bool) -> None:
        named = chance.choice(self.merges).id if self.merges and chance.random() < 0.3 else ""
        standing = [one.id for one in self.merges if not one.is_undone]
        try:
            with self._interference() as met:
                done = self.world.undo(named, is_three_way=is_three_way)
        except (RecoveryRequired, UnknownOutcome, UnreadableSession) as error:
            raise Violation(f"undo: {type(error).__name__}: {error.message}") from error
        except AgentDevError as error:
            may_fail = named or not standing or met.paths or self._may_refuse_undo()
            demand(may_fail, f"undo: {error.message}, but {standing} stand")
            self._nothing_changed(self.real, met)
            return
        merge = self._meant(done, named)
        before, self.real = self._since(self.real, met)
        left, kept = (frozenset(key.path for key in keys) for keys in ((one.key for one in done.skipped), done.merged_with_yours))
        oracle.check_undo(merge.apart(met), met.apart(before), met.apart(self.real), left, kept)
        merge.is_undone = merge.is_undone or bool(done.paths)
        merge.last_back = frozenset(key.path for key in done.paths)
        earlier = {path: merge.stood[path] for path in merge.back - merge.last_back if path in merge.stood}
        merge.back |= merge.last_back
        merge.stood, merge.undone, merge.undone_at = before | earlier, self.real, -1 if self._step.concurrent else self._acts
        session = next(one for one in self.world.sessions if one.id == merge.session)
        session.refused.clear()
        for run in session.runs:
            run.merged.difference_update(merge.back)
        whole = not (left or kept or met.paths) and before == merge.after and session.version == merge.version
        if whole and not (session.is_gone or session.is_discarded):
            session.version -= 1
            reported = self.world.changes(session)
            oracle.check_reported_again(merge, reported, session.bases)
        else:
            session.version += 100  # its content now differs from that before any other merge of it

    def _may_refuse_undo(self) -> bool:
        """Return whether an undo may be refused although a merge stands."""
        return False

    def _redo(self, _: Step, chance: random.Random) -> None:
        named = chance.choice(self.merges).id if self.merges and chance.random() < 0.3 else ""
        try:
            with self._interference() as met:
                done = self.world.redo(named)
        except (RecoveryRequired, UnknownOutcome, UnreadableSession) as error:
            raise Violation(f"redo: {type(error).__name__}: {error.message}") from error
        except AgentDevError:
            self._nothing_changed(self.real, met)
            return
        merge, began = self._meant(done, named), self.real
        before, self.real = self._since(self.real, met)
        left = frozenset(one.key.path for one in done.skipped)
        oracle.check_redo(merge.apart(met), met.apart(before), met.apart(self.real), left)
        # What an earlier undo restored, the user may have changed before the last one.
        changed = [one.key.path for one in done.skipped if one.reason == CHANGED and one.key.path in merge.last_back]
        is_as_undone = before == merge.undone and merge.undone_at == self._acts
        demand(not changed or not is_as_undone, f"redo: reports that you changed {changed}, and nobody did")
        merge.is_undone = merge.is_undone and not done.paths
        paths = {key.path for key in done.paths}
        merge.redone(paths, met.split(began, self.real, merge.after, paths)[0])
        merge.by_both |= met.by_both(began, self.real, merge.after, paths)
        session = next(one for one in self.world.sessions if one.id == merge.session)
        session.version += 100

    def _meant(self, done: UndoResult, named: str) -> Merge:
        demand(not named or done.merge == named, f"{done.merge} was driven, {named} was named")
        return next(one for one in self.merges if one.id == done.merge)

    # Sessions

    def _checkpoint(self, _: Step, chance: random.Random) -> None:
        one = self._one(chance)
        if one is not None:
            one.checkpoints[self.world.checkpoint(one)] = self.world.shown(one)

    def _rollback(self, _: Step, chance: random.Random) -> None:
        one = self._one(chance)
        if one is None or not one.checkpoints:
            return
        number = chance.choice(sorted(one.checkpoints))
        problems = self.world.roll_back(one, number)
        one.is_rolled_back = True
        one.version += 100
        demand(not problems, f"rollback: {problems}")

    def _discard(self, _: Step, chance: random.Random) -> None:
        one = self._one(chance)
        if one is not None:
            self.world.discard(one)

    def _undiscard(self, _: Step, chance: random.Random) -> None:
        some = [one for one in self.world.sessions if one.is_discarded]
        if some:
            self.world.undiscard(chance.choice(some))
