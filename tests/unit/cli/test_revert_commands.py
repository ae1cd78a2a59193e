"""The printed command that undoes a merge does so where it was printed; a merge elsewhere is reported with its repository."""

from pathlib import Path

import pytest

from agent_dev.cli.render.revert_commands import describe_place, redo_command, undo_command
from tests.harness.repository import repository


@pytest.mark.parametrize(
    ("folder", "suffix"), [(".", ""), ("sub", ""), ("sub/inner", " m1"), ("sub/inner/deep", " m1"), ("..", " m1")]
)
def test_the_id_is_named_unless_the_merge_is_of_this_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, suffix: str
) -> None:
    root = tmp_path / "root"
    for place in (root, root / "sub/inner"):
        repository(place)  # has a directory `sub`
    (root / "sub/inner/deep").mkdir()
    assert commands_in(root / folder, root, monkeypatch) == [f"agent-dev undo{suffix}", f"agent-dev redo{suffix}"]


def test_without_git_only_the_root_itself_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    assert commands_in(tmp_path, tmp_path, monkeypatch) == ["agent-dev undo", "agent-dev redo"]
    assert commands_in(tmp_path / "sub", tmp_path, monkeypatch) == ["agent-dev undo m1", "agent-dev redo m1"]


def test_the_repository_of_a_merge_is_shown_unless_it_is_the_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert describe_place([str(tmp_path), "/other"]) == ""
    assert describe_place(["/other", "/third"]) == " in /other"


def commands_in(folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(folder)
    return [command([str(root), "/other"], "m1") for command in (undo_command, redo_command)]


def test_the_id_is_named_in_a_directory_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert undo_command([str(tmp_path / "gone")], "m1") == "agent-dev undo m1"
