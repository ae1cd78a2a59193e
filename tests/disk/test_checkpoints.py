"""A checkpoint holds what an upper held, and a rollback brings exactly that back, wherever it is killed."""

import errno
import hashlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings

from agent_dev.checkpoint import checkpoint, rollback, snapshot
from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import content_pool as pool
from agent_dev.checkpoint.restore_plan import Keep
from agent_dev.errors import CheckpointFailed, DamagedCheckpoint, SessionBusy, UnknownCheckpoint
from agent_dev.inside.control import socket_file as door
from agent_dev.session import sessions, store
from tests.harness import faults, trees
from tests.harness.checkpointed import World, state
from tests.harness.trees import Tree

EXAMPLES = int(os.environ.get("AGENT_DEV_CHECKPOINT_EXAMPLES", "40"))
DAY = 24 * 3600 * 10**9


@pytest.fixture
def world(tmp_path: Path) -> World:
    folder = tmp_path / "session"
    folder.mkdir()
    return World(folder)


def decorate(upper: Path, seed: bytes) -> None:
    """Give some files attributes, other names and times that no new file has."""
    files = sorted(path for path in upper.rglob("*") if path.is_file() and not path.is_symlink())
    for number, path in enumerate(files):
        if number % 2 == len(seed) % 2:
            os.setxattr(path, "user.note", seed)
            os.utime(path, ns=(10**18 + number, 10**18 + number))
        if number % 3 == 0:
            os.link(path, upper / f"twin-{number}-{len(seed)}")


def test_one_taken_by_itself_does_not_stand_for_one_with_a_reason(world: World) -> None:
    (world.upper / "file").write_text("work")
    causes = (checkpoints.START, "rm -r own", "rm -r other", checkpoints.TIMER, checkpoints.END)
    taken = [checkpoints.take(world.session, world.record, cause).number for cause in causes]
    assert taken == [1, 2, 2, 2, 2]


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=trees.pairs(), second=trees.pairs())
def test_a_rollback_is_exact_and_can_itself_be_rolled_back(
    tmp_path_factory: pytest.TempPathFactory,
    first: tuple[Tree, Tree, frozenset[bytes]],
    second: tuple[Tree, Tree, frozenset[bytes]],
) -> None:
    world = World(tmp_path_factory.mktemp("session", numbered=True))
    world.write(*first)
    decorate(world.upper, b"a")
    before = state(world.upper)
    number = world.take()
    world.write(*second)
    decorate(world.upper, b"bc")
    after = state(world.upper)

    done = rollback.roll_back(world.listed, number)
    assert (state(world.upper), done.problems) == (before, ())
    done = rollback.roll_back(world.listed, done.before)
    assert (state(world.upper), done.problems) == (after, ())
    shutil.rmtree(world.folder)


def planted(world: World) -> tuple[int, dict[str, object]]:
    """A checkpoint of a tree with one of everything, and an upper that has nothing in common with it since."""
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
    was, number = state(upper), world.take()
    shutil.rmtree(upper / "d")
    (upper / "d").write_text("a file now")
    for name in ("twin", "link", "fifo", "gone", "becomes-dir"):
        (upper / name).unlink()
    (upper / "becomes-dir/deep").mkdir(parents=True)
    (upper / "becomes-dir/deep/file").write_text("x")
    (upper / "new").write_text("new")
    return number, was


def test_a_rollback_that_is_killed_anywhere_is_finished_by_the_next_command(tmp_path: Path) -> None:
    for number in range(1, 200):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World(folder)
        wanted, was = planted(world)
        is_killed = faults.killed_at(number, lambda world=world, wanted=wanted: rollback.roll_back(world.listed, wanted))  # type: ignore[misc]
        world.hold_again()
        assert state(world.upper) == was, f"killed at {number}"
        assert sorted(os.listdir(folder)) == ["checkpoints", "events.jsonl", "roots", "session.json"]
        if not is_killed:
            assert number > 20
            return
    raise AssertionError("it never came to its end")


