"""`tx --many --on HOST,HOST` over GNU parallel and ssh: two hosts on the loopback address, each with its own home."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.machines.ssh_hosts import SshHosts, ssh_hosts
from tests.harness.program import PROGRAM, AgentDev
from tests.sandbox.fleet.laws import check_interrupt, check_lost_host, check_resume, merged_sessions, run, tasks

ON = "build1,build2"


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory, agent_dev: AgentDev) -> Iterator[SshHosts]:
    """Two hosts that the user reaches."""
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), ("build1", "build2")) as found:
        found.use(agent_dev)
        yield found


def test_tasks_are_merged_in_order_and_leave_nothing_on_the_hosts(agent_dev: AgentDev, hosts: SshHosts, tmp_path: Path) -> None:
    agent_dev.git("-c", "user.name=me", "-c", "user.email=me@here", "commit", "-q", "--allow-empty", "-m", "mine")
    lines = [f"echo {n} >>f{n}; echo said {n}; pwd >&2" for n in range(4)]
    document, done = run(agent_dev, ON, tasks(tmp_path, *lines, "exit 3"))

    assert [job["state"] for job in document["jobs"]] == ["merged"] * 4 + ["failed"]
    assert (document["exit"], document["jobs"][4]["exit"]) == (1, 3)
    assert {job["host"] for job in document["jobs"]} == {"build1", "build2"}
    assert all((agent_dev.repo / f"f{n}").read_text() == f"{n}\n" for n in range(4))
    assert all(f"] said {n}" in done.stderr for n in range(4))
    assert not any(hosts.worker(name).sessions(everywhere=True) for name in ("build1", "build2"))
    stored = [[*hosts.home(name).glob(".local/share/agent-dev-fleet/checkouts/*/*")] for name in ("build1", "build2")]
    assert [len(one) for one in stored] == [1, 1]
    assert os.listdir(agent_dev.state / "fleet") == []


def test_review_keeps_a_session_with_commits_for_each_task(agent_dev: AgentDev, hosts: SshHosts, tmp_path: Path) -> None:
    document, _ = run(agent_dev, ON, tasks(tmp_path, "echo 1 >a1; git add a1; git commit -qm one", "echo 2 >a2"), "--review")

    assert [job["state"] for job in document["jobs"]] == ["waiting", "waiting"]
    assert (document["state"], document["exit"]) == ("waiting", 0)
    assert not (agent_dev.repo / "a2").exists()
    assert len(agent_dev.sessions()) == 2
    agent_dev.do("merge", document["jobs"][0]["session"], "--commits")
    assert agent_dev.git("log", "-1", "--format=%s").strip() == "one"


def test_the_best_attempt_of_several_hosts_is_proposed(agent_dev: AgentDev, hosts: SshHosts) -> None:
    for name, rank in (("build1", 1), ("build2", 5)):
        (hosts.home(name) / "aihome").mkdir()
        (hosts.home(name) / "aihome/rank").write_text(f"{rank}\n")
    script = "cp ~/rank score"
    words = ("--best", "2", "--on", ON, "--jobs", "1", "--name", "fix", "--score", "cat score")
    done = agent_dev("tx", "--json", *words, "--", "sh", "-c", script, timeout=120)
    document = json.loads(done.stdout)

    assert (document["state"], document["exit"]) == ("proposed", 0), done.stderr
    best = document["attempts"][document["best"] - 1]
    assert (best["host"], best["score"], best["files"]) == ("build2", 5, 1)
    assert {one["name"] for one in agent_dev.sessions()} == {"fix-1", "fix-2"}
    assert not (agent_dev.repo / "score").exists()


def test_a_lost_host_loses_no_task_and_merges_none_twice(agent_dev: AgentDev, hosts: SshHosts, tmp_path: Path) -> None:
    check_lost_host(agent_dev, ON, tmp_path, lambda first: hosts.kill("build1" if "build1" in first else "build2"))


def test_an_interrupt_ends_every_process_within_five_seconds(agent_dev: AgentDev, hosts: SshHosts, tmp_path: Path) -> None:
    check_interrupt(agent_dev, ON, tmp_path)


def test_a_killed_coordinator_resumes_with_what_is_missing(agent_dev: AgentDev, hosts: SshHosts, tmp_path: Path) -> None:
    check_resume(agent_dev, ON, tmp_path, [hosts.home("build1"), hosts.home("build2")])


HOSTILE = r"""#!{python}
import json, os, subprocess, sys
real = [{program!r}, "work"]
if sys.argv[2:3] == ["--prepare"]:
    os.execv(real[0], real + sys.argv[2:])
ticket = json.loads(sys.stdin.readline())
act = ticket["arguments"][2]
if act == "endless":
    while True: os.write(1, b"x" * 65536)
if act == "huge":
    os.write(1, b"manifest.json".ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"77777777777\0" * 2 + b" " * 376)
    sys.exit(0)
if act == "flood":
    for _ in range(99): os.write(2, b"x" * 65536)
if act == "escape":
    os.write(2, b"\x1b]0;owned\x07\x1b[2Jhello\n")
if act == "other":
    ticket["id"] = ticket["id"][:-1] + "1"
if act == "pickle":
    os.write(1, b"cos\nsystem\n(S'touch {repo}/pickled'\ntR.")
    sys.exit(0)
if act == "version":
    ticket["version"] = 2
ticket["arguments"] = ["sh", "-c", "echo fine >by-" + act]
done = subprocess.run(real, input=json.dumps(ticket).encode(), stdout=subprocess.PIPE)
os.write(1, done.stdout)
sys.exit(done.returncode)
"""


def test_a_hostile_worker_is_refused_and_affects_nothing_else(agent_dev: AgentDev, hosts: SshHosts, tmp_path: Path) -> None:
    worker = tmp_path / "worker"
    worker.write_text(HOSTILE.format(python="/usr/bin/python3", program=str(PROGRAM), repo=agent_dev.repo))
    worker.chmod(0o755)
    hosts.use(agent_dev, f"worker: {worker}\nmax_bundle_mib: 1\n")
    acts = ("good", "endless", "huge", "escape", "flood", "other", "pickle", "version")  # all tasks of a host share a connection
    document, done = run(agent_dev, ON, tasks(tmp_path, *acts), "--retries", "0")

    state = {job["line"]: job["state"] for job in document["jobs"]}
    assert {line for line in acts if state[line] == "merged"} == {"good", "escape", "flood"}, done.stderr[-2000:]
    reasons = {job["line"]: job["reason"] for job in document["jobs"]}
    assert "more than 1 MiB" in reasons["endless"]
    assert "another task" in reasons["other"]
    assert "version 2" in reasons["version"]
    assert "\x1b" not in done.stderr + done.stdout
    assert "hello" in done.stderr
    assert {path.name for path in agent_dev.repo.glob("by-*")} == {"by-good", "by-escape", "by-flood"}
    assert not (agent_dev.repo / "pickled").exists()
    assert len(merged_sessions(agent_dev)) == 3
