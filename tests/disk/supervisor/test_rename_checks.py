"""The supervisor's checks of a rename, with few system calls: the path, and whether it may be a directory."""

import ctypes
import os
from pathlib import Path

import pytest

from agent_dev.linux import syscalls

SIZE = 4096


@pytest.fixture
def page() -> "ctypes.Array[ctypes.c_char]":
    """Return memory that contains two whole, aligned pages."""
    return ctypes.create_string_buffer(3 * SIZE)


def start(page: "ctypes.Array[ctypes.c_char]") -> int:
    return -(-ctypes.addressof(page) // SIZE) * SIZE


def write(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))


def test_a_string_ends_at_its_nul(page: "ctypes.Array[ctypes.c_char]") -> None:
    memory, at = syscalls.ProcessMemory(), start(page)
    write(at, b"new/file\0rest\0")
    assert memory.read_short_string(os.getpid(), at, 512) == b"new/file"
    assert memory.read_short_string(os.getpid(), at + 8, 512) == b""


def test_a_string_without_a_nul_is_none_whatever_was_read_before(page: "ctypes.Array[ctypes.c_char]") -> None:
    memory, at = syscalls.ProcessMemory(), start(page)
    write(at, b"x" * SIZE)
    write(at + SIZE, b"y\0")
    assert memory.read_short_string(os.getpid(), at, 16) is None
    assert memory.read_short_string(os.getpid(), at + SIZE, 16) == b"y"
    assert memory.read_short_string(os.getpid(), at, 4) is None
    assert memory.read_short_string(os.getpid(), at + SIZE - 3, 512) is None, "past the end of a page nothing is read"


def test_an_unreadable_string_is_an_error() -> None:
    with pytest.raises(OSError, match="process_vm_readv"):
        syscalls.ProcessMemory().read_short_string(os.getpid(), 16, 512)


@pytest.mark.parametrize(
    ("path", "can_be"),
    [
        (b"folder", True),
        (b"folder/", True),
        (b"folder/file", False),
        (b"folder/absent", False),
        (b"absent/absent", False),
        (b"link", False),
        (b"link/inner", True),
        (b"leads-out/inner", True),  # unknown, because the link is not followed here
        (b"../anything", True),
    ],
)
def test_only_a_certain_non_directory_is_skipped(tmp_path: Path, path: bytes, *, can_be: bool) -> None:
    (tmp_path / "here/folder/inner").mkdir(parents=True)
    (tmp_path / "here/folder/file").touch()
    (tmp_path / "here/link").symlink_to("folder")
    (tmp_path / "here/leads-out").symlink_to(tmp_path / "here/folder")
    fd = os.open(tmp_path / "here", os.O_PATH)
    try:
        assert syscalls.can_be_directory(fd, path, in_root=False) == can_be
    finally:
        os.close(fd)


def test_an_absolute_path_is_resolved_below_the_callers_root(tmp_path: Path) -> None:
    (tmp_path / "etc/inner").mkdir(parents=True)
    fd = os.open(tmp_path, os.O_PATH)
    try:
        assert syscalls.can_be_directory(fd, b"/etc/inner", in_root=True)
        assert not syscalls.can_be_directory(fd, b"/etc/passwd", in_root=True)
        assert not syscalls.can_be_directory(fd, b"/usr", in_root=True)
    finally:
        os.close(fd)
