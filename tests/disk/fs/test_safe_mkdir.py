"""Mount points in a home that an agent can write to: created without following links, removed only while empty."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.fs import safe_mkdir


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


def test_missing_directories_are_created_and_listed_outermost_first(home: Path, fd: int) -> None:
    (home / "a").mkdir()

    assert safe_mkdir.make_directories(fd, "a/b/c") == ("a/b", "a/b/c")
    assert everything(home) == {"a", "a/b", "a/b/c"}


def test_existing_directories_are_not_created_again(home: Path, fd: int) -> None:
    (home / "a/b").mkdir(parents=True)

    assert safe_mkdir.make_directories(fd, "a/b") == ()


def test_an_empty_read_only_file_is_created_with_its_directories(home: Path, fd: int) -> None:
    assert safe_mkdir.make_file(fd, "a/f") == ("a", "a/f")
    assert (home / "a/f").read_bytes() == b""
    assert (home / "a/f").stat().st_mode & 0o777 == 0o444


def test_an_existing_file_is_unchanged(home: Path, fd: int) -> None:
    (home / "f").write_bytes(b"the agent's")

    assert safe_mkdir.make_file(fd, "f") == ()
    assert (home / "f").read_bytes() == b"the agent's"


MAKERS = [safe_mkdir.make_directories, safe_mkdir.make_file, safe_mkdir.open_below]


@pytest.mark.parametrize("make", MAKERS)
def test_a_symlink_in_the_path_is_not_followed(home: Path, fd: int, make: object) -> None:
    (home / "a").symlink_to("../outside")

    with pytest.raises(OSError, match="a"):
        make(fd, "a/b/c")  # type: ignore[operator]
    assert everything(home.parent / "outside") == set()


@pytest.mark.parametrize("make", MAKERS)
def test_a_dangling_symlink_in_the_path_creates_nothing_at_its_target(home: Path, fd: int, make: object) -> None:
    (home / "a").symlink_to("../outside/new")

    with pytest.raises(OSError, match="a"):
        make(fd, "a/b")  # type: ignore[operator]
    assert everything(home.parent / "outside") == set()


def test_a_symlink_at_the_end_is_no_directory(home: Path, fd: int) -> None:
    (home / "a").symlink_to("../outside")

    with pytest.raises(OSError, match="a"):
        safe_mkdir.make_directories(fd, "a")


def test_a_symlink_in_place_of_a_file_creates_nothing_at_its_target(home: Path, fd: int) -> None:
    (home / "f").symlink_to("../outside/new")
    safe_mkdir.make_file(fd, "f")

    assert everything(home.parent / "outside") == set()


@pytest.mark.parametrize("make", MAKERS)
def test_a_file_in_the_path_is_an_error(home: Path, fd: int, make: object) -> None:
    (home / "a").write_bytes(b"x")

    with pytest.raises(OSError, match="a"):
        make(fd, "a/b")  # type: ignore[operator]
    assert (home / "a").read_bytes() == b"x"


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("path", ["../outside/new", "a/../../outside/new", ".."])
def test_no_path_leaves_the_root(home: Path, fd: int, make: object, path: str) -> None:
    (home / "a").mkdir()

    with pytest.raises(OSError):  # noqa: PT011  (the kernel decides which error)
        make(fd, path)  # type: ignore[operator]
    assert everything(home.parent) == {"home", "home/a", "outside"}


def test_a_walk_ends_at_the_exact_directory(home: Path, fd: int) -> None:
    (home / "a/b").mkdir(parents=True)
    found = safe_mkdir.open_below(fd, "a/b")
    try:
        assert os.fstat(found).st_ino == (home / "a/b").stat().st_ino
    finally:
        os.close(found)


def test_a_walk_to_a_file_needs_an_explicit_option(home: Path, fd: int) -> None:
    (home / "f").touch()
    os.close(safe_mkdir.open_below(fd, "f", last_is_file=True))

    with pytest.raises(NotADirectoryError):
        safe_mkdir.open_below(fd, "f")


@pytest.mark.parametrize("make", MAKERS)
def test_no_descriptor_stays_open_after_an_error(home: Path, fd: int, make: object) -> None:
    (home / "a").symlink_to("/")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(OSError, match="a"):
            make(fd, "a/b")  # type: ignore[operator]

    assert len(os.listdir("/proc/self/fd")) == before


# --- removal ---


def test_created_directories_are_removed_innermost_first(home: Path, fd: int) -> None:
    safe_mkdir.remove_made(fd, (*safe_mkdir.make_directories(fd, "a/b/c"), *safe_mkdir.make_file(fd, "d/f")))

    assert everything(home) == set()


def test_a_directory_that_is_no_longer_empty_stays(home: Path, fd: int) -> None:
    made = safe_mkdir.make_directories(fd, "a/b")
    (home / "a/mine").touch()
    safe_mkdir.remove_made(fd, made)

    assert everything(home) == {"a", "a/mine"}


def test_a_file_that_was_written_to_stays(home: Path, fd: int) -> None:
    made = safe_mkdir.make_file(fd, "f")
    (home / "f").chmod(0o644)
    (home / "f").write_bytes(b"x")
    safe_mkdir.remove_made(fd, made)

    assert everything(home) == {"f"}


def test_an_empty_file_of_another_owner_stays(home: Path, fd: int) -> None:
    made = safe_mkdir.make_file(fd, "f")
    (home / "f").unlink()
    (home / "f").touch(0o644)
    safe_mkdir.remove_made(fd, made)

    assert everything(home) == {"f"}


def test_a_symlink_that_replaced_it_stays(home: Path, fd: int) -> None:
    made = safe_mkdir.make_directories(fd, "a")
    (home / "a").rmdir()
    (home / "a").symlink_to("../outside")
    safe_mkdir.remove_made(fd, made)

    assert (home / "a").is_symlink()


def test_nothing_is_removed_through_a_symlink(home: Path, fd: int) -> None:
    made = safe_mkdir.make_directories(fd, "a/b")
    (home / "a/b").rmdir()
    (home / "a").rmdir()
    (home / "a").symlink_to("../outside")
    (home.parent / "outside/b").mkdir()
    safe_mkdir.remove_made(fd, made)

    assert everything(home.parent / "outside") == {"b"}


def test_a_missing_path_is_no_error(home: Path, fd: int) -> None:
    made = safe_mkdir.make_directories(fd, "a/b")
    (home / "a/b").rmdir()
    (home / "a").rmdir()
    safe_mkdir.remove_made(fd, made)

    assert everything(home) == set()
