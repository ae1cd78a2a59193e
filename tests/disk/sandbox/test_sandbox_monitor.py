"""Ending a sandbox: the signal is repeated until it was sent to an existing agent. A deleted state directory ends no run."""

import signal
import time
from pathlib import Path

import pytest

from agent_dev.run import limits
from agent_dev.sandbox import launch, sandbox_monitor
from agent_dev.sandbox.launch import Sandbox
from agent_dev.sandbox.sandbox_monitor import MonitorOptions, SandboxMonitor
from agent_dev.sandbox.terminal.pty import Terminal
from agent_dev.session import store

LOOKS = 4  # checks of the monitor before the agent exists


def test_an_agent_that_starts_after_the_signal_gets_it_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    looks = iter([0] * LOOKS)
    waits = iter(range(LOOKS * 2))
    monkeypatch.setattr(sandbox_monitor, "_signal_group", lambda _, number: sent.append(number))
    monkeypatch.setattr(SandboxMonitor, "_find_agent", lambda _: next(looks, 7))
    monkeypatch.setattr(SandboxMonitor, "_end_with_agent", lambda *_: None)
    monkeypatch.setattr(launch, "has_sandbox_ended", lambda *_: next(waits, -1) < 0)
    sandbox = Sandbox(-1, -1, -1, -1, -1, -1, -1, has_own_namespaces=True, cgroup_name="")
    supervisor = SandboxMonitor(sandbox, Terminal(), MonitorOptions(deadline=time.monotonic_ns()))
    supervisor.wait()
    assert sent == [signal.SIGTERM, signal.SIGCONT] * (LOOKS + 1)
    assert supervisor.end_signal == signal.SIGTERM


def test_a_deleted_state_directory_ends_no_run(tmp_path: Path) -> None:
    assert not limits._has_merged(store.Store(str(tmp_path / "gone")), ("/somewhere",), 0)
