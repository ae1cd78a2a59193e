"""Work of the agent outside the repository's commits keeps a session: in submodules, or on no branch."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from tests.harness.git.git_kinds import KINDS
from tests.harness.program import AgentDev

EMPTY = "git commit -q --allow-empty -m"
ADD = "git -c protocol.file.allow=always submodule -q add"
RUN = ("--no-merge", "--name", "one", "--", "sh", "-ec")
WORK = {
    "a branch": (f"cd lib; git checkout -q -b topic; {EMPTY} work; git checkout -q --detach HEAD~1", {"commits": 1, "refs": 1}),
    "a detached HEAD": (f"cd lib; git checkout -q --detach; {EMPTY} one; {EMPTY} two", {"commits": 2}),
    "a HEAD that was left": (f"cd lib; git checkout -q --detach; {EMPTY} one; git checkout -q -", {"unreferenced": 1}),
    "a tag": (f"cd lib; git checkout -q --detach; {EMPTY} one; git tag t; git checkout -q -", {"commits": 1, "refs": 1}),
    "a stash": ("cd lib; echo edit >> README.md; git stash -q", {"stashes": 1}),
    "a branch of an old commit": ("git -C lib branch topic", {"refs": 1}),
}


def unlisted(agent_dev: AgentDev, cwd: Path, session: str = "one") -> list[dict[str, Any]]:
    """Return the numbers of the unlisted work that are not 0."""
    done = agent_dev("commits", session, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [{name: value for name, value in row.items() if value} for row in json.loads(done.stdout)["unlisted"]]


def names(agent_dev: AgentDev, cwd: Path) -> list[str]:
    return [row["name"] for row in agent_dev.sessions(cwd=cwd)]


@pytest.mark.parametrize("kind", ["with a submodule", "a linked work tree with a submodule"])
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_work_in_a_submodule_keeps_the_session(
    agent_dev: AgentDev, tmp_path: Path, kind: str, work: tuple[str, dict[str, int]]
) -> None:
    cwd = KINDS[kind](agent_dev, tmp_path).cwd
    done = agent_dev(*RUN, work[0], cwd=cwd)
    assert "submodule lib has 1" in done.stderr or "submodule lib has 2" in done.stderr
    assert names(agent_dev, cwd) == ["one"]
    assert unlisted(agent_dev, cwd) == [{"submodule": "lib"} | work[1]]
    assert "note: submodule lib has" in agent_dev("status", "one", cwd=cwd).stdout


@pytest.mark.parametrize("work", [WORK[name] for name in WORK if name != "a branch of an old commit"])
def test_a_merge_of_all_files_keeps_work_in_submodules(
    agent_dev: AgentDev, tmp_path: Path, work: tuple[str, dict[str, int]]
) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    agent_dev(*RUN, f"echo x > new; {work[0]}", cwd=cwd)
    merged = agent_dev("merge", "one", "--all", cwd=cwd).stdout
    assert "1 change merged, work in submodules left in the session" in merged
    assert "submodule lib has" in merged
    assert names(agent_dev, cwd) == ["one"]


def test_a_read_only_look_at_a_submodule_leaves_no_session(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    agent_dev(*RUN, "git -C lib status; git -C lib log -1; git -C lib checkout -q --detach; git submodule status", cwd=cwd)
    assert names(agent_dev, cwd) == []


def test_work_in_a_nested_submodule_keeps_the_session(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd, library = KINDS["with a submodule"](agent_dev, tmp_path).cwd, tmp_path / "library"
    agent_dev.git("init", "-q", tmp_path / "inner")
    agent_dev.git("commit", "-q", "--allow-empty", "-m", "inner", cwd=tmp_path / "inner")
    agent_dev.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", tmp_path / "inner", "in", cwd=library)
    agent_dev.git("commit", "-q", "-m", "nested", cwd=library)
    agent_dev.git("pull", "-q", cwd=cwd / "lib")
    agent_dev.git("-c", "protocol.file.allow=always", "submodule", "-q", "update", "--init", cwd=cwd / "lib")
    agent_dev.git("commit", "-q", "-a", "-m", "nested", cwd=cwd)
    agent_dev(*RUN, f"cd lib/in; git checkout -q --detach; {EMPTY} deep", cwd=cwd)
    assert unlisted(agent_dev, cwd) == [{"submodule": "lib/in", "commits": 1}]


def test_a_submodule_with_a_git_directory_of_its_own_is_listed(agent_dev: AgentDev) -> None:
    agent_dev.git("init", "-q", "old")
    agent_dev.git("commit", "-q", "--allow-empty", "-m", "first", cwd=agent_dev.repo / "old")
    agent_dev.git("add", "old")
    agent_dev.git("commit", "-q", "-m", "old")
    agent_dev(*RUN, f"cd old; git checkout -q --detach; {EMPTY} work; git checkout -q -")
    assert [row["path"] for row in agent_dev.status("one")["changes"]] == ["old/.git"]


def test_a_submodule_that_the_agent_added_keeps_the_session(agent_dev: AgentDev) -> None:
    script = f"git init -q /tmp/n; git -C /tmp/n {EMPTY[4:]} first; {ADD} /tmp/n new; git commit -qm new; {EMPTY} x"
    agent_dev(*RUN, script)
    assert unlisted(agent_dev, agent_dev.repo) == [{"submodule": "new", "commits": 1, "refs": 1}]
    agent_dev("merge", "one", "--commits", "--include-risky")
    agent_dev("merge", "one", "--all", "--include-risky")
    assert names(agent_dev, agent_dev.repo) == ["one"]


def test_imported_commits_of_a_submodule_do_not_keep_a_session(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    agent_dev(*RUN, f"git -C lib {EMPTY[4:]} work; git -C lib {EMPTY[4:]} again --amend; git commit -qam bump", cwd=cwd)
    agent_dev("merge", "one", "--commits", "--include-risky", cwd=cwd)
    assert names(agent_dev, cwd) == []


def test_fetched_work_of_a_submodule_is_not_listed_any_more(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    agent_dev(*RUN, f"cd lib; git checkout -q --detach; {EMPTY} work", cwd=cwd)
    done = agent_dev("exec", "one", "--", "sh", "-c", "git -C lib bundle create - --all HEAD | base64", cwd=cwd)
    (tmp_path / "bundle").write_bytes(b64decode(done.stdout))
    agent_dev.git("fetch", "-q", tmp_path / "bundle", "HEAD:refs/agent/HEAD", cwd=cwd / "lib")
    assert unlisted(agent_dev, cwd) == []


LEFT = {
    "a detached HEAD": f"git checkout -q --detach; {EMPTY} work; git checkout -q -",
    "a deleted branch": f"git checkout -q -b topic; {EMPTY} work; git checkout -q -; git branch -q -D topic",
    "a reset": f"{EMPTY} work; git reset -q --hard HEAD~1",
}


@pytest.mark.parametrize("script", LEFT.values(), ids=LEFT)
def test_a_commit_on_no_branch_keeps_the_session(agent_dev: AgentDev, script: str) -> None:
    done = agent_dev(*RUN, script)
    assert "the repository has 1 commit on no branch (agent-dev exec one -- git log --all --reflog)\n" in done.stderr
    assert unlisted(agent_dev, agent_dev.repo) == [{"unreferenced": 1}]
    assert " work\n" in agent_dev("exec", "one", "--", "git", "log", "--all", "--reflog", "--oneline").stdout


def test_your_own_commits_on_no_branch_keep_no_session(agent_dev: AgentDev) -> None:
    agent_dev.git("commit", "-q", "--allow-empty", "-m", "dropped")
    agent_dev.git("reset", "-q", "--hard", "HEAD~1")
    agent_dev(*RUN, "echo x > x; git add x; git reset -q; rm x; git checkout -q --detach; git checkout -q -")
    assert names(agent_dev, agent_dev.repo) == []


def test_a_transaction_keeps_work_in_submodules(agent_dev: AgentDev, tmp_path: Path) -> None:
    cwd = KINDS["with a submodule"](agent_dev, tmp_path).cwd
    done = agent_dev("tx", "--", "sh", "-ec", f"echo x > new; cd lib; git checkout -q --detach; {EMPTY} work", cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert "is waiting with work in git directories (agent-dev commits " in done.stderr
    assert (cwd / "new").exists()
    assert len(names(agent_dev, cwd)) == 1
