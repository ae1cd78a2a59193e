"""A rollback past a resume, or past changed types of directories: the user's edits since are merged, or are conflicts."""

from pathlib import Path

import pytest

from tests.harness.program import AgentDev

LINES = "".join(f"{number}\n" for number in range(30))
PREPEND = ("sed", "-i", "1s/^/A/")


@pytest.fixture
def texts(agent_dev: AgentDev) -> Path:
    """A repository with two texts."""
    for name in ("a", "b"):
        (agent_dev.repo / name).write_text(LINES)
    return commit(agent_dev)


def commit(agent_dev: AgentDev) -> Path:
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "state")
    return agent_dev.repo


def edit(path: Path) -> None:
    """Add a line as the user."""
    path.write_text(path.read_text() + "USER\n")


def merge_all(agent_dev: AgentDev) -> str:
    return agent_dev("merge", "--all", "--include-risky").stdout


@pytest.mark.parametrize("words", [("rollback", "1"), ("checkpoints", "--of", "a", "--restore", "1")])
def test_an_edit_after_a_merge_in_part_stays(agent_dev: AgentDev, texts: Path, words: tuple[str, ...]) -> None:
    agent_dev.do("--no-merge", "--", *PREPEND, "a", "b")
    agent_dev.do("merge", "--take", "a")
    edit(texts / "a")
    agent_dev.do("--no-merge", "resume", "--", "true")
    agent_dev.do(*words)
    assert "conflict: a: its content is unknown on one side" in merge_all(agent_dev)
    assert (texts / "a").read_text() == f"A{LINES}USER\n"
    assert (texts / "b").read_text() == f"A{LINES}"


def test_an_edit_before_a_resume_is_merged_after_a_rollback(agent_dev: AgentDev, texts: Path) -> None:
    agent_dev.do("--no-merge", "--", *PREPEND, "b")
    agent_dev.do("--no-merge", "resume", "--", *PREPEND, "a")
    agent_dev.do("rollback", "1")
    edit(texts / "a")
    agent_dev.do("--no-merge", "resume", "--", "true")
    agent_dev.do("rollback", "2")
    assert "a (merges both)" in merge_all(agent_dev)
    assert (texts / "a").read_text() == f"A{LINES}USER\n"


def test_a_new_file_of_both_sides_is_a_conflict_after_a_rollback(agent_dev: AgentDev, texts: Path) -> None:
    agent_dev.do("--no-merge", "--", *PREPEND, "b")
    agent_dev.do("--no-merge", "resume", "--", "sh", "-c", "echo agent >new")
    agent_dev.do("rollback", "1")
    (texts / "new").write_text("user\n")
    agent_dev.do("--no-merge", "resume", "--", "true")
    agent_dev.do("rollback", "2")
    assert "conflict: new: both added it" in merge_all(agent_dev)
    assert (texts / "new").read_text() == "user\n"


def test_a_rollback_by_the_agent_itself_keeps_the_users_edit(agent_dev: AgentDev, texts: Path, tmp_path: Path) -> None:
    (tmp_path / "inside.yaml").write_text("tx_inside: true\n")
    (texts / "many").mkdir()
    for number in range(5000):  # so that the lower snapshot takes longer than the rollback
        (texts / f"many/{number}").touch()
    commit(agent_dev)
    agent_dev.do("--no-merge", "--", *PREPEND, "a", "b")
    agent_dev.do("merge", "--take", "a")
    edit(texts / "a")
    agent_dev.do("--no-merge", "--config", str(tmp_path / "inside.yaml"), "resume", "--", "rollback", "1")
    assert "conflict: a: its content is unknown on one side" in merge_all(agent_dev)
    assert (texts / "a").read_text() == f"A{LINES}USER\n"


def test_a_deleted_file_of_an_older_checkpoint_conflicts_with_the_users_edit(agent_dev: AgentDev, texts: Path) -> None:
    agent_dev.do("--no-merge", "--", *PREPEND, "a", "b")
    agent_dev.do("merge", "--take", "a")
    edit(texts / "a")
    agent_dev.do("--no-merge", "resume", "--", "rm", "a")
    agent_dev.do("deleted", "--restore", "a")
    assert "conflict: a: its content is unknown on one side" in merge_all(agent_dev)
    assert (texts / "a").read_text() == f"A{LINES}USER\n"


# Directories that became something else


@pytest.mark.parametrize("made", ["echo all >d", "ln -s a d"])
def test_files_made_in_a_replaced_directory_stay_after_a_resume(agent_dev: AgentDev, texts: Path, made: str) -> None:
    (texts / "d").mkdir()
    (texts / "d/old").write_text("old\n")
    commit(agent_dev)
    agent_dev.do("--no-merge", "--", "sh", "-c", f"rm -r d; {made}")
    edit(texts / "d/old")
    (texts / "d/new").write_text("new\n")
    commit(agent_dev)
    agent_dev.do("--no-merge", "resume", "--", "true")
    text = merge_all(agent_dev)
    assert "conflict: d: files were created in it" in text
    assert "conflict: d/old: you changed it, the agent deleted it" in text
    assert [(texts / "d" / name).read_text() for name in ("old", "new")] == ["old\nUSER\n", "new\n"]


def test_an_edited_file_of_a_moved_directory_stays_after_a_resume(agent_dev: AgentDev, texts: Path) -> None:
    (texts / "d").mkdir()
    (texts / "d/old").write_text("old\n")
    commit(agent_dev)
    agent_dev.do("--no-merge", "--", "sh", "-c", "mv d moved; echo x >d")
    edit(texts / "d/old")
    commit(agent_dev)
    agent_dev.do("--no-merge", "resume", "--", "true")
    assert "conflict: d/old: you changed it, the agent deleted it" in merge_all(agent_dev)
    assert (texts / "d/old").read_text() == "old\nUSER\n"
