"""Mount points in a home that an agent can write: made without following anything, removed only when still empty."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.fs import safe_mkdir as folders


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path / "home"


@pytest.fixture
def fd(home: Path) -> Iterator[int]:
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_missing_directories_are_made_and_named_outermost_first(home: Path, fd: int) -> None:
    (home / "a").mkdir()

    assert folders.make(fd, "a/b/c") == ("a/b", "a/b/c")
    assert everything(home) == {"a", "a/b", "a/b/c"}


def test_what_is_there_is_not_made_again(home: Path, fd: int) -> None:
    (home / "a/b").mkdir(parents=True)

    assert folders.make(fd, "a/b") == ()


def test_a_file_is_made_empty_and_read_only_with_its_directories(home: Path, fd: int) -> None:
    assert folders.make_file(fd, "a/f") == ("a", "a/f")
    assert (home / "a/f").read_bytes() == b""
    assert (home / "a/f").stat().st_mode & 0o777 == 0o444


def test_a_file_that_is_there_is_left_as_it_is(home: Path, fd: int) -> None:
    (home / "f").write_bytes(b"the agent's")

    assert folders.make_file(fd, "f") == ()
    assert (home / "f").read_bytes() == b"the agent's"


MAKERS = [folders.make, folders.make_file, folders.walk]


@pytest.mark.parametrize("make", MAKERS)
def test_a_link_in_the_way_is_not_followed(home: Path, fd: int, make: object) -> None:
    (home / "a").symlink_to("../outside")

    with pytest.raises(OSError, match="a"):
        make(fd, "a/b/c")  # type: ignore[operator]
    assert everything(home.parent / "outside") == set()


@pytest.mark.parametrize("make", MAKERS)
def test_a_broken_link_in_the_way_makes_nothing_where_it_points(home: Path, fd: int, make: object) -> None:
    (home / "a").symlink_to("../outside/new")

    with pytest.raises(OSError, match="a"):
        make(fd, "a/b")  # type: ignore[operator]
    assert everything(home.parent / "outside") == set()


def test_a_link_at_the_end_is_no_directory(home: Path, fd: int) -> None:
    (home / "a").symlink_to("../outside")

    with pytest.raises(OSError, match="a"):
        folders.make(fd, "a")


def test_a_link_where_a_file_belongs_makes_nothing_where_it_points(home: Path, fd: int) -> None:
    (home / "f").symlink_to("../outside/new")
    folders.make_file(fd, "f")

    assert everything(home.parent / "outside") == set()


@pytest.mark.parametrize("make", MAKERS)
def test_a_file_in_the_way_is_an_error(home: Path, fd: int, make: object) -> None:
    (home / "a").write_bytes(b"x")

    with pytest.raises(OSError, match="a"):
        make(fd, "a/b")  # type: ignore[operator]
    assert (home / "a").read_bytes() == b"x"


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("path", ["../outside/new", "a/../../outside/new", ".."])
def test_no_path_leads_out(home: Path, fd: int, make: object, path: str) -> None:
    (home / "a").mkdir()

    with pytest.raises(OSError):  # noqa: PT011  (which one is the kernel's affair)
        make(fd, path)  # type: ignore[operator]
    assert everything(home.parent) == {"home", "home/a", "outside"}


def test_a_walk_ends_at_the_very_directory(home: Path, fd: int) -> None:
    (home / "a/b").mkdir(parents=True)
    found = folders.walk(fd, "a/b")
    try:
        assert os.fstat(found).st_ino == (home / "a/b").stat().st_ino
    finally:
        os.close(found)


def test_a_walk_to_a_file_must_be_told_so(home: Path, fd: int) -> None:
    (home / "f").touch()
    os.close(folders.walk(fd, "f", last_is_file=True))

    with pytest.raises(NotADirectoryError):
        folders.walk(fd, "f")


@pytest.mark.parametrize("make", MAKERS)
def test_no_descriptor_stays_open_after_an_error(home: Path, fd: int, make: object) -> None:
    (home / "a").symlink_to("/")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(OSError, match="a"):
            make(fd, "a/b")  # type: ignore[operator]

    assert len(os.listdir("/proc/self/fd")) == before


# --- taking them away again ---


def test_what_was_made_goes_innermost_first(home: Path, fd: int) -> None:
    folders.unmake(fd, (*folders.make(fd, "a/b/c"), *folders.make_file(fd, "d/f")))

    assert everything(home) == set()


def test_what_is_no_longer_empty_stays(home: Path, fd: int) -> None:
    made = folders.make(fd, "a/b")
    (home / "a/mine").touch()
    folders.unmake(fd, made)

    assert everything(home) == {"a", "a/mine"}


def test_a_file_that_was_written_to_stays(home: Path, fd: int) -> None:
    made = folders.make_file(fd, "f")
    (home / "f").chmod(0o644)
    (home / "f").write_bytes(b"x")
    folders.unmake(fd, made)

    assert everything(home) == {"f"}


def test_an_empty_file_of_somebody_elses_stays(home: Path, fd: int) -> None:
    made = folders.make_file(fd, "f")
    (home / "f").unlink()
    (home / "f").touch(0o644)
    folders.unmake(fd, made)

    assert everything(home) == {"f"}


def test_a_link_that_took_its_place_stays(home: Path, fd: int) -> None:
    made = folders.make(fd, "a")
    (home / "a").rmdir()
    (home / "a").symlink_to("../outside")
    folders.unmake(fd, made)

    assert (home / "a").is_symlink()


def test_nothing_is_removed_through_a_link(home: Path, fd: int) -> None:
    made = folders.make(fd, "a/b")
    (home / "a/b").rmdir()
    (home / "a").rmdir()
    (home / "a").symlink_to("../outside")
    (home.parent / "outside/b").mkdir()
    folders.unmake(fd, made)

    assert everything(home.parent / "outside") == {"b"}


def test_what_is_gone_already_is_no_error(home: Path, fd: int) -> None:
    made = folders.make(fd, "a/b")
    (home / "a/b").rmdir()
    (home / "a").rmdir()
    folders.unmake(fd, made)

    assert everything(home) == set()
