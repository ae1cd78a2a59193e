"""Files in memory that hand input to a child."""

import errno
import os

import pytest

from agent_dev.linux import streams


def test_a_file_in_memory_is_read_from_its_start() -> None:
    assert streams.read_to_end(streams.memory_file(b"input\n" * 100_000)) == b"input\n" * 100_000


def test_a_file_in_memory_that_cannot_be_filled_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(streams, "write_all", fail)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="No space"):
        streams.memory_file(b"input")
    assert len(os.listdir("/proc/self/fd")) == len(before)
