"""A worker prepares a commit, whatever killed tasks have left; a coordinator waits for no worker that never ends."""

import io
import json
import os
from pathlib import Path

import pytest

from agent_dev.config.options import RunOptions
from agent_dev.fleet import answer, hosts, worker
from agent_dev.fleet.answer import WorkerGreeting
from agent_dev.fleet.places import SshHosts
from agent_dev.session import sessions
from tests.harness.repository import repository

COMMIT = "1" * 40
SSH = """#!/bin/sh
case "$*" in
    *" slow "*) printf '%s\\n' '{greeting}'; exec sleep 1000.047 ;;
    *" endless "*) exec tr '\\0' x </dev/zero ;;
    *) printf '%s\\n' '{greeting}' ;;
esac
"""


def test_a_task_killed_before_its_checkout_does_not_stop_the_next(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    checkouts = tmp_path / "data/agent-dev-fleet/checkouts"
    checkouts.mkdir(parents=True)
    (checkouts / f"{COMMIT}-01234567.lock").touch()  # the checkout itself was not made

    with (tmp_path / "greeting").open("w+b") as target:
        worker.prepare_commit(COMMIT, io.BufferedReader(io.BytesIO()), target.fileno(), environ)
        target.seek(0)
        assert json.loads(target.readline())["has_commit"] is False


def test_workers_that_never_end_are_refused_and_the_others_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    greeting = answer.encode_greeting(WorkerGreeting("0.1.0", 2, has_commit=True)).decode().strip()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(SSH.format(greeting=greeting))
    (tmp_path / "bin/ssh").chmod(0o755)
    (tmp_path / "home").mkdir()
    environ = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": f"{tmp_path}/home"}
    context = sessions.command_context(RunOptions(directory=str(repository(tmp_path / "repo"))), environ)
    monkeypatch.setattr(hosts, "_END_PATIENCE", 3.0)
    warnings: list[str] = []

    names, source = ("slow", "endless", "good"), hosts.SourceRepository(context)
    found = hosts.prepare_places(SshHosts(names), source.head()[0], source, context, warnings.append)

    assert list(found) == ["good"]
    assert warnings == [
        "endless cannot be used: its greeting is longer than 256 KiB",
        "slow cannot be used: its worker did not end within 3 s",
    ]
