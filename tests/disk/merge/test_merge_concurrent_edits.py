"""Merges after changes by the user, and of directories and files whose modes deny an ordinary user access."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.linux import syscalls
from agent_dev.overlay.changes import ChangeKind
from tests.disk.merge.merge_nodes import FOLDER, NEW, OLD, YOURS
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.faults import faults
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree, UpperEntry
from tests.harness.users import call_as_ordinary_user, call_with_own_mounts, ordinary_users_directory

# --- changes by the user ---


def rewrite(path: Path) -> None:
    path.write_bytes(YOURS.content)


def swap_for_equal_bytes(path: Path) -> None:
    path.with_name("saving").write_bytes(path.read_bytes())
    path.with_name("saving").rename(path)


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def remove(path: Path) -> None:
    path.unlink()


def make_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


ACTIONS = [rewrite, swap_for_equal_bytes, touch, remove, make_a_link]
MARKS = {
    "an edit": [UpperEntry(b"x", NEW), UpperEntry(b"y", NEW)],
    "a deletion": [UpperEntry(b"x", None), UpperEntry(b"y", NEW)],
    "a retyping": [UpperEntry(b"x", FOLDER, opaque=True), UpperEntry(b"x/z", NEW), UpperEntry(b"y", NEW)],
    "a mode": [UpperEntry(b"x", Node(FILE, b"old", 0o755)), UpperEntry(b"y", NEW)],
}


AGENTS: dict[str, Tree] = {
    "an edit": {b"x": NEW},
    "a deletion": {},
    "a mode": {b"x": Node(FILE, b"old", 0o755)},
}
# The result of each compatible pair of changes: the agent's and the user's.
FITTING: dict[tuple[str, Callable[[Path], None]], Tree] = {
    **{(what, action): tree for what, tree in AGENTS.items() for action in (swap_for_equal_bytes, touch)},
    ("a deletion", remove): {},
    ("a mode", rewrite): {b"x": Node(FILE, YOURS.content, 0o755)},
}
PAIRS = [(what, action) for what in MARKS for action in ACTIONS]


@pytest.mark.parametrize(("what", "action"), [pair for pair in PAIRS if pair in FITTING])
def test_compatible_changes_of_the_user_are_merged(tmp_path: Path, what: str, action: Callable[[Path], None]) -> None:
    with EndedSession(tmp_path, {b"x": OLD, b"y": OLD}, MARKS[what]) as session:
        action(session.real / "x")
        reported = {change.key.path: change.is_combined for change in session.changes().changes}
        merged = session.merge_all()

        assert reported.get(b"x", False) is (action is rewrite)  # touching a file is not a change by the user
        assert trees.read(session.real) == {b"y": NEW, **FITTING[what, action]}
        assert (merged.is_session_empty, session.kinds(), session.conflicts()) == (True, {}, {})


@pytest.mark.parametrize(("what", "action"), [pair for pair in PAIRS if pair not in FITTING])
def test_an_overlapping_change_of_the_user_is_a_conflict_and_stays(
    tmp_path: Path, what: str, action: Callable[[Path], None]
) -> None:
    with EndedSession(tmp_path, {b"x": OLD, b"y": OLD}, MARKS[what]) as session:
        action(session.real / "x")
        yours = trees.read(session.real).get(b"x")
        session.merge_all()

        assert trees.read(session.real) == {b"y": NEW} | ({b"x": yours} if yours else {})
        assert b"x" in session.conflicts()


def test_a_new_entry_of_the_user_is_a_conflict_and_stays(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {}, [UpperEntry(b"x", NEW)]) as session:
        trees.write(session.real, {b"x": YOURS})
        session.merge_all()

        assert trees.read(session.real) == {b"x": YOURS}
        assert session.conflicts() == {b"x": "both added it, with different contents"}


def test_a_new_entry_of_the_user_keeps_a_removed_directory(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {b"d": FOLDER, b"d/x": OLD}, [UpperEntry(b"d", None)]) as session:
        trees.write(session.real, {b"d/mine": YOURS})
        session.merge_all()

        assert trees.read(session.real) == {b"d": FOLDER, b"d/mine": YOURS}


def test_a_directory_that_the_user_replaced_by_a_symlink_is_a_conflict(tmp_path: Path) -> None:
    with EndedSession(
        tmp_path, {b"d": FOLDER, b"d/x": OLD}, [UpperEntry(b"d", FOLDER), UpperEntry(b"d/x", NEW), UpperEntry(b"d/new", NEW)]
    ) as session:
        (session.real / "d").rename(tmp_path / "outside")
        (session.real / "d").symlink_to("../outside")
        session.merge_all()

        assert trees.read(tmp_path / "outside") == {b"x": OLD}
        assert set(session.conflicts()) == {b"d/x", b"d/new"}


def test_a_directory_that_became_a_mount_point_is_a_conflict(tmp_path: Path) -> None:
    def act() -> None:
        (tmp_path / "outside").mkdir()
        syscalls.mount(str(tmp_path / "outside"), str(session.real / "d"), None, 0x1000)
        session.merge_all()

        assert os.listdir(tmp_path / "outside") == []
        assert set(session.conflicts()) == {b"d/x"}

    with EndedSession(
        tmp_path, {b"d": FOLDER, b"d/x": OLD}, [UpperEntry(b"d", FOLDER), UpperEntry(b"d/x", NEW), UpperEntry(b"y", NEW)]
    ) as session:
        call_with_own_mounts(act)


def test_a_conflict_stays_in_the_session_with_its_content(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {b"x": OLD, b"y": OLD}, MARKS["an edit"]) as session:
        rewrite(session.real / "x")
        merged = session.merge_all()

        assert not merged.is_session_empty
        assert (session.upper / "x").read_bytes() == NEW.content


def test_a_merged_path_edited_later_by_the_user_is_not_a_session_change(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {b"x": OLD, b"y": OLD}, MARKS["an edit"]) as session:
        session.merge(b"x")
        rewrite(session.real / "x")

        assert (session.kinds(), session.conflicts()) == ({b"y": ChangeKind.EDITED}, {})


def test_a_symlink_out_of_the_root_is_merged_as_a_symlink(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {}, [UpperEntry(b"l", Node(SYMLINK, b"/etc/passwd"))]) as session:
        session.merge_all()

        assert os.readlink(session.real / "l") == "/etc/passwd"


# --- modes that deny access ---


@pytest.mark.parametrize("mode", [0o555, 0o500])
def test_a_read_only_directory_is_merged_with_its_contents(mode: int) -> None:
    def act() -> None:
        with EndedSession(
            folder, {}, [UpperEntry(b"d", FOLDER), UpperEntry(b"d/e", FOLDER), UpperEntry(b"d/e/x", NEW), UpperEntry(b"y", NEW)]
        ) as session:
            for name in ("d/e", "d"):
                (session.upper / name).chmod(mode)
            merged = session.merge_all()
            unreadable = Node(DIRECTORY, b"", mode)

            assert merged.is_session_empty
            assert trees.read(session.real) == {b"d": unreadable, b"d/e": unreadable, b"d/e/x": NEW, b"y": NEW}
            assert os.listdir(session.upper) == []

    with ordinary_users_directory() as folder:
        call_as_ordinary_user(act)


def test_an_unreadable_file_is_merged() -> None:
    def act() -> None:
        with EndedSession(
            folder, {b"x": OLD}, [UpperEntry(b"x", Node(FILE, b"secret", 0)), UpperEntry(b"y", Node(FILE, b"new", 0o200))]
        ) as session:
            assert session.merge_all().is_session_empty
            modes = [(session.real / name).stat().st_mode & 0o7777 for name in ("x", "y")]
            (session.real / "x").chmod(0o600)

            assert (modes, (session.real / "x").read_bytes()) == ([0, 0o200], b"secret")

    with ordinary_users_directory() as folder:
        call_as_ordinary_user(act)


def test_an_unreadable_directory_is_merged_with_its_contents() -> None:
    def act() -> None:
        with EndedSession(folder, {}, [UpperEntry(b"d", FOLDER), UpperEntry(b"d/x", NEW), UpperEntry(b"y", NEW)]) as session:
            (session.upper / "d").chmod(0)
            assert session.changes().problems == ()
            assert (session.upper / "d").stat().st_mode & 0o7777 == 0  # readable only while its changes are read
            assert session.merge_all().is_session_empty
            assert (session.real / "d").stat().st_mode & 0o7777 == 0
            (session.real / "d").chmod(0o700)
            assert (session.real / "d/x").read_bytes() == NEW.content

    with ordinary_users_directory() as folder:
        call_as_ordinary_user(act)


# --- a write by the user during an undo ---


@pytest.mark.parametrize("base", [{b"f": OLD}, {}], ids=["edited", "added"])
def test_the_users_write_during_an_undo_is_not_overwritten_later(tmp_path: Path, base: Tree) -> None:
    is_over, moment = False, 0
    while not is_over:
        moment += 1
        is_over = not is_written_during_undo(tmp_path / str(moment), base, moment)

    assert moment > 10


def is_written_during_undo(folder: Path, base: Tree, moment: int) -> bool:
    """Write as the user before change number `moment` of an undo, then merge again; return whether the undo makes that many."""
    calls = 0

    def write(_call: str, _words: tuple[object, ...]) -> None:
        nonlocal calls
        calls += 1
        if calls == moment:
            rewrite(one.real / "f")

    folder.mkdir()
    with EndedSession(folder, base, [UpperEntry(b"f", NEW)]) as one:
        one.merge_all()
        with faults.with_hook(write):
            one.undo()
        if calls >= moment:
            one.merge_all()
            assert (one.real / "f").read_bytes() == YOURS.content, moment
    return calls >= moment
