"""Commits of a real agent are imported from the command line, in a normal clone and in a linked worktree."""

import json
from pathlib import Path

import pytest

from tests.harness.program import AgentDev

COMMIT = "echo x >new && git add -A && git commit -qm 'Add new'"


def test_commits_are_imported_and_undone(agent_dev: AgentDev) -> None:
    start = agent_dev.git("rev-parse", "HEAD")
    agent_dev("--", "sh", "-c", COMMIT)
    reported = json.loads(agent_dev("commits", "--json").stdout)
    done = agent_dev("merge", "--commits")

    assert done.returncode == 0, done.stderr
    assert agent_dev.git("log", "-1", "--format=%H %s").split(" ", 1) == [reported["commits"][0]["id"], "Add new\n"]
    assert (agent_dev.repo / "new").read_text() == "x\n"
    assert agent_dev.git("status", "--porcelain") == ""
    assert agent_dev("undo").returncode == 0
    assert agent_dev.git("rev-parse", "HEAD") == start
    assert agent_dev.git("status", "--porcelain") == ""
    assert not (agent_dev.repo / "new").exists()


def test_commits_with_concurrent_changes_stay_and_a_hint_is_printed(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", COMMIT)
    (agent_dev.repo / "mine").write_text("m\n")
    agent_dev.git("add", "mine")
    agent_dev.git("commit", "-q", "-m", "Mine")
    first = agent_dev("merge", "--commits")
    assert first.returncode == 1
    words = first.stdout.rsplit("agent-dev ", 1)[1].split()
    second = agent_dev(*words, "--json")

    assert second.returncode == 0, second.stderr
    assert agent_dev.git("log", "-2", "--format=%s") == "Add new\nMine\n"
    assert agent_dev.git("status", "--porcelain") == ""
    assert json.loads(second.stdout)["ref"].startswith("refs/heads/")


def test_an_import_that_changes_nothing_is_a_json_document_too(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", COMMIT)
    (agent_dev.repo / "mine").write_text("m\n")
    agent_dev.git("add", "mine")
    agent_dev.git("commit", "-q", "-m", "Mine")
    kept = json.loads(agent_dev("merge", "--commits", "--json").stdout)
    for words in ((), ("--dry-run",)):
        again = agent_dev("merge", "--commits", "--json", *words)
        found = json.loads(again.stdout)
        assert (again.returncode, again.stderr, found["merge"], found["commits"]) == (1, "", None, [])
        assert (found["ref"], found["before"], found["after"]) == (kept["ref"], kept["after"], kept["after"])
        assert (found["reason"], found["hint"]) == (f"{kept['reason']}; {kept['ref']} has these commits", kept["hint"])
    agent_dev.do("merge", "--commits", "--onto-current")
    found = json.loads(agent_dev("merge", "--commits", "--json").stdout)
    assert (found["ref"], found["repositories"], found["reason"]) == (None, [], "no new commits on main")


def test_risky_files_of_commits_are_imported_only_on_request(agent_dev: AgentDev) -> None:
    start = agent_dev.git("rev-parse", "HEAD")
    agent_dev("--", "sh", "-c", "echo x >.envrc; ln -s /etc/passwd key; git add -A && git commit -qm 'Add both'")
    first = agent_dev("merge", "--commits")

    assert (first.returncode, agent_dev.git("rev-parse", "HEAD")) == (1, start)
    assert "risky: .envrc: directory-environment" in first.stdout
    assert "risky: key: link-leaves" in first.stdout
    assert not (agent_dev.repo / ".envrc").exists()
    second = agent_dev(*first.stdout.rsplit("agent-dev ", 1)[1].split())
    assert second.returncode == 0, second.stderr
    assert (agent_dev.repo / "key").is_symlink()


def test_in_a_linked_worktree_its_branch_is_fast_forwarded(agent_dev: AgentDev, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    agent_dev.git("worktree", "add", "-q", "-b", "side", linked)
    before = agent_dev.git("rev-parse", "HEAD")
    agent_dev("--", "sh", "-c", COMMIT, cwd=linked)
    done = agent_dev("merge", "--commits", cwd=linked)

    assert done.returncode == 0, done.stderr
    assert agent_dev.git("-C", linked, "status", "--porcelain") == ""
    assert agent_dev.git("log", "-1", "--format=%s", "side") == "Add new\n"
    assert agent_dev.git("rev-parse", "HEAD") == before


@pytest.mark.parametrize(
    "words",
    [
        ("--squash",),
        ("--as", "x"),
        ("--commits", "--all"),
        ("--include-risky",),
        ("--commits", "--take", "new"),
        ("--commits", "--as", "x", "--onto-current"),
        ("--commits", "--as", "a..b"),
        ("--commits", "nothing"),
    ],
)
def test_conflicting_flags_are_refused(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    agent_dev("--", "sh", "-c", COMMIT)

    assert agent_dev("merge", *words).returncode == 2


def test_commits_are_imported_after_their_files_were_applied(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", COMMIT)
    agent_dev("merge", "--all")
    done = agent_dev("merge", "--commits")

    assert done.returncode == 0, done.stderr
    assert agent_dev.git("status", "--porcelain") == ""
    assert agent_dev.git("log", "-1", "--format=%s") == "Add new\n"
