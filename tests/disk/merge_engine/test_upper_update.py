"""Applied changes are removed from the session, and unselected ones stay exactly as the agent left them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.fs import dir_tree, walk
from agent_dev.fs.entry import FileType, WalkedEntry
from agent_dev.merge_engine.upper_update import remove_applied
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet
from agent_dev.overlay.interpret import files_to_compare, interpret
from tests.harness import trees
from tests.harness.trees import DIRECTORY, FILE, Node, Tree, UpperEntry
from tests.harness.users import call_as_ordinary_user, ordinary_users_directory

OLD, NEW, FOLDER, CLOSED = Node(FILE, b"old"), Node(FILE, b"new!"), Node(DIRECTORY, b"", 0o755), Node(DIRECTORY, b"", 0o700)
GIT = (b".git",)


class World:
    """The original real tree, and the upper of a session that changed it."""

    def __init__(self, folder: Path, base: Tree, marks: list[UpperEntry]) -> None:
        self.real, self.upper = folder / "real", folder / "upper"
        self.real.mkdir()
        self.upper.mkdir()
        trees.write(self.real, base)
        trees.write_upper(self.upper, marks)
        self.base = {one.path: one.entry for one in walk.walk(str(self.real), skip=GIT)}

    def changes(self) -> dict[bytes, Change]:
        """Return the session's changes relative to the base."""
        upper = list(walk.walk(str(self.upper), skip=GIT))
        real, agent = dir_tree.Tree(str(self.real)), dir_tree.Tree(str(self.upper))
        same = frozenset(path for path in files_to_compare(upper, self.base) if dir_tree.have_same_content(agent, real, path))
        real.close()
        agent.close()
        return {change.key.path: change for change in interpret(0, upper, self.base, same)}

    def kinds(self) -> dict[bytes, ChangeKind]:
        return {path: change.kind for path, change in self.changes().items()}

    def take_out(self, *paths: bytes, skip: tuple[bytes, ...] = ()) -> None:
        """Remove changes from the session and update the base as if they had been applied."""
        changes = ChangeSet(tuple(self.changes().values()))
        taken = tuple(change for change in changes.changes if change.key.path in paths)
        assert len(taken) == len(paths)
        tree = dir_tree.Tree(str(self.upper))
        try:
            remove_applied(tree, taken, tuple(change for change in changes.changes if change not in taken), skip)
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
        """Return the kind of every entry of the upper."""
        return {one.path: self._sort(one) for one in walk.walk(str(self.upper))}

    @staticmethod
    def _sort(one: WalkedEntry) -> str:
        if one.is_whiteout():
            return "whiteout"
        return "opaque" if one.is_opaque() else str(one.entry.type)


DEEP = {b"d": FOLDER, b"d/a": OLD, b"d/b": OLD, b"d/e": CLOSED, b"d/e/c": OLD, b"d/e/f": OLD, b"x": OLD}


@pytest.mark.parametrize("kind", [FILE, trees.SYMLINK, trees.FIFO, DIRECTORY])
def test_an_applied_addition_is_removed_from_the_session(tmp_path: Path, kind: FileType) -> None:
    world = World(tmp_path, {}, [UpperEntry(b"n", Node(kind, b"x" if kind in (FILE, trees.SYMLINK) else b""))])
    world.take_out(b"n")

    assert world.marks() == {}


def test_an_applied_edit_is_removed_from_the_session_and_others_stay(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [UpperEntry(b"d", FOLDER), UpperEntry(b"d/a", NEW), UpperEntry(b"x", NEW)])
    world.take_out(b"d/a")

    assert world.marks() == {b"x": "file"}
    assert (world.upper / "x").read_bytes() == NEW.content


def test_an_applied_deletion_leaves_no_whiteout(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [UpperEntry(b"d", FOLDER), UpperEntry(b"d/a", None), UpperEntry(b"x", None)])
    world.take_out(b"d/a")

    assert world.marks() == {b"x": "whiteout"}


def test_empty_new_directories_around_applied_changes_are_removed(tmp_path: Path) -> None:
    world = World(
        tmp_path, {}, [UpperEntry(b"n", FOLDER), UpperEntry(b"n/m", FOLDER), UpperEntry(b"n/m/x", NEW), UpperEntry(b"n/y", NEW)]
    )
    world.take_out(b"n/m/x")

    assert world.marks() == {b"n": "dir", b"n/y": "file"}


