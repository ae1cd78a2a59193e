"""Walking a directory yields entries of every type, name and depth, and follows no link."""

import os
import socket
import stat
from pathlib import Path

import pytest

from agent_dev.fs import walk as scan
from agent_dev.fs.entry import LONGEST_PATH, FileType, WalkedEntry
from tests.harness import trees
from tests.harness.users import call_as_ordinary_user, ordinary_users_directory

DEEP = 3_000


def scanned(folder: Path, **more: object) -> dict[bytes, WalkedEntry]:
    return {one.path: one for one in scan.walk(str(folder), **more)}  # type: ignore[arg-type]


def test_each_file_type_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "dir").mkdir()
    (tmp_path / "symlink").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    trees.whiteout(tmp_path / "device")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        found = scanned(tmp_path)

    assert {os.fsdecode(path): str(one.entry.type) for path, one in found.items()} == {kind: kind for kind in FileType}


def test_an_entry_contains_the_lstat_fields(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    path.chmod(0o4751)
    os.link(path, tmp_path / "b")
    status, entry = path.lstat(), scanned(tmp_path)[b"a"].entry

    assert (entry.mode, entry.size, entry.links) == (0o4751, 3, 2)
    assert (entry.inode, entry.mtime, entry.ctime) == (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def test_a_symlink_has_its_target_and_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    (tmp_path / "in").mkdir()
    for name, target in (("dir", outside), ("broken", Path("/nowhere")), ("loop", Path("loop"))):
        (tmp_path / "in" / name).symlink_to(target)
    found = scanned(tmp_path / "in")

    assert {path: one.entry.target for path, one in found.items()} == {
        b"dir": os.fsencode(outside),
        b"broken": b"/nowhere",
        b"loop": b"loop",
    }


def test_parents_precede_their_entries(tmp_path: Path) -> None:
    (tmp_path / "b/c/d").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").touch()
    seen: set[bytes] = {b""}
    for one in scan.walk(str(tmp_path)):
        assert one.path.rpartition(b"/")[0] in seen
        seen.add(one.path)

    assert seen == {b"", b"a", b"a/x", b"b", b"b/c", b"b/c/d"}


@pytest.mark.parametrize("name", [b"\n", b"a\nb", b"\xff\xfe", b" ", b"-", b".wh.x", b"\x1b[2J", b"a" * 255, "ä".encode()])
def test_any_name_is_preserved_byte_for_byte(tmp_path: Path, name: bytes) -> None:
    os.mkdir(os.path.join(os.fsencode(tmp_path), name))
    with open(os.path.join(os.fsencode(tmp_path), name, name), "xb"):
        pass

    assert set(scanned(tmp_path)) == {name, name + b"/" + name}


def test_skipped_names_are_skipped_at_the_top_only(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/x").touch()
    (tmp_path / "sub/.git").mkdir(parents=True)

    assert set(scanned(tmp_path, skip=(b".git",))) == {b"sub", b"sub/.git"}


def make_deep(folder: Path, depth: int = DEEP) -> None:
    """Create nested directories whose path is longer than the kernel accepts."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with open(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:
        file.write(b"deep")
    os.close(here)


def test_a_tree_is_read_to_the_longest_path_with_few_descriptors(abyss: Path) -> None:
    make_deep(abyss)
    problems: list[str] = []
    before = len(os.listdir("/proc/self/fd"))
    most = count = 0
    for one in scan.walk(str(abyss), problems=problems):
        count += 1
        assert one.is_too_deep == (len(one.path) > LONGEST_PATH)
        if count % 500 == 0:
            most = max(most, len(os.listdir("/proc/self/fd")))

    assert (count, problems) == (LONGEST_PATH // 2 + 1, [])
    assert most - before < 5


def test_a_reader_that_stops_early_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    walk = scan.walk(str(tmp_path))
    next(walk)
    walk.close()  # type: ignore[attr-defined]  # a generator

    assert len(os.listdir("/proc/self/fd")) == before


def test_attributes_are_split_into_the_files_own_and_the_overlays(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for name, value in (
        ("user.note", b"1"),
        ("user.overlay.opaque", b"y"),
        ("user.overlay.overlay.opaque", b"x"),
        ("user.a", b"\0"),
    ):
        os.setxattr(tmp_path / "d", name, value)
    one = scanned(tmp_path)[b"d"]

    assert one.entry.attributes == (("user.a", b"\0"), ("user.note", b"1"))
    assert one.overlay == (("opaque", b"y"), ("overlay.opaque", b"x"))
    assert one.is_opaque()


def test_attributes_of_files_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    os.setxattr(tmp_path / "f", "user.note", b"1")

    assert scanned(tmp_path)[b"f"].entry.attributes == (("user.note", b"1"),)


def test_attributes_are_not_read_unless_requested(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    os.setxattr(tmp_path / "f", "user.note", b"1")

    assert scanned(tmp_path, attributes=False)[b"f"].entry.attributes == ()


def test_a_whiteout_is_distinguished_from_other_devices(tmp_path: Path) -> None:
    trees.whiteout(tmp_path / "gone")
    os.link(tmp_path / "gone", tmp_path / "gone too")

    assert [one.is_whiteout() for one in scanned(tmp_path).values()] == [True, True]
    assert not next(one for one in scan.walk("/dev") if one.path == b"null").is_whiteout()


def test_an_unreadable_directory_is_a_problem_and_the_rest_is_read() -> None:
    def act() -> None:
        (place / "a/in").mkdir(parents=True)
        (place / "b").touch()
        (place / "a").chmod(0)
        problems: list[str] = []

        assert set(scanned(place, problems=problems)) == {b"a", b"b"}
        assert problems == ["a: Permission denied"]

    with ordinary_users_directory() as place:
        call_as_ordinary_user(act)


def test_an_unsearchable_directory_is_a_problem_and_the_rest_is_read() -> None:
    def act() -> None:
        (place / "a/in").mkdir(parents=True)
        (place / "b").touch()
        (place / "a").chmod(0o444)
        problems: list[str] = []

        assert set(scanned(place, problems=problems)) == {b"a", b"b"}
        assert [problem.partition(":")[0] for problem in problems] == ["a"]

    with ordinary_users_directory() as place:
        call_as_ordinary_user(act)


@pytest.mark.parametrize("mode", [0o000, 0o200, 0o111])
def test_an_unreadable_file_is_an_entry_with_its_mode(mode: int) -> None:
    def act() -> None:
        (place / "f").write_bytes(b"abc")
        os.setxattr(place / "f", "user.overlay.origin", b"\0")  # overlayfs sets this on every copied-up file
        (place / "f").chmod(mode)
        problems: list[str] = []

        assert scanned(place, problems=problems)[b"f"].entry.mode == mode
        assert problems == []

    with ordinary_users_directory() as place:
        call_as_ordinary_user(act)


def test_a_problem_does_not_hide_an_unusual_name() -> None:
    def act() -> None:
        name = os.path.join(os.fsencode(place), b"\xff\n")
        os.mkdir(name, 0)
        problems: list[str] = []

        assert set(scanned(place, problems=problems)) == {b"\xff\n"}
        assert os.fsencode(problems[0]).startswith(b"\xff\n: ")

    with ordinary_users_directory() as place:
        call_as_ordinary_user(act)


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(scan.walk(str(tmp_path / "none")))


def test_an_open_directory_yields_its_own_entry(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("x")
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        entry = scan.read_entry(here, b"l")
    finally:
        os.close(here)

    assert (entry.type, entry.target, stat.S_IMODE(entry.mode)) == (FileType.SYMLINK, b"x", 0o777)