def test_only_some_paths_are_brought_back(world: World) -> None:
    number, was = planted(world)
    rollback.roll_back(world.listed, number, ("d/e", "becomes-dir"))
    now = state(world.upper)
    assert {path: now[path] for path in ("d", "d/e", "becomes-dir")} == {path: was[path] for path in ("d", "d/e", "becomes-dir")}
    assert (world.upper / "d/e/file").read_text() == "one"
    assert (world.upper / "new").read_text() == "new"
    assert not (world.upper / "link").is_symlink()


def test_nothing_is_taken_when_nothing_changed(world: World) -> None:
    (world.upper / "a").write_text("a")
    assert [world.take(always=False), world.take(always=False)] == [1, 1]
    (world.upper / "a").write_text("b")
    assert world.take(always=False) == 2


def test_a_change_of_the_same_size_in_the_same_moment_is_seen(world: World) -> None:
    for number in range(30):
        (world.upper / "a").write_text(f"{number:03}")
        assert world.take(always=False) == number + 1


def test_a_time_of_change_that_is_too_young_to_tell_by_is_not_trusted(world: World) -> None:
    (world.upper / "young").write_text("young")
    made = checkpoints.find(world.session, world.take())
    assert checkpoints.tables(world.session, made)["root-0"]["young"].ctime == 0


def test_what_did_not_change_is_neither_read_nor_stored_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (world.upper / name).write_text(name)
    monkeypatch.setattr(snapshot, "_YOUNG", -(10**12))
    world.take()
    (world.upper / "c").write_text("c")
    read: list[int] = []
    add = pool.Pool.add

    def noted(contents: pool.Pool, fd: int, size: int) -> tuple[str, int]:
        read.append(size)
        return add(contents, fd, size)

    monkeypatch.setattr(pool.Pool, "add", noted)
    world.take()
    assert (len(read), world.contents()) == (1, 3)


def test_no_content_shares_an_inode_with_the_upper(world: World) -> None:
    (world.upper / "a").write_text("a")
    (world.upper / "large").write_bytes(bytes(3 << 20))
    world.take()
    uppers = {os.stat(path).st_ino for path in world.upper.rglob("*")}
    pool = {os.stat(path).st_ino for path in (world.folder / "checkpoints/objects").iterdir()}
    rollback.roll_back(world.listed, 1)
    uppers |= {os.stat(path).st_ino for path in world.upper.rglob("*")}
    assert uppers & pool == set()


def test_a_damaged_content_stops_a_rollback_before_anything_is_touched(world: World) -> None:
    (world.upper / "a").write_text("a")
    number = world.take()
    (world.upper / "a").write_text("b")
    (world.upper / "c").write_text("c")
    for path in (world.folder / "checkpoints/objects").iterdir():
        path.write_text("rotten")
    with pytest.raises(DamagedCheckpoint):
        rollback.roll_back(world.listed, number)
    assert (world.upper / "a").read_text() == "b"
    assert (world.upper / "c").exists()


def test_a_damaged_table_is_told(world: World) -> None:
    (world.upper / "a").write_text("a")
    number = world.take()
    place = world.folder / f"checkpoints/{number}/root-0.table"
    place.write_bytes(place.read_bytes().replace(b"file", b"fifo"))
    with pytest.raises(DamagedCheckpoint):
        rollback.roll_back(world.listed, number)


def test_an_unknown_checkpoint_is_told(world: World) -> None:
    with pytest.raises(UnknownCheckpoint):
        rollback.roll_back(world.listed, 7)


