"""The names of attributes, by the new system call and without it."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.linux import attribute_names, syscalls


@pytest.fixture(params=["with the call", "without it"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(attribute_names._Kernel, "has_call", True)
    if request.param == "without it":

        def refuse(*_: object) -> bytes:
            raise OSError(errno.ENOSYS, "the kernel lacks the call")

        monkeypatch.setattr(syscalls, "list_attributes", refuse)
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def names_of(fd: int, name: str) -> list[str]:
    return [os.fsdecode(one) for one in attribute_names.read_names(fd, os.fsencode(name)).split(b"\0")[:-1]]


def test_all_names_are_found(folder: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert names_of(folder, "file") == []
    for name in ("user.first", "user.überall", "user." + "long" * 40, "user." + "even" * 50):  # more than 256 bytes
        os.setxattr(path, name, b"")
        assert sorted(names_of(folder, "file")) == sorted(os.listxattr(path))


def test_a_link_is_not_followed(folder: int, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.setxattr(tmp_path / "file", "user.a", b"")
    (tmp_path / "link").symlink_to("file")
    assert names_of(folder, "link") == []


def test_a_missing_entry_is_an_error(folder: int) -> None:
    with pytest.raises(FileNotFoundError):
        names_of(folder, "missing")


def test_a_kernel_without_the_call_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(_: int, name: bytes) -> bytes:
        asked.append(name)
        raise OSError(errno.ENOSYS, "the kernel lacks the call")

    monkeypatch.setattr(attribute_names._Kernel, "has_call", True)
    monkeypatch.setattr(syscalls, "list_attributes", refuse)
    (tmp_path / "file").touch()
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert names_of(fd, "file") == names_of(fd, "file") == []
    finally:
        os.close(fd)
    assert asked == [b"file"]
