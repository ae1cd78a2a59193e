"""What the roots held when a session began: identities of everything, bytes of what git's index does not vouch for."""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_dev.core.changes import FileType
from agent_dev.host import base, base_take, base_walk, private_git
from agent_dev.host.base import Base
from agent_dev.host.base_take import Touched, Wish
from tests.harness import trees
from tests.harness.repository import ENVIRON, commit, git, has_run, make_old, plant, repository, state_of, trap
from tests.harness.users import as_ordinary, open_place

GIT = shutil.which("git") or "git"


def wish_of(root: Path, **more: object) -> Wish:
    values: dict[str, object] = {"roots": (str(root),), "git": f"{root}/.git", "program": GIT, "environ": ENVIRON}
    return Wish(**{**values, **more})  # type: ignore[arg-type]


def taken(root: Path, **more: object) -> Base:
    """Take a base beside the root and read it back."""
    folder = root.parent / "base"
    base_take.take(str(folder), wish_of(root, **more))
    return Base(str(folder))


def stored(one: Base, path: str) -> bytes | None:
    """Return the bytes that a base has of its own."""
    place = one.stored(0, os.fsencode(path))
    return Path(place).read_bytes() if place else None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = repository(tmp_path / "root")
    make_old(root)
    return root


# --- identities ---


