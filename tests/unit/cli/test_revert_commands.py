"""The printed command that undoes a merge does so where it was printed."""

from pathlib import Path

import pytest

from agent_dev.cli.render.revert_commands import redo_command, undo_command


@pytest.mark.parametrize(
    ("folder", "is_here"), [(".", True), ("sub", True), ("sub/inner", False), ("sub/inner/deep", False), ("..", False)]
)
def test_the_id_is_named_unless_the_merge_is_of_this_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, is_here: bool
) -> None:
    root = tmp_path / "root"
    (root / "sub/inner/deep").mkdir(parents=True)
    for repository in (root, root / "sub/inner"):
        (repository / ".git").mkdir()
    monkeypatch.chdir(root / folder)
    commands = [command([str(root), "/other"], "m1") for command in (undo_command, redo_command)]
    assert commands == (["agent-dev undo", "agent-dev redo"] if is_here else ["agent-dev undo m1", "agent-dev redo m1"])


def test_the_id_is_named_in_a_directory_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert undo_command([str(tmp_path / "gone")], "m1") == "agent-dev undo m1"