@pytest.mark.parametrize("size", [5, 3 << 20])
def test_a_content_of_which_a_killed_one_left_a_part_is_written_anew(world: World, size: int) -> None:
    data = b"whole" * (size // 5)
    (world.upper / "file").write_bytes(data)
    part = world.folder / "checkpoints/objects" / hashlib.sha256(data).hexdigest()
    part.parent.mkdir(parents=True)
    part.write_bytes(data[: len(data) // 2])
    number = world.take()
    (world.upper / "file").unlink()
    rollback.roll_back(world.listed, number)
    assert (world.upper / "file").read_bytes() == data


def full(_pool: pool.Pool, _size: int) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_little_room_stops_a_checkpoint_and_leaves_nothing_of_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.upper / "a").write_text("a")
    monkeypatch.setattr(pool.Pool, "leave_room", full)
    with pytest.raises(CheckpointFailed) as told:
        world.take()
    assert told.value.hint
    assert (world.contents(), checkpoints.listed(world.session)) == (0, ())


def test_holes_need_no_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_bavail=50 << 20, f_blocks=100 << 20, f_frsize=1)
    monkeypatch.setattr(os, "fstatvfs", lambda _: disk)
    with open(world.upper / "image", "wb") as image:
        image.truncate(64 << 20)
    assert world.take() == 1
    assert [one.copied for one in checkpoints.listed(world.session)] == [0]
    (world.upper / "other").write_text("x")
    assert world.take() == 2
    disk.f_bavail = 10 << 20
    (world.upper / "another").write_text("x")
    with pytest.raises(CheckpointFailed):
        world.take()


def test_what_an_open_transaction_may_go_back_to_is_not_let_go(world: World) -> None:
    for number in range(8):
        (world.upper / "moves").write_text(f"{number}")
        world.take()
    door.mark(world.session, 3)
    checkpoints.let_go(world.session, Keep(3), 60 * 10**9)
    assert [one.number for one in checkpoints.listed(world.session)] == [3, 4, 5, 6, 7, 8]
    door.mark(world.session, 0)
    checkpoints.let_go(world.session, Keep(3), 60 * 10**9)
    assert [one.number for one in checkpoints.listed(world.session)] == [6, 7, 8]


def test_a_transaction_that_nobody_ended_is_rolled_back_by_who_holds_the_session_next_and_once(world: World) -> None:
    (world.upper / "file").write_text("before")
    door.mark(world.session, world.take())
    (world.upper / "file").write_text("half")
    (world.upper / "new").write_text("half")
    world.hold_again()
    assert {path.name: path.read_text() for path in world.upper.iterdir()} == {"file": "before"}
    (world.upper / "file").write_text("later")
    world.hold_again()
    assert (world.upper / "file").read_text() == "later"


def test_one_whose_checkpoint_is_gone_does_not_keep_the_session_shut(world: World) -> None:
    (world.upper / "file").write_text("half")
    door.mark(world.session, 7)
    world.hold_again()
    assert ((world.upper / "file").read_text(), door.marked(world.session)) == ("half", 0)


def test_letting_go_takes_the_contents_that_nobody_names_and_no_other(world: World) -> None:
    (world.upper / "stays").write_text("stays")
    for number in range(8):
        (world.upper / "moves").write_text(f"{number}")
        world.take()
    assert world.contents() == 9
    dry = checkpoints.let_go(world.session, Keep(4), 60 * 10**9, is_dry=True)
    assert (len(dry), world.contents()) == (4, 9)
    gone = checkpoints.let_go(world.session, Keep(4), 60 * 10**9)
    assert gone == dry
    assert (len(checkpoints.listed(world.session)), world.contents()) == (4, 5)
    left = checkpoints.listed(world.session)
    rollback.roll_back(world.listed, left[0].number)
    assert (world.upper / "stays").read_text() == "stays"


def test_the_versions_of_a_file_are_told(world: World) -> None:
    world.take()
    (world.upper / "a").write_text("a")
    world.take()
    (world.upper / "a").unlink()
    trees.whiteout(world.upper / "a")
    world.take()
    assert [one.state for one in checkpoint.versions(world.listed, "a")] == ["as in the repository", "file", "deleted"]


def test_a_session_that_has_ended_and_another_command_holds_is_not_said_to_run(world: World) -> None:
    held = sessions.hold(world.listed)
    with pytest.raises(SessionBusy, match="session one is open in another agent-dev"):
        sessions.hold(world.listed)
    store.let_go(held.session)
    world.hold_again()
