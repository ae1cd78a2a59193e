"""A checkpoint stores the content of an upper, and a rollback restores exactly that, even if it is killed at any point."""

import errno
import hashlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings

from agent_dev.checkpoint import checkpoint_store, content_pool, operations, rollback, snapshot
from agent_dev.errors import CheckpointFailed, DamagedCheckpoint, SessionBusy, UnknownCheckpoint
from agent_dev.merge import session_access
from agent_dev.session import open_transaction, store
from agent_dev.snapshot_retention import RetentionLimits
from tests.harness import trees
from tests.harness.checkpointed_session import CheckpointedSession, state
from tests.harness.faults import faults
from tests.harness.trees import Tree

EXAMPLES = int(os.environ.get("AGENT_DEV_CHECKPOINT_EXAMPLES", "40"))
DAY = 24 * 3600 * 10**9


def decorate(upper: Path, seed: bytes) -> None:
    """Give some files attributes, additional hard links, and times that no new file has."""
    files = sorted(path for path in upper.rglob("*") if path.is_file() and not path.is_symlink())
    for number, path in enumerate(files):
        if number % 2 == len(seed) % 2:
            os.setxattr(path, "user.note", seed)
            os.utime(path, ns=(10**18 + number, 10**18 + number))
        if number % 3 == 0:
            os.link(path, upper / f"twin-{number}-{len(seed)}")


def test_an_automatic_checkpoint_does_not_replace_one_with_a_reason(world: CheckpointedSession) -> None:
    (world.upper / "file").write_text("work")
    causes = (checkpoint_store.START, "rm -r own", "rm -r other", checkpoint_store.TIMER, checkpoint_store.END)
    taken = [checkpoint_store.take_checkpoint(world.session, world.record, cause).number for cause in causes]
    assert taken == [1, 2, 2, 2, 2]


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=trees.pairs(), second=trees.pairs())
def test_a_rollback_is_exact_and_can_be_rolled_back(
    tmp_path_factory: pytest.TempPathFactory,
    first: tuple[Tree, Tree, frozenset[bytes]],
    second: tuple[Tree, Tree, frozenset[bytes]],
) -> None:
    world = CheckpointedSession(tmp_path_factory.mktemp("session", numbered=True))
    world.write(*first)
    decorate(world.upper, b"a")
    before = state(world.upper)
    number = world.take_checkpoint()
    world.write(*second)
    decorate(world.upper, b"bc")
    after = state(world.upper)

    done = rollback.roll_back_ended(world.listed, number)
    assert (state(world.upper), done.problems) == (before, ())
    done = rollback.roll_back_ended(world.listed, done.previous)
    assert (state(world.upper), done.problems) == (after, ())
    shutil.rmtree(world.folder)


def planted(world: CheckpointedSession) -> tuple[int, dict[str, object]]:
    """Checkpoint a tree with every file type, then change every path but `same`; return the number and the former state."""
    upper = world.upper
    (upper / "d/e").mkdir(parents=True)
    (upper / "d/e/file").write_text("one")
    os.link(upper / "d/e/file", upper / "twin")
    os.symlink("/etc/passwd", upper / "link")
    os.mkfifo(upper / "fifo")
    trees.whiteout(upper / "gone")
    os.setxattr(upper / "d", "user.overlay.opaque", b"y")
    (upper / "becomes-dir").write_text("file")
    (upper / "same").write_text("same")
    was, number = state(upper), world.take_checkpoint()
    shutil.rmtree(upper / "d")
    (upper / "d").write_text("a file now")
    for name in ("twin", "link", "fifo", "gone", "becomes-dir"):
        (upper / name).unlink()
    (upper / "becomes-dir/deep").mkdir(parents=True)
    (upper / "becomes-dir/deep/file").write_text("x")
    (upper / "new").write_text("new")
    return number, was


