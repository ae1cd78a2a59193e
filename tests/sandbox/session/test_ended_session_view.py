"""`exec` and `shell` of an ended session: its files are shown, and nothing of it or of the agent home changes."""

import signal
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, processes_inside, tree, wait_until

WORK = """
echo made > made; rm a; mkdir -p folder/below; echo text > folder/below/file; rm -rf old; mkdir old; echo new > old/new
git add -A; git -c user.name=a -c user.email=a@b commit -qm 'by the agent'; echo more >> made
mkdir -p ~/.config/tool; echo key > ~/.config/tool/settings
"""


@pytest.fixture
def ended(agent_dev: AgentDev) -> AgentDev:
    """Return the program with a waiting session `one` that has added, changed, deleted, replaced and committed."""
    (agent_dev.repo / "a").write_text("a\n")
    (agent_dev.repo / "old").mkdir()
    (agent_dev.repo / "old/gone").write_text("gone\n")
    agent_dev.git("add", "-A")
    agent_dev.git("-c", "user.name=me", "-c", "user.email=me@here", "commit", "-qm", "mine")
    agent_dev.ended_session(WORK, "--name", "one")
    return agent_dev


def snapshot(agent_dev: AgentDev) -> tuple[dict[str, str], ...]:
    """Return the contents of the repository, the agent home and the sessions."""
    return tree(agent_dev.repo), tree(agent_dev.agent_home), tree(agent_dev.state / "sessions")


def test_the_files_and_commits_of_the_session_are_shown(ended: AgentDev) -> None:
    done = ended("exec", "one", "--", "sh", "-c", "cat made folder/below/file; ls old; ls a; git log --format=%s -1; pwd")
    assert done.stdout == f"made\nmore\ntext\nnew\nby the agent\n{ended.repo}\n"
    assert "session one has ended: changes made here are not kept" in done.stderr
    assert ended("exec", "one", "--", "cat", str(ended.home / ".config/tool/settings")).stdout == "key\n"


def test_nothing_of_the_session_or_home_changes(ended: AgentDev) -> None:
    before = snapshot(ended)
    script = """
    set -e; echo other > made; rm -r folder; mv old moved; echo mine > new; chmod 700 moved; git add -A
    git -c user.name=a -c user.email=a@b commit -qm another; rm -r ~/.config; echo x > ~/left; test ! -e folder; cat moved/new
    """
    done = ended("exec", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, "new\n"), done.stderr
    assert snapshot(ended) == before
    assert ended.changes("one")["made"] == "added"
    wait_until(lambda: len(ended.session_directories()) == 1, "what the look made is removed in the background")


def test_a_merge_after_a_look_applies_the_session(ended: AgentDev) -> None:
    ended.do("exec", "--", "sh", "-c", "echo other > made")
    ended.do("merge", "--all")
    assert (ended.repo / "made").read_text() == "made\nmore\n"


def test_a_private_git_directory_elsewhere_is_protected_too(ended: AgentDev, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    ended.git("worktree", "add", "-q", linked, "-b", "other")
    commit = "git -c user.name=a -c user.email=a@b commit -qam by-agent"
    done = ended("--no-merge", "--name", "two", "--", "sh", "-ec", f"echo x >> a; {commit}", cwd=linked)
    assert done.returncode == 0, done.stderr
    before = tree(ended.state / "sessions"), tree(ended.repo)
    script = f"git log -1 --format=%s; echo y >> a; {commit}; git rev-list --count HEAD ^main"
    done = ended("exec", "two", "--", "sh", "-ec", script, cwd=linked)
    assert done.stdout == "by-agent\n2\n", done.stderr
    assert (tree(ended.state / "sessions"), tree(ended.repo)) == before


def test_a_writable_directory_of_the_session_is_read_only(agent_dev: AgentDev, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    agent_dev.ended_session(f"echo a > made; echo b > {shared}/made", "--rw", str(shared))
    done = agent_dev("exec", "--", "sh", "-c", f"cat {shared}/made; echo c > {shared}/made")
    assert (done.returncode != 0, done.stdout) == (True, "b\n")
    assert (shared / "made").read_text() == "b\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [(("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -TERM $$"), 143), (("no-such-program",), 127), (("/etc/passwd",), 126)],
    ids=("exit", "signal", "not found", "not executable"),
)
def test_the_exit_code_is_the_commands(ended: AgentDev, words: tuple[str, ...], code: int) -> None:
    assert ended("exec", "--", *words).returncode == code


def test_a_program_of_the_agent_runs(agent_dev: AgentDev) -> None:
    agent_dev.ended_session("printf '#!/bin/sh\necho run\n' > tool; chmod +x tool")
    assert agent_dev("exec", "--", "./tool").stdout == "run\n"


def test_a_shell_opens_in_the_users_directory(ended: AgentDev) -> None:
    done = ended("shell", cwd=ended.repo / "old", input="pwd; ls\n", env={"SHELL": "/bin/bash"})
    assert done.stdout == f"{ended.repo}/old\nnew\n"


def test_a_running_session_is_preferred(ended: AgentDev) -> None:
    with ended.start("--no-merge", "--name", "two", "--", "sh", "-c", "echo ready; read line") as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        assert ended("exec", "--", "ls").stdout == "README.md\na\nold\nsub\n"
        assert "made" in ended("exec", "one", "--", "ls").stdout
        ended.do("discard", "one")


def test_a_session_that_is_open_elsewhere_is_refused(ended: AgentDev) -> None:
    with ended.start("exec", "one", "--", "sh", "-c", "echo ready; read line") as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        done = ended("merge", "--all")
        assert done.returncode != 0
        assert "open in another agent-dev" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_look_leaves_nothing(ended: AgentDev, number: int) -> None:
    before = tree(ended.agent_home), tree(ended.state / "sessions")
    with ended.start("exec", "one", "--", "sh", "-c", "echo ready; exec sleep 86421") as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        process.wait(30)
    wait_until(lambda: not processes_inside("86421"), "the command ended")
    assert [row["name"] for row in ended.sessions()] == ["one"]
    assert (tree(ended.agent_home), tree(ended.state / "sessions")) == before


def test_a_session_in_the_real_tree_is_refused(agent_dev: AgentDev) -> None:
    agent_dev.do("run", "--direct", "--", "sh", "-c", "echo x > made")
    sessions = agent_dev.sessions(everywhere=True)
    done = agent_dev("exec", *([sessions[-1]["session"]] if sessions else []), "--", "ls")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_a_packed_session_is_refused(ended: AgentDev) -> None:
    ended.do("merge", "--all")
    done = ended("exec", "one", "--", "ls")
    assert done.returncode in (0, 1)
    if done.returncode:
        assert "is merged" in done.stderr
