"""Details of the command line: options in any order, unusual file names, the reported reasons."""

import json
from pathlib import Path

from tests.harness.program import AgentDev

NAME = "new\nline"


def with_lines(agent_dev: AgentDev) -> str:
    (agent_dev.repo / NAME).write_text("".join(f"{number}\n" for number in range(40)))
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "lines")
    return agent_dev.ended_session("sed -i 's/^1$/one/; s/^30$/thirty/' new*")


def test_hunks_of_a_file_with_a_newline_in_its_name_are_applied(agent_dev: AgentDev) -> None:
    with_lines(agent_dev)
    done = agent_dev("merge", "--take", f"{NAME}:2")
    assert done.returncode == 0, done.stderr
    assert (agent_dev.repo / NAME).read_text().split("\n")[1] == "1"
    assert "thirty" in (agent_dev.repo / NAME).read_text()


def test_options_of_diff_are_accepted_anywhere_before_the_paths(agent_dev: AgentDev) -> None:
    session = with_lines(agent_dev)
    wanted = agent_dev("diff", session, "--", NAME, "--nothing").stderr
    assert "no changes at --nothing" in wanted
    printed = [
        agent_dev(*words).stdout
        for words in (
            ("diff", "--hunks", session, NAME),
            ("diff", session, "--hunks", "--", NAME),
            ("diff", session, "--hunks", NAME),
            ("diff", session, NAME, "--hunks"),
            ("diff", "--hunks", "--", NAME),
        )
    ]
    assert "hunk 2" in printed[0]
    assert len(set(printed)) == 1


def test_a_risky_ignored_file_is_skipped_as_ignored(agent_dev: AgentDev) -> None:
    (agent_dev.repo / ".gitignore").write_text("*.local\n.envrc\n")
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "ignore")
    agent_dev.ended_session("echo 'export A=1' >.envrc; echo new >README.md")
    done = agent_dev("merge", "--all", "--include-risky", "--json")
    assert done.returncode == 0, done.stderr
    assert [one["reason"] for one in json.loads(done.stdout)["skipped"]] == ["ignored by git"]


def test_a_repository_that_the_agent_created_is_left_and_reported(agent_dev: AgentDev, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    agent_dev("--no-merge", "--", "sh", "-ec", "git init -q; echo x >new", cwd=folder)
    for words, merged in ((("--dry-run",), False), ((), True)):
        done = agent_dev("merge", "--all", *words, cwd=folder)
        assert (done.returncode, (folder / "new").exists()) == (1, merged)
        assert "skipped .git: files under .git are never merged\n" in done.stdout
    assert not (folder / ".git").exists()


def test_a_conflict_that_was_not_selected_is_counted_as_one(agent_dev: AgentDev) -> None:
    agent_dev.ended_session("echo agent >>README.md; echo new >new")
    (agent_dev.repo / "README.md").write_text("yours\n")
    done = agent_dev("merge", "--take", "new")
    assert (done.returncode, "not merged: 1 in conflict (agent-dev merge shows them)\n" in done.stdout) == (0, True), done.stdout
