"""The supervisor and a calling process wake each other on one CPU, unless other processes are running."""

import fcntl
import os

import pytest

from agent_dev.supervisor import notify
from agent_dev.supervisor.notify import Listener

SYNC, FREE = 1, 0


class Kernel:
    """A simulated kernel: it reports a load average and records the flags that are set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: int | None = 1
        self.flags: list[int] = []
        self.is_gone = False
        self.knows_flags = True
        monkeypatch.setattr(os, "pread", self._load)
        monkeypatch.setattr(fcntl, "ioctl", self._ioctl)

    def _load(self, *_: object) -> bytes:
        if self.running is None:
            raise FileNotFoundError
        return b"0.50 0.40 0.30 %d/123 4567\n" % self.running

    def _ioctl(self, _fd: int, request: int, argument: object) -> int:
        if request == notify._FLAGS:
            assert isinstance(argument, int)
            self.flags.append(argument)
            if not self.knows_flags:
                raise OSError
            return 0
        if request == notify._RECEIVE or self.is_gone:
            raise OSError
        return 0


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def hear(listener: Listener) -> None:
    """Receive as many calls as there are between two checks of the load."""
    for _ in range(notify._LOAD_INTERVAL):
        assert listener.receive() is None


def test_on_an_idle_machine_both_wake_each_other_on_one_cpu(kernel: Kernel) -> None:
    listener = Listener(-1)
    hear(listener)
    assert listener.allow(1)
    assert kernel.flags == [SYNC]


@pytest.mark.parametrize("is_gone", [False, True], ids=["waiting", "gone"])
@pytest.mark.parametrize("running", [2, 10, 17])
def test_on_a_busy_machine_a_caller_is_woken_on_its_own_cpu(kernel: Kernel, *, running: int, is_gone: bool) -> None:
    listener = Listener(-1)
    kernel.running, kernel.is_gone = running, is_gone
    hear(listener)
    assert listener.allow(1) is not is_gone
    assert kernel.flags == [SYNC, FREE, SYNC]
    kernel.running = 1
    hear(listener)
    listener.refuse(1, 1)
    assert kernel.flags == [SYNC, FREE, SYNC]


def test_an_unreadable_load_average_is_ignored(kernel: Kernel) -> None:
    kernel.running = None
    listener = Listener(-1)
    hear(listener)
    listener.allow(1)
    assert kernel.flags == [SYNC]


def test_a_kernel_without_the_flags_is_queried_once(kernel: Kernel) -> None:
    kernel.knows_flags = False
    listener = Listener(-1)
    kernel.running = 2
    hear(listener)
    assert listener.allow(1)
    assert kernel.flags == [SYNC]
