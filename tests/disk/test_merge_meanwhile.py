"""A merge after the user went on working, and of what an ordinary user may not enter or write to."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.linux import syscalls as kernel
from agent_dev.overlay.changes import Kind
from tests.disk.merge_nodes import FOLDER, MINE, NEW, OLD
from tests.harness import trees
from tests.harness.ended import Ended
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Mark, Node, Tree
from tests.harness.users import as_ordinary, open_place, with_own_mounts

# --- the user goes on working ---


def rewrite(path: Path) -> None:
    path.write_bytes(MINE.content)


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


DEEDS = [rewrite, swap_for_equal_bytes, touch, remove, make_a_link]
MARKS = {
    "an edit": [Mark(b"x", NEW), Mark(b"y", NEW)],
    "a deletion": [Mark(b"x", None), Mark(b"y", NEW)],
    "a retyping": [Mark(b"x", FOLDER, opaque=True), Mark(b"x/z", NEW), Mark(b"y", NEW)],
    "a mode": [Mark(b"x", Node(FILE, b"old", 0o755)), Mark(b"y", NEW)],
}


AGENTS: dict[str, Tree] = {
    "an edit": {b"x": NEW},
    "a deletion": {},
    "a mode": {b"x": Node(FILE, b"old", 0o755)},
}
# What the user did and what the agent did fit together: then this lands.
FITTING: dict[tuple[str, Callable[[Path], None]], Tree] = {
    **{(what, deed): tree for what, tree in AGENTS.items() for deed in (swap_for_equal_bytes, touch)},
    ("a deletion", remove): {},
    ("a mode", rewrite): {b"x": Node(FILE, MINE.content, 0o755)},
}
PAIRS = [(what, deed) for what in MARKS for deed in DEEDS]


@pytest.mark.parametrize(("what", "deed"), [pair for pair in PAIRS if pair in FITTING])
def test_what_fits_what_the_user_did_meanwhile_is_merged_with_it(tmp_path: Path, what: str, deed: Callable[[Path], None]) -> None:
    with Ended(tmp_path, {b"x": OLD, b"y": OLD}, MARKS[what]) as session:
        deed(session.real / "x")
        told = {change.key.path: change.has_yours for change in session.changes().changes}
        merged = session.merge_all()

        assert told.get(b"x", False) is (deed is rewrite)  # that a file was touched is no change of the user's
        assert trees.read(session.real) == {b"y": NEW, **FITTING[what, deed]}
        assert (merged.is_all, session.kinds(), session.conflicts()) == (True, {}, {})


@pytest.mark.parametrize(("what", "deed"), [pair for pair in PAIRS if pair not in FITTING])
def test_what_the_user_did_meanwhile_is_a_conflict_and_stays(tmp_path: Path, what: str, deed: Callable[[Path], None]) -> None:
    with Ended(tmp_path, {b"x": OLD, b"y": OLD}, MARKS[what]) as session:
        deed(session.real / "x")
        mine = trees.read(session.real).get(b"x")
        session.merge_all()

        assert trees.read(session.real) == {b"y": NEW} | ({b"x": mine} if mine else {})
        assert b"x" in session.conflicts()


def test_something_new_of_the_users_is_a_conflict_and_stays(tmp_path: Path) -> None:
    with Ended(tmp_path, {}, [Mark(b"x", NEW)]) as session:
        trees.write(session.real, {b"x": MINE})
        session.merge_all()

        assert trees.read(session.real) == {b"x": MINE}
        assert session.conflicts() == {b"x": "both added it, with different contents"}


def test_something_new_of_the_users_in_a_removed_directory_stays_with_it(tmp_path: Path) -> None:
    with Ended(tmp_path, {b"d": FOLDER, b"d/x": OLD}, [Mark(b"d", None)]) as session:
        trees.write(session.real, {b"d/mine": MINE})
        session.merge_all()

        assert trees.read(session.real) == {b"d": FOLDER, b"d/mine": MINE}


def test_a_directory_of_the_users_that_became_a_link_is_a_conflict(tmp_path: Path) -> None:
    with Ended(tmp_path, {b"d": FOLDER, b"d/x": OLD}, [Mark(b"d", FOLDER), Mark(b"d/x", NEW), Mark(b"d/new", NEW)]) as session:
        (session.real / "d").rename(tmp_path / "outside")
        (session.real / "d").symlink_to("../outside")
        session.merge_all()

        assert trees.read(tmp_path / "outside") == {b"x": OLD}
        assert set(session.conflicts()) == {b"d/x", b"d/new"}


def test_a_directory_over_which_something_was_mounted_is_a_conflict(tmp_path: Path) -> None:
    def act() -> None:
        (tmp_path / "outside").mkdir()
        kernel.mount(str(tmp_path / "outside"), str(session.real / "d"), None, 0x1000)
        session.merge_all()

        assert os.listdir(tmp_path / "outside") == []
        assert set(session.conflicts()) == {b"d/x"}

    with Ended(tmp_path, {b"d": FOLDER, b"d/x": OLD}, [Mark(b"d", FOLDER), Mark(b"d/x", NEW), Mark(b"y", NEW)]) as session:
        with_own_mounts(act)


def test_a_conflict_stays_in_the_session_with_its_content(tmp_path: Path) -> None:
    with Ended(tmp_path, {b"x": OLD, b"y": OLD}, MARKS["an edit"]) as session:
        rewrite(session.real / "x")
        merged = session.merge_all()

        assert not merged.is_all
        assert (session.upper / "x").read_bytes() == NEW.content


def test_a_path_that_was_merged_and_then_edited_by_the_user_is_nothing_of_the_sessions(tmp_path: Path) -> None:
    with Ended(tmp_path, {b"x": OLD, b"y": OLD}, MARKS["an edit"]) as session:
        session.merge(b"x")
        rewrite(session.real / "x")

        assert (session.kinds(), session.conflicts()) == ({b"y": Kind.EDITED}, {})


def test_a_link_that_points_out_is_merged_as_a_link(tmp_path: Path) -> None:
    with Ended(tmp_path, {}, [Mark(b"l", Node(SYMLINK, b"/etc/passwd"))]) as session:
        session.merge_all()

        assert os.readlink(session.real / "l") == "/etc/passwd"


# --- what an ordinary user may not enter or write to ---


@pytest.mark.parametrize("mode", [0o555, 0o500])
def test_a_directory_that_nobody_may_write_to_is_merged_with_its_contents(mode: int) -> None:
    def act() -> None:
        with Ended(folder, {}, [Mark(b"d", FOLDER), Mark(b"d/e", FOLDER), Mark(b"d/e/x", NEW), Mark(b"y", NEW)]) as session:
            for name in ("d/e", "d"):
                (session.upper / name).chmod(mode)
            merged = session.merge_all()
            shut = Node(DIRECTORY, b"", mode)

            assert merged.is_all
            assert trees.read(session.real) == {b"d": shut, b"d/e": shut, b"d/e/x": NEW, b"y": NEW}
            assert os.listdir(session.upper) == []

    with open_place() as folder:
        as_ordinary(act)


def test_a_file_that_nobody_may_read_is_merged() -> None:
    def act() -> None:
        with Ended(folder, {b"x": OLD}, [Mark(b"x", Node(FILE, b"secret", 0)), Mark(b"y", Node(FILE, b"new", 0o200))]) as session:
            assert session.merge_all().is_all
            modes = [(session.real / name).stat().st_mode & 0o7777 for name in ("x", "y")]
            (session.real / "x").chmod(0o600)

            assert (modes, (session.real / "x").read_bytes()) == ([0, 0o200], b"secret")

    with open_place() as folder:
        as_ordinary(act)


def test_what_could_not_be_read_is_told_and_stays_in_the_session() -> None:
    def act() -> None:
        with Ended(folder, {}, [Mark(b"d", FOLDER), Mark(b"d/x", NEW), Mark(b"y", NEW)]) as session:
            (session.upper / "d").chmod(0)
            assert [problem.partition(":")[0] for problem in session.changes().problems] == ["d"]
            merged = session.merge_all()

            assert not merged.is_all
            assert os.listdir(session.upper) == ["d"]

    with open_place() as folder:
        as_ordinary(act)
