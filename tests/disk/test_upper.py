"""What was merged leaves the session, and what was left stays there exactly as the agent had it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.fs import dir_tree as files
from agent_dev.fs import walk as scan
from agent_dev.merge_engine.upper_update import take_out
from agent_dev.overlay.changes import Change, ChangeSet, FileType, Kind
from agent_dev.overlay.interpret import Found, candidates, interpret
from tests.harness import trees
from tests.harness.trees import DIRECTORY, FILE, Mark, Node, Tree
from tests.harness.users import as_ordinary, open_place

OLD, NEW, FOLDER, CLOSED = Node(FILE, b"old"), Node(FILE, b"new!"), Node(DIRECTORY, b"", 0o755), Node(DIRECTORY, b"", 0o700)
GIT = (b".git",)


class World:
    """A real tree as it was and the upper of a session that changed it, on disk."""

    def __init__(self, folder: Path, base: Tree, marks: list[Mark]) -> None:
        self.real, self.upper = folder / "real", folder / "upper"
        self.real.mkdir()
        self.upper.mkdir()
        trees.write(self.real, base)
        trees.write_upper(self.upper, marks)
        self.base = {one.path: one.entry for one in scan.walk(str(self.real), skip=GIT)}

    def changes(self) -> dict[bytes, Change]:
        """Read the session's changes against what was there at first."""
        upper = list(scan.walk(str(self.upper), skip=GIT))
        real, agent = files.Tree(str(self.real)), files.Tree(str(self.upper))
        same = frozenset(path for path in candidates(upper, self.base) if files.are_equal(agent, real, path))
        real.close()
        agent.close()
        return {change.key.path: change for change in interpret(0, upper, self.base, same)}

    def kinds(self) -> dict[bytes, Kind]:
        return {path: change.kind for path, change in self.changes().items()}

    def take_out(self, *paths: bytes, skip: tuple[bytes, ...] = ()) -> None:
        """Take paths out, and pretend that the real tree holds them: the base is what it would be then."""
        changes = ChangeSet(tuple(self.changes().values()))
        taken = tuple(change for change in changes.changes if change.key.path in paths)
        assert len(taken) == len(paths)
        tree = files.Tree(str(self.upper))
        try:
            take_out(tree, taken, tuple(change for change in changes.changes if change not in taken), skip)
        finally:
            tree.close()
        for change in taken:
            self._merge(change)

    def _merge(self, change: Change) -> None:
        path = change.key.path
        if change.after is not None:
            self.base[path] = change.after
            return
        del self.base[path]
        folder = path.rpartition(b"/")[0]
        while folder and not any(other.startswith(folder + b"/") for other in self.base):
            if os.path.lexists(os.path.join(os.fsencode(self.upper), folder)):
                break
            del self.base[folder]
            folder = folder.rpartition(b"/")[0]

    def marks(self) -> dict[bytes, str]:
        """Return what the upper holds, by what it is."""
        return {one.path: self._sort(one) for one in scan.walk(str(self.upper))}

    @staticmethod
    def _sort(one: Found) -> str:
        if one.is_whiteout():
            return "whiteout"
        return "opaque" if one.is_opaque() else str(one.entry.type)


DEEP = {b"d": FOLDER, b"d/a": OLD, b"d/b": OLD, b"d/e": CLOSED, b"d/e/c": OLD, b"d/e/f": OLD, b"x": OLD}


@pytest.mark.parametrize("kind", [FILE, trees.SYMLINK, trees.FIFO, DIRECTORY])
def test_an_addition_that_was_taken_is_gone_from_the_session(tmp_path: Path, kind: FileType) -> None:
    world = World(tmp_path, {}, [Mark(b"n", Node(kind, b"x" if kind in (FILE, trees.SYMLINK) else b""))])
    world.take_out(b"n")

    assert world.marks() == {}


def test_an_edit_that_was_taken_is_gone_and_others_stay(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [Mark(b"d", FOLDER), Mark(b"d/a", NEW), Mark(b"x", NEW)])
    world.take_out(b"d/a")

    assert world.marks() == {b"x": "file"}
    assert (world.upper / "x").read_bytes() == NEW.content


