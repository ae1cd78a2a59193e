"""The printed command that undoes a merge does so where it was printed."""

from pathlib import Path

import pytest

from agent_dev.cli.render.revert_commands import redo_command, undo_command


@pytest.mark.parametrize(
    ("folder", "suffix"), [(".", ""), ("sub", ""), ("sub/inner", " m1"), ("sub/inner/deep", " m1"), ("..", " m1")]
)
def test_the_id_is_named_unless_the_merge_is_of_this_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, suffix: str
) -> None:
    root = tmp_path / "root"
    (root / "sub/inner/deep").mkdir(parents=True)
    for repository in (root, root / "sub/inner"):
        (repository / ".git").mkdir()
    monkeypatch.chdir(root / folder)
    commands = [command([str(root), "/other"], "m1") for command in (undo_command, redo_command)]
    assert commands == [f"agent-dev undo{suffix}", f"agent-dev redo{suffix}"]


def test_the_id_is_named_in_a_directory_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert undo_command([str(tmp_path / "gone")], "m1") == "agent-dev undo m1"