def test_an_unselected_empty_directory_stays(tmp_path: Path) -> None:
    world = World(tmp_path, {}, [UpperEntry(b"empty", CLOSED), UpperEntry(b"x", NEW)])
    world.take_out(b"x")

    assert world.kinds() == {b"empty": ChangeKind.ADDED}


def test_an_unselected_directory_mode_stays(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [UpperEntry(b"d", CLOSED), UpperEntry(b"d/a", NEW)])
    world.take_out(b"d/a")

    assert world.kinds() == {b"d": ChangeKind.METADATA}
    assert (world.upper / "d").stat().st_mode & 0o777 == CLOSED.mode


def test_an_applied_directory_mode_keeps_its_contents(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [UpperEntry(b"d", CLOSED), UpperEntry(b"d/a", NEW)])
    world.take_out(b"d")

    assert world.kinds() == {b"d/a": ChangeKind.EDITED}


def test_a_partly_applied_directory_removal_stays_in_the_session(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [UpperEntry(b"d", None)])
    world.take_out(b"d/a", b"d/e/c")

    assert world.marks() == {b"d": "whiteout"}
    assert world.kinds() == {b"d/b": ChangeKind.DELETED, b"d/e/f": ChangeKind.DELETED}


def test_a_fully_applied_directory_removal_leaves_no_whiteout(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [UpperEntry(b"d", None)])
    world.take_out(b"d/a", b"d/b", b"d/e/c", b"d/e/f")

    assert world.marks() == {}


def test_an_applied_directory_that_replaced_a_file_is_removed_with_contents(tmp_path: Path) -> None:
    world = World(tmp_path, {b"x": OLD}, [UpperEntry(b"x", FOLDER, opaque=True), UpperEntry(b"x/y", NEW)])
    world.take_out(b"x", b"x/y")

    assert world.marks() == {}


def test_a_directory_that_replaced_a_file_keeps_unselected_contents(tmp_path: Path) -> None:
    world = World(
        tmp_path, {b"x": OLD}, [UpperEntry(b"x", FOLDER, opaque=True), UpperEntry(b"x/y", NEW), UpperEntry(b"x/z", NEW)]
    )
    world.take_out(b"x", b"x/y")

    assert world.kinds() == {b"x/z": ChangeKind.ADDED}
    assert world.marks() == {b"x": "dir", b"x/z": "file"}


# --- opaque directories: entries that they hide are visible again, except for unselected deletions ---

REMADE = [UpperEntry(b"d", FOLDER, opaque=True), UpperEntry(b"d/new", NEW)]


def test_an_opaque_directory_without_applied_changes_stays_opaque(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [*REMADE, UpperEntry(b"y", NEW)])
    world.take_out(b"y")

    assert world.marks() == {b"d": "opaque", b"d/new": "file"}


def test_a_partly_applied_opaque_directory_is_no_longer_opaque(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, REMADE)
    world.take_out(b"d/a", b"d/new")

    assert world.marks()[b"d"] == "dir"
    assert world.kinds() == {b"d/b": ChangeKind.DELETED, b"d/e/c": ChangeKind.DELETED, b"d/e/f": ChangeKind.DELETED}


def test_a_subdirectory_removed_in_an_opaque_one_stays_removed(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, REMADE)
    world.take_out(b"d/a")

    assert world.marks() == {b"d": "dir", b"d/b": "whiteout", b"d/e": "whiteout", b"d/new": "file"}


def test_a_subdirectory_kept_in_an_opaque_one_hides_only_deleted_entries(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, [*REMADE, UpperEntry(b"d/e", CLOSED), UpperEntry(b"d/e/c", OLD)])
    world.take_out(b"d/new")

    assert world.kinds() == {b"d/a": ChangeKind.DELETED, b"d/b": ChangeKind.DELETED, b"d/e/f": ChangeKind.DELETED}


def test_a_fully_merged_opaque_directory_leaves_no_mark(tmp_path: Path) -> None:
    world = World(tmp_path, DEEP, REMADE)
    world.take_out(*(path for path in world.kinds()))

    assert world.marks() == {}