def test_a_deletion_that_was_taken_leaves_no_whiteout(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [Mark(b"d", FOLDER), Mark(b"d/a", None), Mark(b"x", None)])
    world.take_out(b"d/a")

    assert world.marks() == {b"x": "whiteout"}


def test_new_directories_around_what_was_taken_go_when_they_are_empty(tmp_path: Path) -> None:
    world = World(tmp_path, {}, [Mark(b"n", FOLDER), Mark(b"n/m", FOLDER), Mark(b"n/m/x", NEW), Mark(b"n/y", NEW)])
    world.take_out(b"n/m/x")

    assert world.marks() == {b"n": "dir", b"n/y": "file"}


def test_an_empty_directory_that_was_left_stays(tmp_path: Path) -> None:
    world = World(tmp_path, {}, [Mark(b"empty", CLOSED), Mark(b"x", NEW)])
    world.take_out(b"x")

    assert world.kinds() == {b"empty": Kind.ADDED}


def test_a_directorys_mode_that_was_left_stays(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [Mark(b"d", CLOSED), Mark(b"d/a", NEW)])
    world.take_out(b"d/a")

    assert world.kinds() == {b"d": Kind.METADATA}
    assert (world.upper / "d").stat().st_mode & 0o777 == CLOSED.mode


def test_a_directorys_mode_that_was_taken_keeps_what_is_in_it(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [Mark(b"d", CLOSED), Mark(b"d/a", NEW)])
    world.take_out(b"d")

    assert world.kinds() == {b"d/a": Kind.EDITED}


def test_a_removed_directory_of_which_a_part_was_taken_stays_removed_in_the_session(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [Mark(b"d", None)])
    world.take_out(b"d/a", b"d/e/c")

    assert world.marks() == {b"d": "whiteout"}
    assert world.kinds() == {b"d/b": Kind.DELETED, b"d/e/f": Kind.DELETED}


def test_a_removed_directory_that_was_taken_whole_leaves_no_whiteout(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [Mark(b"d", None)])
    world.take_out(b"d/a", b"d/b", b"d/e/c", b"d/e/f")

    assert world.marks() == {}


def test_a_file_that_became_a_directory_leaves_with_its_contents(tmp_path: Path) -> None:
    world = World(tmp_path, {b"x": OLD}, [Mark(b"x", FOLDER, opaque=True), Mark(b"x/y", NEW)])
    world.take_out(b"x", b"x/y")

    assert world.marks() == {}


def test_a_file_that_became_a_directory_keeps_the_contents_that_were_left(tmp_path: Path) -> None:
    world = World(tmp_path, {b"x": OLD}, [Mark(b"x", FOLDER, opaque=True), Mark(b"x/y", NEW), Mark(b"x/z", NEW)])
    world.take_out(b"x", b"x/y")

    assert world.kinds() == {b"x/z": Kind.ADDED}
    assert world.marks() == {b"x": "dir", b"x/z": "file"}


# --- opaque directories: what they hide is the real tree's again, but for what was left ---

REMADE = [Mark(b"d", FOLDER, opaque=True), Mark(b"d/new", NEW)]


def test_an_opaque_directory_of_which_nothing_was_taken_stays_opaque(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [*REMADE, Mark(b"y", NEW)])
    world.take_out(b"y")

    assert world.marks() == {b"d": "opaque", b"d/new": "file"}


def test_an_opaque_directory_of_which_a_part_was_taken_becomes_plain(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, REMADE)
    world.take_out(b"d/a", b"d/new")

    assert world.marks()[b"d"] == "dir"
    assert world.kinds() == {b"d/b": Kind.DELETED, b"d/e/c": Kind.DELETED, b"d/e/f": Kind.DELETED}


def test_a_directory_that_the_agent_removed_in_an_opaque_one_does_not_come_back(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, REMADE)
    world.take_out(b"d/a")

    assert world.marks() == {b"d": "dir", b"d/b": "whiteout", b"d/e": "whiteout", b"d/new": "file"}


def test_a_directory_that_the_agent_kept_in_an_opaque_one_hides_only_what_is_deleted(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [*REMADE, Mark(b"d/e", CLOSED), Mark(b"d/e/c", OLD)])
    world.take_out(b"d/new")

    assert world.kinds() == {b"d/a": Kind.DELETED, b"d/b": Kind.DELETED, b"d/e/f": Kind.DELETED}


