"""What holds for tasks on any engine: the tests of ssh hosts and of Slurm call these."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.program import PROGRAM, AgentDev, processes, wait_until

ONCE = "test -e ~/{name} || {{ touch ~/{name}; sleep 1000; }}"  # the agent home of a worker is kept


def tasks(folder: Path, *lines: str) -> Path:
    """Write a list of tasks."""
    path = folder / "tasks"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def run(agent_dev: AgentDev, on: str, path: Path, *options: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """Run the tasks; return the JSON document and the process."""
    done = agent_dev("tx", "--json", "--many", path, "--on", on, "--jobs", "2", *options, timeout=300)
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document, done


def merged_sessions(agent_dev: AgentDev) -> list[str]:
    """Return the session of each merge."""
    return [one["session"] for one in json.loads(agent_dev.do("merges", "--json"))["merges"]]


def check_lost_host(agent_dev: AgentDev, on: str, folder: Path, lose: Callable[[str], object]) -> None:
    """A host that is lost loses no task, and none is merged twice. `lose` gets the first line that a task wrote."""
    path = tasks(folder, *(f"echo begun; sleep 3; echo {n} >>f{n}" for n in range(4)))
    with agent_dev.start("tx", "--json", "--many", path, "--on", on, "--jobs", "1", "--retries", "9") as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert "begun" in first
        lose(first)
        output, errors = process.communicate(timeout=300)

    document = json.loads(output)
    assert document["exit"] == 0, errors
    assert "started again" in errors
    assert all((agent_dev.repo / f"f{n}").read_text() == f"{n}\n" for n in range(4))
    assert set(Counter(merged_sessions(agent_dev)).values()) == {1}
    assert len(merged_sessions(agent_dev)) == 4


def check_interrupt(agent_dev: AgentDev, on: str, folder: Path) -> None:
    """Ctrl-C ends every process on every host: within five seconds, or 20 on a machine that runs other tests beside.

    The hint names `--resume`.
    """
    path = tasks(folder, *("echo begun; sleep 1000.018" for _ in range(4)))
    with agent_dev.start("tx", "--many", path, "--on", on, "--jobs", "4") as process:
        wait_until(lambda: len(processes("sleep\0001000.018")) >= 4, "the tasks run", 60)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: not processes("1000.018") and not processes(f"{PROGRAM}\0work"), "they have ended", 20)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, "--resume runs the missing tasks" in errors) == (1, True)


def check_resume(agent_dev: AgentDev, on: str, folder: Path, homes: list[Path]) -> None:
    """After kill -9 of the coordinator nothing runs on, and `--resume` runs only what is missing."""
    quick = "echo ran >>~/quick; echo 1 >f1"
    path = tasks(folder, quick, f"{ONCE.format(name='slow')}; echo 2 >f2", f"{ONCE.format(name='slow3')}; echo 3 >f3")
    with agent_dev.start("tx", "--many", path, "--on", on, "--jobs", "3") as process:
        wait_until(lambda: (agent_dev.repo / "f1").exists() and len(processes("sleep\0001000")) == 2, "one is merged", 60)
        process.kill()
        process.wait()
        wait_until(lambda: not processes("sleep\0001000"), "the others have ended", 20)

    agent_dev.do("merges")
    first = merged_sessions(agent_dev)
    # A task may run on the other host now, where it is new.
    for home in homes:
        owner = home.stat()
        for place in (home / "aihome", home / "aihome/slow", home / "aihome/slow3"):
            (place.touch if place.parent.name == "aihome" else place.mkdir)(exist_ok=True)
            os.chown(place, owner.st_uid, owner.st_gid)
    document, done = run(agent_dev, on, path, "--resume")
    assert document["exit"] == 0, done.stderr
    assert merged_sessions(agent_dev)[: len(first)] == first
    assert len(set(merged_sessions(agent_dev))) == len(merged_sessions(agent_dev)) == 3
    ran = [home / "aihome/quick" for home in homes if (home / "aihome/quick").exists()]
    assert [one.read_text() for one in ran] == ["ran\n"]
