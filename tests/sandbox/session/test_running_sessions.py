"""Running sessions can be inspected, even while files are created, appended to, deleted and renamed."""

import json
import time

import pytest

from tests.harness.program import AgentDev, wait_until
from tests.sandbox.waiting import end, waiting_agent

SECONDS, PATIENCE = 8, 100
# Constant changes: short-lived files, one that grows, directories that are renamed and removed, commits.
BUSY = r"""
import os, subprocess, threading, time

def churn(number):
    turn = 0
    while True:
        turn += 1
        folder = f"d{number}-{turn % 7}"
        os.makedirs(f"{folder}/deep/er", exist_ok=True)
        for name in range(30):
            with open(f"{folder}/deep/f{name}", "w") as file:
                file.write("line\n" * (turn % 50))
        with open("growing", "a") as file:
            file.write("x" * 1000 + "\n")
        with open("README.md", "a") as file:
            file.write("more\n")
        os.rename(f"{folder}/deep/er", f"{folder}/moved{turn}")
        for above, folders, files in os.walk(folder, topdown=False):
            for name in files:
                os.unlink(f"{above}/{name}")
            for name in folders:
                os.rmdir(f"{above}/{name}")
        os.rmdir(folder)

with open("kept", "w") as file:
    file.write("kept\n")
os.chmod("kept", 0o600)
threads = [threading.Thread(target=churn, args=(n,)) for n in range(2)]
for one in threads:
    one.start()
turn = 0
while True:
    turn += 1
    with open("committed", "w") as file:
        file.write(f"{turn}\n")
    for words in (("add", "committed"), ("-c", "user.name=A", "-c", "user.email=a@b.invalid", "commit", "-qm", f"turn {turn}")):
        subprocess.run(("git", *words), check=False, capture_output=True)
    time.sleep(0.2)  # a git dir that is never at rest cannot be read
"""


def begun(agent_dev: AgentDev) -> None:
    uppers = agent_dev.state / "sessions"
    wait_until(lambda: list(uppers.glob("*/roots/0/upper/growing")), "the agent is at work")


@pytest.mark.slow
def test_a_busy_session_can_be_inspected_at_any_time(agent_dev: AgentDev) -> None:
    with agent_dev.start("--no-merge", "--name", "busy", "--", "python3", "-c", BUSY) as process:
        begun(agent_dev)
        start = time.monotonic()
        seen = commits = rounds = 0
        while time.monotonic() < start + SECONDS or not commits:
            assert time.monotonic() < start + PATIENCE, "no commit of the agent's was ever told"
            rounds += 1
            for words in (("status", "--json"), ("diff",), ("diff", "--stat"), ("commits", "--json"), ("log",), ("sessions",)):
                done = agent_dev(words[0], *(("busy",) if words[0] != "sessions" else ()), *words[1:])
                assert "Traceback" not in done.stderr, (words, done.stderr)
                assert done.returncode == 0, (words, done.stderr)
                if words == ("status", "--json"):
                    reported = json.loads(done.stdout)
                    assert (reported["state"], reported["running"]) == ("running", True)
                    seen += "kept" in [row["path"] for row in reported["changes"]]
                if words[0] == "commits":
                    reported = json.loads(done.stdout)
                    assert reported["running"]
                    commits += bool(reported["commits"])
                if words[0] in ("status", "diff", "commits"):
                    assert "still running" in done.stderr
        assert seen == rounds
        assert agent_dev("stop", "busy").returncode == 0
        process.wait(60)
    assert json.loads(agent_dev("status", "busy", "--json").stdout)["running"] is False


@pytest.mark.parametrize("words", [("merge", "--all"), ("merge", "--take", "new"), ("discard",), ("merge", "--commits")], ids=str)
def test_a_running_session_is_neither_merged_nor_discarded(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    with waiting_agent(agent_dev, "echo new >new", "--name", "mine") as process:
        done = agent_dev(*words[:1], "mine", *words[1:])
        assert (done.returncode, done.stderr.splitlines()[0]) == (1, "agent-dev: session mine is still running") or (
            done.returncode == 1 and "still running" in done.stderr.splitlines()[0] and len(done.stderr.splitlines()) == 2
        )
        assert not (agent_dev.repo / "new").exists()
        end(process)


def test_a_running_session_is_not_bundled_nor_are_its_work_trees_committed(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "git worktree add -q below/tree -b topic", "--name", "mine") as process:
        for words in (("bundle", "mine", "-"), ("worktrees", "mine", "--commit", "tree")):
            done = agent_dev(*words)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith("agent-dev: session mine is running")
        end(process)


def test_inspecting_a_running_session_changes_no_mode_in_it(agent_dev: AgentDev) -> None:
    """The agent may depend on its own `chmod`: no command makes a file readable temporarily."""
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("checkpoint_minutes: 0\n")  # a checkpoint has to make unreadable files readable
    with waiting_agent(agent_dev, "echo s >shut; chmod 0 shut; mkdir d; echo x >d/x; chmod 0 d; chmod 555 .", "--name", "mine"):
        (upper,) = (agent_dev.state / "sessions").glob("*/roots/0/upper")
        before = [(path.name, path.lstat().st_mode, path.lstat().st_ctime_ns) for path in (upper, upper / "shut", upper / "d")]
        for words in (("status",), ("diff",), ("commits",)):
            assert "Traceback" not in agent_dev(*words, "mine").stderr
        after = [(path.name, path.lstat().st_mode, path.lstat().st_ctime_ns) for path in (upper, upper / "shut", upper / "d")]
        assert after == before
        assert agent_dev("stop", "mine").returncode == 0


def test_a_cached_read_of_a_running_session_is_not_used_after_its_end(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "echo 'echo hello' >run.txt", "--name", "mine") as process:
        agent_dev("status", "mine")
        (folder,) = (agent_dev.state / "sessions").iterdir()
        assert not (folder / "judged.json").exists()
        end(process)