def test_what_the_user_put_into_an_opaque_directory_is_seen_after_a_merge_of_it(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, REMADE)
    world.take_out(*(path for path in world.kinds()))

    assert world.marks() == {}


# --- what is under .git ---


def test_the_private_git_directory_is_not_touched(tmp_path: Path) -> None:
    git = [Mark(b".git", FOLDER, opaque=True), Mark(b".git/refs", FOLDER), Mark(b".git/HEAD", NEW), Mark(b".git/gone", None)]
    world = World(tmp_path, {}, [*git, Mark(b"x", NEW)])
    before = {path: sort for path, sort in world.marks().items() if path.startswith(b".git")}
    world.take_out(b"x", skip=GIT)

    assert world.marks() == before


def test_a_repository_that_the_agent_made_stays_whole(tmp_path: Path) -> None:
    git = [Mark(b"n", FOLDER), Mark(b"n/.git", FOLDER), Mark(b"n/.git/HEAD", NEW), Mark(b"n/.git/refs", FOLDER)]
    world = World(tmp_path, {}, [*git, Mark(b"n/code", NEW)])
    world.take_out(b"n/code")

    assert set(world.marks()) == {b"n", b"n/.git", b"n/.git/HEAD", b"n/.git/refs"}


def test_what_the_agent_deleted_in_a_nested_git_directory_stays_deleted(tmp_path: Path) -> None:
    base = {b"n": FOLDER, b"n/.git": FOLDER, b"n/.git/refs": FOLDER, b"n/.git/refs/x": OLD, b"n/code": OLD}
    world = World(tmp_path, base, [Mark(b"n", FOLDER), Mark(b"n/.git", FOLDER), Mark(b"n/.git/refs", None), Mark(b"n/code", NEW)])
    world.take_out(b"n/code")

    assert world.marks() == {b"n": "dir", b"n/.git": "dir", b"n/.git/refs": "whiteout"}


# --- odd ones ---


@pytest.mark.parametrize("name", [b"\n", b"\xff", b" ", b".wh.x", b"a" * 255])
def test_any_name_is_taken_out(tmp_path: Path, name: bytes) -> None:
    world = World(tmp_path, {}, [Mark(name, NEW)])
    world.take_out(name)

    assert world.marks() == {}


def test_a_link_in_the_session_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/y").touch()
    world = World(tmp_path, {}, [Mark(b"l", Node(trees.SYMLINK, b"../outside"))])
    world.take_out(b"l")

    assert (tmp_path / "outside/y").exists()


@pytest.fixture
def ordinary() -> Iterator[Path]:
    with open_place() as place:
        yield place


def test_an_ordinary_user_can_leave_deletions_of_an_opaque_directory(ordinary: Path) -> None:
    def act() -> None:
        world = World(ordinary, DEEP, REMADE)
        world.take_out(b"d/a")

        assert stat.S_ISCHR((ordinary / "upper/d/b").lstat().st_mode)

    as_ordinary(act)


def test_what_was_taken_leaves_a_directory_that_nobody_may_write_to(ordinary: Path) -> None:
    def act() -> None:
        world = World(ordinary, {}, [Mark(b"n", FOLDER), Mark(b"n/m", FOLDER), Mark(b"n/m/x", NEW), Mark(b"n/m/y", NEW)])
        for name in ("n/m", "n"):
            (world.upper / name).chmod(0o555)
        world.take_out(b"n/m/x")

        assert world.marks() == {b"n": "dir", b"n/m": "dir", b"n/m/y": "file"}
        assert [stat.S_IMODE((world.upper / name).stat().st_mode) for name in ("n", "n/m")] == [0o555, 0o555]

    as_ordinary(act)


def test_all_that_was_taken_leaves_directories_that_nobody_may_write_to(ordinary: Path) -> None:
    def act() -> None:
        world = World(ordinary, {}, [Mark(b"n", FOLDER), Mark(b"n/m", FOLDER), Mark(b"n/m/x", NEW)])
        for name in ("n/m", "n"):
            (world.upper / name).chmod(0o555)
        world.take_out(b"n/m/x")

        assert world.marks() == {}

    as_ordinary(act)
