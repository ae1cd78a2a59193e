"""Work trees that an agent made: named at the end, listed with their uncommitted files, imported like a branch."""

import json
from pathlib import Path

import pytest

from tests.harness.program import AgentDev

COMMIT = "git -c user.name=a -c user.email=a@b commit -q"
TREE = ".claude/worktrees/fix"
WORK = f"""
git worktree add -q {TREE} -b worktree-fix; cd {TREE}
echo committed > done; git add done; {COMMIT} -m 'in the work tree'
echo edit >> a; rm gone; echo staged > staged; git add staged; echo new > 'new file'; echo skip > skip.log; ln -s a link
"""


@pytest.fixture
def ended(agent_dev: AgentDev) -> AgentDev:
    """Return the program with a waiting session `one` whose agent has worked in a work tree."""
    for name in ("a", "gone", "kept"):
        (agent_dev.repo / name).write_text("text\n")
    (agent_dev.repo / ".gitignore").write_text("*.log\n")
    agent_dev.git("add", "-A")
    agent_dev.git("-c", "user.name=me", "-c", "user.email=me@here", "commit", "-qm", "mine")
    agent_dev.git("config", "user.name", "me")
    agent_dev.git("config", "user.email", "me@here")
    agent_dev.ended_session(WORK, "--name", "one")
    return agent_dev


def listed(agent_dev: AgentDev) -> list[dict[str, object]]:
    """Return the work trees as JSON."""
    rows: list[dict[str, object]] = json.loads(agent_dev.do("worktrees", "--json"))["worktrees"]
    return rows


def test_it_is_named_at_the_end(agent_dev: AgentDev) -> None:
    script = "git worktree add -q tree -b topic; echo x > tree/x"
    done = agent_dev("--no-merge", "--name", "one", "--", "sh", "-ec", script)
    assert "agent-dev: the agent made a work tree: tree (agent-dev worktrees one)\n" in done.stderr
    assert "note: the agent made a work tree: tree (agent-dev worktrees one)" in agent_dev.do("status")


def test_its_uncommitted_files_are_listed(ended: AgentDev) -> None:
    (row,) = listed(ended)
    assert (row["name"], row["branch"], row["path"]) == ("fix", "worktree-fix", f"{ended.repo}/{TREE}")
    assert row["uncommitted"] == ["a", "gone", "link", "new file", "staged"]
    text = ended.do("worktrees", "one")
    assert text.splitlines() == [
        f"fix  worktree-fix  {TREE}",
        "  5 uncommitted files: a, gone, link …",
        "  agent-dev worktrees one --commit fix",
        "  agent-dev merge one --commits worktree-fix",
    ]


def test_its_files_are_committed_inside_and_imported(ended: AgentDev) -> None:
    command = ended.sessions()[0]["command"]
    ended.do("worktrees", "one", "--commit", "fix")
    assert ended.sessions()[0]["command"] == command
    assert listed(ended)[0]["uncommitted"] == []
    ended.do("merge", "one", "--commits", "worktree-fix", "--as", "from-agent")
    assert ended.git("show", "from-agent:new file") == "new\n"
    subjects = ended.git("log", "--format=%s", "from-agent").splitlines()[:2]
    assert subjects == ["Uncommitted files of the work tree fix", "in the work tree"]


def test_one_in_the_agent_home_is_found(agent_dev: AgentDev) -> None:
    agent_dev.ended_session(
        f"git worktree add -q ~/trees/fix -b topic; cd ~/trees/fix; echo x > x; git add x; {COMMIT} -m x; echo y > y"
    )
    (row,) = listed(agent_dev)
    assert (row["path"], row["uncommitted"]) == (f"{agent_dev.home}/trees/fix", ["y"])


def test_a_detached_one_in_the_agent_home_is_kept_and_imported(agent_dev: AgentDev) -> None:
    """Cline makes such a work tree, and the repository itself has no change then."""
    agent_dev.git("config", "user.name", "me")
    agent_dev.git("config", "user.email", "me@here")
    tree = "~/.cline/worktrees/x1/repo"
    script = f"git worktree add -q --detach {tree} HEAD; echo x > {tree}/new"
    done = agent_dev("--no-merge", "--name", "one", "--", "sh", "-ec", script)
    assert "agent-dev: the agent worked in 1 work tree of its own (agent-dev worktrees one)\n" in done.stderr
    assert agent_dev.do("worktrees", "one").splitlines() == [
        f"repo  detached  {agent_dev.home}/.cline/worktrees/x1/repo",
        "  1 uncommitted file: new",
        "  agent-dev worktrees one --commit repo",
        "  agent-dev merge one --commits worktree-repo",
    ]
    agent_dev.do("worktrees", "one", "--commit", "repo")
    assert (listed(agent_dev)[0]["branch"], listed(agent_dev)[0]["uncommitted"]) == ("worktree-repo", [])
    agent_dev.do("merge", "one", "--commits", "worktree-repo", "--as", "from-agent")
    assert agent_dev.git("show", "from-agent:new") == "x\n"


def test_an_unused_one_in_the_agent_home_keeps_no_session(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-ec", "git worktree add -q --detach ~/tree HEAD")
    assert (done.returncode, done.stderr) == (0, "")
    assert agent_dev.session_directories() == []


def test_links_of_an_agent_are_not_followed(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("secret")
    script = f"git worktree add -q below/tree -b topic; rm -r below; ln -s {tmp_path}/secret below; git worktree add -q b -b b"
    links = f"rm b/README.md; ln -s {tmp_path}/secret/file b/README.md; head -c 99 /dev/zero > .git/worktrees/b/index"
    agent_dev.ended_session(f"{script}; {links}")
    (row,) = listed(agent_dev)
    assert (row["name"], row["uncommitted"]) == ("b", ["README.md"])


def test_a_session_without_work_trees_is_reported(agent_dev: AgentDev) -> None:
    agent_dev.git("worktree", "add", "-q", "../mine", "-b", "mine")
    agent_dev.ended_session("echo x > x", "--name", "one")
    assert agent_dev.do("worktrees") == "the agent of session one made no work trees\n"
    assert agent_dev("worktrees", "--commit", "x").returncode == 2
    assert agent_dev("worktrees", "nosuch").returncode == 2
