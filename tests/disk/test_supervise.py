"""How a sandbox is ended: an agent that is only being started is told again, one that has heard is not."""

import signal
import time
from pathlib import Path

import pytest

from agent_dev.run import limits as bounds
from agent_dev.sandbox import launch
from agent_dev.sandbox import sandbox_monitor as supervise
from agent_dev.sandbox.launch import Sandbox
from agent_dev.sandbox.sandbox_monitor import Supervisor, Watch
from agent_dev.sandbox.terminal import Terminal
from agent_dev.session import store

LOOKS = 4  # of the supervisor, before the agent is there


def test_an_agent_that_comes_after_the_signal_is_told_again_and_then_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    looks = iter([0] * LOOKS)
    waits = iter(range(LOOKS * 2))
    monkeypatch.setattr(supervise, "_signal_group", lambda _, number: sent.append(number))
    monkeypatch.setattr(Supervisor, "_find_agent", lambda _: next(looks, 7))
    monkeypatch.setattr(launch, "is_over", lambda *_: next(waits, -1) < 0)
    sandbox = Sandbox(-1, -1, -1, -1, -1, -1, -1, has_keeper=True)
    supervisor = Supervisor(sandbox, Terminal(), Watch(deadline=time.monotonic_ns()))
    supervisor.wait()
    assert sent == [signal.SIGTERM, signal.SIGCONT] * (LOOKS + 1)
    assert supervisor.ended_by == signal.SIGTERM


def test_a_state_directory_that_is_taken_away_ends_no_run(tmp_path: Path) -> None:
    assert not bounds._has_merged(store.Store(str(tmp_path / "gone")), ("/somewhere",), 0)