def test_a_rollback_killed_anywhere_is_finished_by_the_next_command(tmp_path: Path) -> None:
    for number in range(1, 200):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = CheckpointedSession(folder)
        wanted, was = planted(world)
        is_killed = faults.killed_at(number, lambda world=world, wanted=wanted: rollback.roll_back_ended(world.listed, wanted))  # type: ignore[misc]
        world.lock_again()
        assert state(world.upper) == was, f"killed at {number}"
        assert sorted(os.listdir(folder)) == ["checkpoints", "events.jsonl", "roots", "session.json"]
        if not is_killed:
            assert number > 20
            return
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("tenth", range(10))
def test_a_killed_rollback_with_a_damaged_mark_is_reverted(tmp_path: Path, tenth: int) -> None:
    world = CheckpointedSession(tmp_path)
    wanted, _ = planted(world)
    before = state(world.upper)
    mark = tmp_path / "rollback.pending"

    def is_half_done() -> bool:
        return mark.exists() and state(world.upper) != before

    number = next(n for n in range(1, 200) if _killed_rollback(world, wanted, n) and is_half_done())
    assert number
    mark.write_bytes(mark.read_bytes()[: mark.stat().st_size * tenth // 10])
    world.lock_again()
    assert state(world.upper) == before
    assert not mark.exists()


def _killed_rollback(world: CheckpointedSession, wanted: int, number: int) -> bool:
    return faults.killed_at(number, lambda: rollback.roll_back_ended(world.listed, wanted))


def test_selected_paths_alone_are_restored(world: CheckpointedSession) -> None:
    number, was = planted(world)
    rollback.roll_back_ended(world.listed, number, ("d/e", "becomes-dir"))
    now = state(world.upper)
    assert {path: now[path] for path in ("d", "d/e", "becomes-dir")} == {path: was[path] for path in ("d", "d/e", "becomes-dir")}
    assert (world.upper / "d/e/file").read_text() == "one"
    assert (world.upper / "new").read_text() == "new"
    assert not (world.upper / "link").is_symlink()


def test_without_changes_no_checkpoint_is_taken(world: CheckpointedSession) -> None:
    (world.upper / "a").write_text("a")
    assert [world.take_checkpoint(always=False), world.take_checkpoint(always=False)] == [1, 1]
    (world.upper / "a").write_text("b")
    assert world.take_checkpoint(always=False) == 2


def test_a_change_with_the_same_size_and_time_is_detected(world: CheckpointedSession) -> None:
    for number in range(30):
        (world.upper / "a").write_text(f"{number:03}")
        assert world.take_checkpoint(always=False) == number + 1


def test_a_ctime_too_recent_to_be_conclusive_is_not_trusted(world: CheckpointedSession) -> None:
    (world.upper / "young").write_text("young")
    made = checkpoint_store.find_checkpoint(world.session, world.take_checkpoint())
    assert checkpoint_store.read_tables(world.session, made)["root-0"]["young"].ctime == 0


def test_unchanged_files_are_neither_read_nor_stored_again(world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (world.upper / name).write_text(name)
    monkeypatch.setattr(snapshot, "_RECENT_NS", -(10**12))
    world.take_checkpoint()
    (world.upper / "c").write_text("c")
    read: list[int] = []
    add = content_pool.ContentPool.add

    def noted(contents: content_pool.ContentPool, fd: int, size: int) -> tuple[str, int]:
        read.append(size)
        return add(contents, fd, size)

    monkeypatch.setattr(content_pool.ContentPool, "add", noted)
    world.take_checkpoint()
    assert (len(read), world.count_contents()) == (1, 3)


def test_no_stored_content_shares_an_inode_with_the_upper(world: CheckpointedSession) -> None:
    (world.upper / "a").write_text("a")
    (world.upper / "large").write_bytes(bytes(3 << 20))
    world.take_checkpoint()
    uppers = {os.stat(path).st_ino for path in world.upper.rglob("*")}
    pool = {os.stat(path).st_ino for path in (world.folder / "checkpoints/objects").iterdir()}
    rollback.roll_back_ended(world.listed, 1)
    uppers |= {os.stat(path).st_ino for path in world.upper.rglob("*")}
    assert uppers & pool == set()


def test_a_damaged_content_stops_a_rollback_before_any_change(world: CheckpointedSession) -> None:
    (world.upper / "a").write_text("a")
    number = world.take_checkpoint()
    (world.upper / "a").write_text("b")
    (world.upper / "c").write_text("c")
    for path in (world.folder / "checkpoints/objects").iterdir():
        path.write_text("rotten")
    with pytest.raises(DamagedCheckpoint):
        rollback.roll_back_ended(world.listed, number)
    assert (world.upper / "a").read_text() == "b"
    assert (world.upper / "c").exists()


def test_a_damaged_table_is_reported(world: CheckpointedSession) -> None:
    (world.upper / "a").write_text("a")
    number = world.take_checkpoint()
    place = world.folder / f"checkpoints/{number}/root-0.table"
    place.write_bytes(place.read_bytes().replace(b"file", b"fifo"))
    with pytest.raises(DamagedCheckpoint):
        rollback.roll_back_ended(world.listed, number)


def test_an_unknown_checkpoint_is_reported(world: CheckpointedSession) -> None:
    with pytest.raises(UnknownCheckpoint):
        rollback.roll_back_ended(world.listed, 7)


@pytest.mark.parametrize("size", [5, 3 << 20])
def test_a_partial_content_of_a_killed_process_is_rewritten(world: CheckpointedSession, size: int) -> None:
    data = b"whole" * (size // 5)
    (world.upper / "file").write_bytes(data)
    part = world.folder / "checkpoints/objects" / hashlib.sha256(data).hexdigest()
    part.parent.mkdir(parents=True)
    part.write_bytes(data[: len(data) // 2])
    number = world.take_checkpoint()
    (world.upper / "file").unlink()
    rollback.roll_back_ended(world.listed, number)
    assert (world.upper / "file").read_bytes() == data


def full(_pool: content_pool.ContentPool, _size: int) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_little_free_space_stops_a_checkpoint_and_leaves_nothing(
    world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.upper / "a").write_text("a")
    monkeypatch.setattr(content_pool.ContentPool, "reserve_space", full)
    with pytest.raises(CheckpointFailed) as reported:
        world.take_checkpoint()
    assert reported.value.hint
    assert (world.count_contents(), checkpoint_store.list_checkpoints(world.session)) == (0, ())


def test_holes_need_no_free_space(world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_bavail=50 << 20, f_blocks=100 << 20, f_frsize=1)
    monkeypatch.setattr(os, "fstatvfs", lambda _: disk)
    with open(world.upper / "image", "wb") as image:
        image.truncate(64 << 20)
    assert world.take_checkpoint() == 1
    assert [one.copied for one in checkpoint_store.list_checkpoints(world.session)] == [0]
    (world.upper / "other").write_text("x")
    assert world.take_checkpoint() == 2
    disk.f_bavail = 10 << 20
    (world.upper / "another").write_text("x")
    with pytest.raises(CheckpointFailed):
        world.take_checkpoint()


def test_the_checkpoint_of_an_open_transaction_is_not_pruned(world: CheckpointedSession) -> None:
    for number in range(8):
        (world.upper / "moves").write_text(f"{number}")
        world.take_checkpoint()
    open_transaction.record_checkpoint(world.session, 3)
    checkpoint_store.prune(world.session, RetentionLimits(3), 60 * 10**9)
    assert [one.number for one in checkpoint_store.list_checkpoints(world.session)] == [3, 4, 5, 6, 7, 8]
    open_transaction.record_checkpoint(world.session, 0)
    checkpoint_store.prune(world.session, RetentionLimits(3), 60 * 10**9)
    assert [one.number for one in checkpoint_store.list_checkpoints(world.session)] == [6, 7, 8]


def test_the_next_holder_rolls_back_an_unfinished_transaction_once(
    world: CheckpointedSession,
) -> None:
    (world.upper / "file").write_text("before")
    open_transaction.record_checkpoint(world.session, world.take_checkpoint())
    (world.upper / "file").write_text("half")
    (world.upper / "new").write_text("half")
    world.lock_again()
    assert {path.name: path.read_text() for path in world.upper.iterdir()} == {"file": "before"}
    (world.upper / "file").write_text("later")
    world.lock_again()
    assert (world.upper / "file").read_text() == "later"


def test_a_transaction_without_its_checkpoint_does_not_block_the_session(world: CheckpointedSession) -> None:
    (world.upper / "file").write_text("half")
    open_transaction.record_checkpoint(world.session, 7)
    world.lock_again()
    assert ((world.upper / "file").read_text(), open_transaction.recorded_checkpoint(world.session)) == ("half", 0)


def test_pruning_removes_exactly_the_unreferenced_contents(world: CheckpointedSession) -> None:
    (world.upper / "stays").write_text("stays")
    for number in range(8):
        (world.upper / "moves").write_text(f"{number}")
        world.take_checkpoint()
    assert world.count_contents() == 9
    dry = checkpoint_store.prune(world.session, RetentionLimits(4), 60 * 10**9, is_dry=True)
    assert (len(dry), world.count_contents()) == (4, 9)
    gone = checkpoint_store.prune(world.session, RetentionLimits(4), 60 * 10**9)
    assert gone == dry
    assert (len(checkpoint_store.list_checkpoints(world.session)), world.count_contents()) == (4, 5)
    left = checkpoint_store.list_checkpoints(world.session)
    rollback.roll_back_ended(world.listed, left[0].number)
    assert (world.upper / "stays").read_text() == "stays"


def test_a_killed_pruning_leaves_no_damaged_checkpoint(world: CheckpointedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (world.upper / "moves").write_text(f"{number}")
        world.take_checkpoint()

    def kill(path: str) -> None:
        if os.path.exists(path):
            (Path(path) / "about.json").unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_store, "remove_tree", kill)
        with pytest.raises(KeyboardInterrupt):
            checkpoint_store.prune(world.session, RetentionLimits(3), 60 * 10**9)
    assert checkpoint_store.damaged_numbers(world.session) == ()
    checkpoint_store.prune(world.session, RetentionLimits(3), 60 * 10**9)
    assert [one.number for one in checkpoint_store.list_checkpoints(world.session)] == [3, 4, 5]
    assert world.count_contents() == 3
    assert not [name for name in os.listdir(f"{world.session.folder}/checkpoints") if name.startswith(".")]


def test_the_versions_of_a_file_are_listed(world: CheckpointedSession) -> None:
    world.take_checkpoint()
    (world.upper / "a").write_text("a")
    world.take_checkpoint()
    (world.upper / "a").unlink()
    trees.whiteout(world.upper / "a")
    world.take_checkpoint()
    assert [one.state for one in operations.file_versions(world.listed, "a")] == ["as in the repository", "file", "deleted"]


def test_an_ended_session_held_by_another_command_is_not_called_running(world: CheckpointedSession) -> None:
    held = session_access.lock_ended(world.listed)
    with pytest.raises(SessionBusy, match="session one is open in another agent-dev"):
        session_access.lock_ended(world.listed)
    store.unlock_session(held.session)
    world.lock_again()
