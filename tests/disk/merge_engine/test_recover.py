"""Recovery of a killed merge keeps everything that the user did before the next command."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.config.profile import Profile
from agent_dev.errors import CannotMerge, CannotUndo, RecoveryRequired
from agent_dev.fs import durable
from agent_dev.merge import history, undo
from agent_dev.merge_engine import pending_marks
from agent_dev.retention import merges
from agent_dev.session.sessions import CommandContext
from agent_dev.session.store import Store
from tests.faults.test_kill_everywhere import AFTER, BEFORE, World, world
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.faults import faults
from tests.harness.trees import FILE, Node, UpperEntry


def killed_after_its_last_operation(one: World) -> None:
    """Kill a merge before its commit mark, when every operation has been done."""
    calls: list[str] = []

    def note(call: str, _words: tuple[object, ...]) -> None:
        calls.append(call)

    with world() as other, faults.with_hook(note):
        other.merge()
    moves = [number for number, call in enumerate(calls, 1) if call in ("move", "exchange", "chmod")]
    before_commit = max(number for number in moves if "whiteout" not in calls[:number]) + 1
    assert faults.killed_at(before_commit, one.merge)
    assert one.side() == "after"


def rewrite(path: Path) -> None:
    path.write_bytes(b"the user's, since")


def save_by_rename(path: Path) -> None:
    path.with_name("saving").write_bytes(b"the user's, since")
    path.with_name("saving").rename(path)


@pytest.mark.parametrize("action", [rewrite, save_by_rename])
@pytest.mark.parametrize("name", ["edited", "new/y", "gone"])
def test_an_unexpected_entry_stops_recovery_and_undo_skips_it(name: str, action: Callable[[Path], None]) -> None:
    with world() as one:
        killed_after_its_last_operation(one)
        action(one.ended.real / name)
        before = trees.read(one.ended.real)
        with pytest.raises(RecoveryRequired, match="nothing was changed"):
            one.recover()
        assert trees.read(one.ended.real) == before

        (merge_id,) = pending_marks.unfinished_merges(one.ended.store)
        with pytest.raises(CannotUndo):  # the merge was rolled back, so there is nothing to undo
            undo.undo(one.here, merge_id, one.printed.append)
        after = trees.read(one.ended.real)
        yours = after.pop(name.encode())
        assert yours.content == b"the user's, since"
        for folder in (b"new",) if name == "new/y" else ():
            after.pop(folder)  # the directory contains the user's file
        assert after == {path: node for path, node in BEFORE.items() if path != name.encode()}
        assert pending_marks.unfinished_merges(one.ended.store) == ()


def test_a_root_that_was_replaced_stops_recovery() -> None:
    with world() as one:
        killed_after_its_last_operation(one)
        real = one.ended.real
        real.rename(real.with_name("moved"))
        real.mkdir()
        with pytest.raises(RecoveryRequired, match="not the same directory"):
            one.recover()
        assert os.listdir(real) == []
        real.rmdir()
        real.with_name("moved").rename(real)
        one.recover()
        assert one.expect_rest() == "before"


def test_undo_and_redo_work_after_the_session_was_discarded() -> None:
    with world() as one:
        one.merge()
        folder = Path(one.ended.session.folder)
        folder.rename(folder.parent.parent / "trash" / folder.name)
        one.undo()
        assert trees.read(one.ended.real) == BEFORE
        one.redo()
        assert trees.read(one.ended.real) == AFTER


# --- pruning ---


def here_with(one: EndedSession, **settings: int) -> CommandContext:
    return CommandContext(one.store, str(one.real), str(one.real), ENVIRON, Profile(name="default", **settings))  # type: ignore[arg-type]


def merged_thrice(tmp_path: Path) -> EndedSession:
    names = [b"a", b"b", b"c"]
    base = dict.fromkeys(names, Node(FILE, b"old" * 200_000))
    one = EndedSession(tmp_path, base, [UpperEntry(name, Node(FILE, b"new")) for name in names])
    for name in names:
        one.merge(name)
    return one


@pytest.mark.parametrize(
    ("settings", "left"),
    [({}, 3), ({"keep_merges_days": 0}, 1), ({"keep_merges_mib": 1}, 1), ({"keep_merges_mib": 4}, 3)],
)
def test_old_and_large_merges_are_pruned_but_never_the_newest(tmp_path: Path, settings: dict[str, int], left: int) -> None:
    with merged_thrice(tmp_path) as one:
        newest = history.list_merges(here_with(one))[-1].id
        where = here_with(one, **settings)
        merges.remove_merges(where, merges.find_expired(where).expired, lambda _: None)

        kept = [merge.id for merge in history.list_merges(here_with(one))]
        assert (len(kept), kept[-1]) == (left, newest)


def test_the_fault_injection_hook_is_unset_by_default() -> None:
    assert durable.hook is None


def test_an_undo_whose_mark_cannot_be_written_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = pending_marks.mark_pending
    counts: list[int] = []

    def refused(place: Store, merge_id: str, count: int = 0) -> None:
        counts.append(count)
        if len(counts) == 2:  # the second mark is written with the phase, the first before anything is checked
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        add(place, merge_id, count)

    with world() as one:
        one.merge()
        monkeypatch.setattr(pending_marks, "mark_pending", refused)
        with pytest.raises(CannotMerge, match="nothing was changed"):
            one.undo()
        assert one.expect_rest() == "after"
        one.undo()
        assert one.expect_rest() == "before"
