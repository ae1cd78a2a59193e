"""`-q` omits notices, progress and confirmations, and nothing that went wrong or was asked for."""

from pathlib import Path

import pytest

from tests.harness.program import AgentDev

SCRIPT = "echo new > new; echo agent > shared; rm -f old"


def prepare(repo: Path, agent_dev: AgentDev) -> None:
    (repo / "shared").write_text("yours\n")
    (repo / "old").write_text("old\n")
    assert agent_dev("-q", "--no-merge", "--", "sh", "-ec", SCRIPT).returncode == 0


def test_a_quiet_day_writes_nothing(agent_dev: AgentDev, repo: Path) -> None:
    (repo / "old").write_text("old\n")
    commands = [
        ("-q", "--no-merge", "--name", "day", "--", "sh", "-ec", "echo new > new"),
        ("sessions", "rename", "day", "night", "-q"),
        ("merge", "-q", "--all"),
        ("undo", "-q"),
        ("redo", "--quiet"),
        ("-q", "undo"),
        ("discard", "-q"),
        ("undiscard", "-q"),
        ("--quiet", "merge", "--all"),
        ("-q", "tx", "--", "touch", "made"),
        ("clean", "-q"),
        ("home", "--reset", "-q"),
    ]
    for words in commands:
        done = agent_dev(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), words
    assert ((repo / "new").read_text(), (repo / "made").exists()) == ("new\n", True)


def test_without_quiet_each_command_prints_a_notice(agent_dev: AgentDev) -> None:
    for words in [("--no-merge", "--", "touch", "new"), ("merge", "--all"), ("undo",), ("discard",)]:
        done = agent_dev(*words)
        assert done.stdout + done.stderr, words


def test_changes_that_were_not_merged_are_reported_even_if_quiet(agent_dev: AgentDev, repo: Path) -> None:
    prepare(repo, agent_dev)
    (repo / "shared").write_text("changed again\n")
    done = agent_dev("-q", "merge", "--all")
    assert done.returncode == 1
    assert "conflict: shared" in done.stdout
    assert "added    new" not in done.stdout


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("-q", "status"), "new"),
        (("-q", "diff"), "+agent"),
        (("merge", "-q", "--all", "--dry-run"), "would merge + added"),
        (("merge", "-q", "--all", "--json"), '"applied"'),
    ],
)
def test_requested_output_is_printed_even_if_quiet(agent_dev: AgentDev, repo: Path, words: tuple[str, ...], wanted: str) -> None:
    prepare(repo, agent_dev)
    assert wanted in agent_dev(*words).stdout


def test_errors_are_printed(agent_dev: AgentDev) -> None:
    done = agent_dev("-q", "merge", "nosuch", "--all")
    assert done.returncode != 0
    assert "nosuch" in done.stderr