# --- .git directories ---


def test_the_private_git_directory_is_not_touched(tmp_path: Path) -> None:
    git = [
        UpperEntry(b".git", FOLDER, opaque=True),
        UpperEntry(b".git/refs", FOLDER),
        UpperEntry(b".git/HEAD", NEW),
        UpperEntry(b".git/gone", None),
    ]
    world = World(tmp_path, {}, [*git, UpperEntry(b"x", NEW)])
    before = {path: sort for path, sort in world.marks().items() if path.startswith(b".git")}
    world.take_out(b"x", skip=GIT)

    assert world.marks() == before


def test_a_repository_created_by_the_agent_stays_whole(tmp_path: Path) -> None:
    git = [
        UpperEntry(b"n", FOLDER),
        UpperEntry(b"n/.git", FOLDER),
        UpperEntry(b"n/.git/HEAD", NEW),
        UpperEntry(b"n/.git/refs", FOLDER),
    ]
    world = World(tmp_path, {}, [*git, UpperEntry(b"n/code", NEW)])
    world.take_out(b"n/code")

    assert set(world.marks()) == {b"n", b"n/.git", b"n/.git/HEAD", b"n/.git/refs"}


def test_deletions_of_the_agent_in_a_nested_git_directory_stay(tmp_path: Path) -> None:
    base = {b"n": FOLDER, b"n/.git": FOLDER, b"n/.git/refs": FOLDER, b"n/.git/refs/x": OLD, b"n/code": OLD}
    world = World(
        tmp_path,
        base,
        [UpperEntry(b"n", FOLDER), UpperEntry(b"n/.git", FOLDER), UpperEntry(b"n/.git/refs", None), UpperEntry(b"n/code", NEW)],
    )
    world.take_out(b"n/code")

    assert world.marks() == {b"n": "dir", b"n/.git": "dir", b"n/.git/refs": "whiteout"}


# --- unusual names and modes ---


@pytest.mark.parametrize("name", [b"\n", b"\xff", b" ", b".wh.x", b"a" * 255])
def test_any_name_is_removed_from_the_session(tmp_path: Path, name: bytes) -> None:
    world = World(tmp_path, {}, [UpperEntry(name, NEW)])
    world.take_out(name)

    assert world.marks() == {}


def test_a_symlink_in_the_session_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/y").touch()
    world = World(tmp_path, {}, [UpperEntry(b"l", Node(trees.SYMLINK, b"../outside"))])
    world.take_out(b"l")

    assert (tmp_path / "outside/y").exists()


@pytest.fixture
def ordinary() -> Iterator[Path]:
    with ordinary_users_directory() as place:
        yield place


def test_an_ordinary_user_can_leave_deletions_in_an_opaque_directory(ordinary: Path) -> None:
    def act() -> None:
        world = World(ordinary, DEEP, REMADE)
        world.take_out(b"d/a")

        assert stat.S_ISCHR((ordinary / "upper/d/b").lstat().st_mode)

    call_as_ordinary_user(act)


def test_an_applied_change_is_removed_from_a_read_only_directory(ordinary: Path) -> None:
    def act() -> None:
        world = World(
            ordinary,
            {},
            [UpperEntry(b"n", FOLDER), UpperEntry(b"n/m", FOLDER), UpperEntry(b"n/m/x", NEW), UpperEntry(b"n/m/y", NEW)],
        )
        for name in ("n/m", "n"):
            (world.upper / name).chmod(0o555)
        world.take_out(b"n/m/x")

        assert world.marks() == {b"n": "dir", b"n/m": "dir", b"n/m/y": "file"}
        assert [stat.S_IMODE((world.upper / name).stat().st_mode) for name in ("n", "n/m")] == [0o555, 0o555]

    call_as_ordinary_user(act)


def test_applied_read_only_directories_are_removed(ordinary: Path) -> None:
    def act() -> None:
        world = World(ordinary, {}, [UpperEntry(b"n", FOLDER), UpperEntry(b"n/m", FOLDER), UpperEntry(b"n/m/x", NEW)])
        for name in ("n/m", "n"):
            (world.upper / name).chmod(0o555)
        world.take_out(b"n/m/x")

        assert world.marks() == {}

    call_as_ordinary_user(act)