def test_every_path_has_its_identity(root: Path) -> None:
    (root / "link").symlink_to("a.txt")
    os.mkfifo(root / "pipe")
    (root / "empty").mkdir(0o700)
    entries = taken(root).entries(0)

    assert set(entries) == {b"a.txt", b"sub", b"sub/b.txt", b"link", b"pipe", b"empty"}
    for path, entry in entries.items():
        status = (root / os.fsdecode(path)).lstat()
        assert (entry.inode, entry.size, entry.mtime, entry.ctime) == (
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        assert entry.mode == status.st_mode & 0o7777
    assert entries[b"link"].target == b"a.txt"


@pytest.mark.parametrize("name", [b"\n", b"\xff\xfe", b"\x1b[2J", b" ", b'"', b"\\", "ä".encode()])
def test_any_name_comes_back(root: Path, name: bytes) -> None:
    with open(os.path.join(os.fsencode(root), name), "xb") as file:
        file.write(b"bytes")
    one = taken(root)

    assert one.entries(0)[name].type is FileType.FILE
    assert stored(one, os.fsdecode(name)) == b"bytes"


def test_the_roots_own_git_directory_is_no_part_of_it(root: Path) -> None:
    assert not any(path.startswith(b".git") for path in taken(root).entries(0))


def test_each_root_has_a_table_of_its_own(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x").write_bytes(b"x")
    one = taken(root, roots=(str(root), str(tmp_path / "other")))

    assert set(one.entries(1)) == {b"x"}
    assert Path(one.stored(1, b"x") or "").read_bytes() == b"x"


# --- bytes ---


def test_what_the_index_vouches_for_is_not_stored(root: Path) -> None:
    one = taken(root)

    assert one.is_in_index(0, b"a.txt")
    assert stored(one, "a.txt") is None


def test_an_edited_file_is_stored_raw(root: Path) -> None:
    (root / "a.txt").write_bytes(b"line\r\n\xff$Id$")
    one = taken(root)

    assert stored(one, "a.txt") == b"line\r\n\xff$Id$"
    assert not one.is_in_index(0, b"a.txt")


def test_an_edit_of_the_same_size_with_its_mtime_put_back_is_stored(root: Path) -> None:
    before = (root / "a.txt").stat()
    (root / "a.txt").write_bytes(b"MORE\n")
    os.utime(root / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert stored(taken(root), "a.txt") == b"MORE\n"


def test_an_untracked_file_is_stored(root: Path) -> None:
    (root / "new").write_bytes(b"new")
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/new").write_bytes(b"deep")
    one = taken(root)

    assert (stored(one, "new"), stored(one, "deep/er/new")) == (b"new", b"deep")


def test_an_ignored_file_has_its_identity_only(root: Path) -> None:
    (root / ".gitignore").write_text("*.o\nbuild/\n")
    (root / "x.o").write_bytes(b"object")
    (root / "build").mkdir()
    (root / "build/y").write_bytes(b"built")
    one = taken(root)

    assert {b"x.o", b"build/y"} <= set(one.entries(0))
    assert (stored(one, "x.o"), stored(one, "build/y")) == (None, None)
    assert not one.is_in_index(0, b"x.o")


def test_a_file_as_young_as_the_index_is_stored(root: Path) -> None:
    index = (root / ".git/index").stat().st_mtime_ns
    os.utime(root / "a.txt", ns=(index, index))
    git(root, "update-index", "--refresh", "-q", check=False)
    os.utime(root / ".git/index", ns=(index, index))
    one = taken(root)

    assert stored(one, "a.txt") == b"more\n"
    assert not one.is_in_index(0, b"a.txt")


def test_an_edit_in_the_same_instant_as_a_commit_is_not_taken_for_the_commit(root: Path) -> None:
    for number in range(5):
        (root / "a.txt").write_bytes(b"%d-a\n" % number)
        commit(root, "again")
        (root / "a.txt").write_bytes(b"%d-b\n" % number)
        one = taken(root)

        assert stored(one, "a.txt") == b"%d-b\n" % number
        shutil.rmtree(root.parent / "base")


def test_a_file_in_a_merge_conflict_is_stored(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "other", "HEAD~1")
    (root / "a.txt").write_text("theirs\n")
    commit(root, "theirs")
    git(root, "merge", "main", check=False)
    assert "UU a.txt" in git(root, "status", "--porcelain")

    assert stored(taken(root), "a.txt") == (root / "a.txt").read_bytes()


@pytest.mark.parametrize("word", ["--assume-unchanged", "--skip-worktree"])
def test_an_edit_that_git_was_told_to_overlook_is_stored(root: Path, word: str) -> None:
    git(root, "update-index", word, "a.txt")
    (root / "a.txt").write_bytes(b"overlooked\n")

    assert stored(taken(root), "a.txt") == b"overlooked\n"


def test_many_hard_links_of_one_file_are_stored_once_and_cost_no_descriptors(root: Path) -> None:
    (root / "x").write_bytes(b"linked")
    for number in range(1_200):
        os.link(root / "x", root / f"x{number}")
    before = len(os.listdir("/proc/self/fd"))
    one = taken(root)

    assert len(os.listdir("/proc/self/fd")) == before
    assert {stored(one, f"x{number}") for number in range(1_200)} == {b"linked"}
    assert len(list((root.parent / "base/content").iterdir())) == 1


# --- the index ---


def test_the_index_is_copied_with_its_mtime(root: Path) -> None:
    taken(root)
    one, copy = (root / ".git/index").stat(), (root.parent / "base/index").stat()

    assert copy.st_mtime_ns == one.st_mtime_ns
    assert (root.parent / "base/index").read_bytes() == (root / ".git/index").read_bytes()


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_any_version_of_the_index_vouches(root: Path, version: str) -> None:
    git(root, "update-index", "--index-version", version)

    assert taken(root).is_in_index(0, b"sub/b.txt")


def test_a_torn_index_vouches_for_nothing_and_everything_is_stored(root: Path) -> None:
    data = (root / ".git/index").read_bytes()
    (root / ".git/index").write_bytes(data[: len(data) // 2])
    one = taken(root)

    assert one.is_complete
    assert stored(one, "a.txt") == b"more\n"


def test_a_split_index_loses_no_edit(root: Path) -> None:
    git(root, "update-index", "--split-index")
    (root / "a.txt").write_bytes(b"edited\n")
    one = taken(root)

    assert stored(one, "a.txt") == b"edited\n"
    assert one.is_in_index(0, b"sub/b.txt")


def test_a_repository_with_sha256_is_taken_alike(tmp_path: Path) -> None:
    root = repository(tmp_path / "root", "--object-format=sha256")
    make_old(root)
    (root / "a.txt").write_bytes(b"edited\n")
    one = taken(root)

    assert (one.is_in_index(0, b"sub/b.txt"), stored(one, "a.txt")) == (True, b"edited\n")


def test_a_repository_without_commits_is_taken(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q")
    (root / "x").write_bytes(b"x")

    assert stored(taken(root), "x") == b"x"


def test_a_nested_repository_without_a_commit_stops_nothing(root: Path) -> None:
    (root / "nested").mkdir()
    git(root / "nested", "init", "-q")
    (root / "nested/x").write_bytes(b"x")
    (root / "new").write_bytes(b"new")
    one = taken(root)

    assert b"nested/x" in one.entries(0)
    assert stored(one, "new") == b"new"


def test_without_git_every_file_is_stored(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/x").write_bytes(b"x")

    assert stored(taken(tmp_path / "root", git="", program=""), "x") == b"x"


def test_where_git_cannot_tell_every_file_is_stored(root: Path) -> None:
    (root / ".git/HEAD").write_text("nonsense\n")
    (root / "new").write_bytes(b"new")

    assert stored(taken(root), "new") == b"new"


# --- nothing of the repository is executed, nothing in it is written ---


def test_no_program_of_the_repository_is_executed(root: Path, tmp_path: Path) -> None:
    planted = trap(tmp_path / "traps")
    plant(root / ".git", planted)
    (root / ".gitattributes").write_text("* filter=trap\n")
    (root / "a.txt").write_bytes(b"edited\n")
    (root / "new").write_bytes(b"new\n")
    one = taken(root)

    assert not has_run(planted)
    assert (stored(one, "a.txt"), stored(one, "new")) == (b"edited\n", b"new\n")


def test_the_trap_of_that_test_works(root: Path, tmp_path: Path) -> None:
    planted = trap(tmp_path / "traps")
    plant(root / ".git", planted)
    (root / ".gitattributes").write_text("* filter=trap\n")
    git(root, "status", check=False)

    assert has_run(planted)


@pytest.mark.parametrize("word", ["", "--split-index", "--untracked-cache"])
def test_nothing_in_the_repository_is_written(root: Path, word: str) -> None:
    if word:
        git(root, "update-index", word)
    (root / "a.txt").write_bytes(b"edited\n")
    before = state_of(root)
    taken(root)

    assert state_of(root) == before


# --- bounds ---


def test_a_base_that_reached_its_bound_of_time_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_walk, "MANY_SECONDS", -1.0)

    assert not taken(root).is_complete


def test_a_base_that_reached_its_bound_of_paths_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_walk, "Budget", partial(base_walk.Budget, paths=2))
    one = taken(root)

    assert (one.is_complete, len(one.entries(0))) == (False, 2)


def test_a_base_within_its_bounds_is_complete(root: Path) -> None:
    assert taken(root).is_complete


def test_a_file_past_the_bound_has_its_identity_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_walk, "LARGE_FILE", 3)
    (root / "big").write_bytes(b"1234")
    (root / "small").write_bytes(b"123")
    one = taken(root)

    assert (stored(one, "big"), stored(one, "small")) == (None, b"123")
    assert one.entries(0)[b"big"].size == 4


def test_past_the_bound_of_bytes_nothing_more_is_stored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_walk, "Budget", partial(base_walk.Budget, content=10))
    for number in range(5):
        (root / f"n{number}").write_bytes(b"1234")
    one = taken(root)

    assert sum(stored(one, f"n{number}") is not None for number in range(5)) == 2


# --- odd trees ---


def test_what_cannot_be_read_has_its_identity_only() -> None:
    def act() -> None:
        root = repository(place / "root")
        (root / "secret").write_bytes(b"x")
        (root / "secret").chmod(0)
        (root / "closed").mkdir()
        (root / "closed/x").touch()
        (root / "closed").chmod(0)
        (root / "new").write_bytes(b"new")
        one = taken(root)

        assert {b"secret", b"closed", b"new", b"a.txt"} <= set(one.entries(0))
        assert (stored(one, "secret"), stored(one, "new")) == (None, b"new")

    with open_place() as place:
        as_ordinary(act)


def test_a_fifo_and_a_link_to_one_hang_nothing(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("pipe")
    one = taken(root)

    assert one.entries(0)[b"pipe"].type is FileType.FIFO
    assert stored(one, "link") is None


def test_a_file_that_went_meanwhile_stops_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "fleeting").write_bytes(b"x")
    (root / "z").write_bytes(b"z")
    copy = private_git.copy_file

    def vanish(source: str, target: str) -> None:
        (root / "fleeting").unlink(missing_ok=True)
        copy(source, target)

    monkeypatch.setattr(base_walk, "copy_file", vanish)
    one = taken(root)

    assert stored(one, "z") == b"z"


def test_bytes_that_came_after_the_identity_was_taken_are_not_stored_as_its_bytes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "new").write_bytes(b"before")
    copy = private_git.copy_file

    def save_first(source: str, target: str) -> None:
        if source.endswith("/new"):
            (root / "new").write_bytes(b"after!")
        copy(source, target)

    monkeypatch.setattr(base_walk, "copy_file", save_first)

    assert stored(taken(root), "new") is None


# --- in a process of its own ---


def test_a_base_is_taken_by_a_process_of_its_own(root: Path) -> None:
    folder = root.parent / "base"
    base_take.wait_for(base_take.begin(str(folder), wish_of(root)))

    assert Base(str(folder)).is_known()


def test_a_base_that_cannot_be_taken_leaves_its_reason_and_nothing_known(root: Path) -> None:
    folder = root.parent / "base"
    folder.mkdir()
    base_take.wait_for(base_take.begin(str(folder), wish_of(root, roots=(str(root / "gone"),), git="")))

    assert not Base(str(folder)).is_known()
    assert "gone" in (folder / "problem").read_text()


def test_a_base_that_was_cancelled_is_not_known(root: Path) -> None:
    folder = root.parent / "base"
    base_take.cancel(base_take.begin(str(folder), wish_of(root)))

    assert not (folder / "manifest").exists() or Base(str(folder)).is_known()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"version": 2, "complete": true, "roots": []}'])
def test_a_manifest_that_cannot_be_read_is_no_base(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "manifest").write_bytes(data)

    assert not Base(str(tmp_path)).is_known()


# --- a resumed session, and one of which a part was merged ---


def test_what_an_agent_had_changed_before_keeps_its_older_base(root: Path) -> None:
    old = taken(root).entries(0)
    for name in ("a.txt", "sub/b.txt"):
        (root / name).write_bytes(b"the user's\n")
    touched = Touched(paths=frozenset((b"sub",)), hiding=(b"sub",))
    one = taken(root, touched=(touched,))

    assert one.entries(0)[b"sub/b.txt"] == old[b"sub/b.txt"]
    assert one.entries(0)[b"a.txt"] != old[b"a.txt"]


MERGES: dict[str, Callable[[Path], object]] = {
    "an edit": lambda root: (root / "a.txt").write_bytes(b"merged\n"),
    "a removal": lambda root: (root / "a.txt").unlink(),
    "an addition": lambda root: (root / "new").write_bytes(b"new\n"),
}


@pytest.mark.parametrize("what", MERGES)
def test_a_base_learns_what_a_merge_made(root: Path, what: str) -> None:
    before = taken(root).entries(0)
    MERGES[what](root)
    path = "new" if what == "an addition" else "a.txt"
    now = trees.entry_on_disk(root / path)
    base.learn(str(root.parent / "base"), 0, {os.fsencode(path): now})
    after = Base(str(root.parent / "base")).entries(0)

    assert after.get(os.fsencode(path)) == now
    assert {name: entry for name, entry in after.items() if name != os.fsencode(path)} == {
        name: entry for name, entry in before.items() if name != os.fsencode(path)
    }


def test_a_base_that_is_taken_again_knows_better_than_what_it_learned(root: Path) -> None:
    taken(root)
    base.learn(str(root.parent / "base"), 0, {b"a.txt": None})
    one = taken(root, touched=(Touched(),))

    assert b"a.txt" in one.entries(0)


def test_what_was_learned_stays_where_the_agent_hides_it(root: Path) -> None:
    taken(root)
    base.learn(str(root.parent / "base"), 0, {b"sub/b.txt": None})
    one = taken(root, touched=(Touched(hiding=(b"sub",), paths=frozenset((b"sub",))),))

    assert b"sub/b.txt" not in one.entries(0)
