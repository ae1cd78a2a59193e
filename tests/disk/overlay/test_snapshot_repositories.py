"""Base versions in every kind of repository equal the contents at the start, also after the user changed every file."""

import os
import shutil
from pathlib import Path

import pytest

from agent_dev.fs.entry import FileType
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from tests.disk.overlay.snapshot_world import is_in_index, taken
from tests.harness import trees
from tests.harness.repository import git, has_run, make_trap, state_of
from tests.harness.repository_kinds import KINDS, Repository, files_of, make_indexes_newer

GIT = shutil.which("git") or "git"


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    made = KINDS[request.param](tmp_path / "root")
    make_indexes_newer(made.root)
    return made


def take_of(made: Repository) -> LowerSnapshot:
    is_repository = os.path.lexists(made.root / ".git")
    return taken(made.root, git=git(made.root, "rev-parse", "--absolute-git-dir").strip() if is_repository else "")


def bytes_of(one: LowerSnapshot, root: Path, name: str) -> bytes | None:
    """Return the base version of a path as a review does: from the lower layer if it is unchanged, else from the snapshot."""
    before, now = one.entries(0)[os.fsencode(name)], trees.entry_on_disk(root / name)
    if now is not None and now.identity == before.identity:
        return (root / name).read_bytes()
    return one.content(0, os.fsencode(name))


def spoil(root: Path) -> None:
    """Change every file, as the user might."""
    for name, data in files_of(root).items():
        (root / name).write_bytes(data[::-1] + b"!")


def test_without_changes_the_base_versions_equal_the_disk(made: Repository) -> None:
    one = take_of(made)

    assert {name: bytes_of(one, made.root, name) for name in files_of(made.root)} == files_of(made.root)


def test_after_changes_by_the_user_the_base_versions_are_the_former_contents(made: Repository) -> None:
    before, one = files_of(made.root), take_of(made)
    spoil(made.root)
    reported = {name: bytes_of(one, made.root, name) for name in before}

    assert reported == {name: None if name in made.lost else data for name, data in before.items()}


def test_files_equal_to_gits_version_are_not_copied(made: Repository) -> None:
    one = take_of(made)

    assert {name for name in made.blobs if not is_in_index(one, 0, os.fsencode(name))} == set()


def test_the_lower_snapshot_lists_only_existing_files(made: Repository) -> None:
    one = take_of(made)
    paths = {os.fsdecode(path) for path, entry in one.entries(0).items() if entry.type is FileType.FILE}

    assert {path for path in paths if ".git" not in path.split("/")} == set(files_of(made.root))
    assert one.is_complete


def test_the_repository_is_only_read(made: Repository) -> None:
    before = state_of(made.root.parent)
    one = take_of(made)
    [one.content(0, path) for path in one.entries(0)]
    shutil.rmtree(made.root.parent / "base")
    after = state_of(made.root.parent)

    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} - {str(made.root.parent)} == set()


def test_no_program_configured_in_any_repository_is_run(made: Repository, tmp_path: Path) -> None:
    planted = make_trap(tmp_path / "traps")
    for config in [path for path in tmp_path.rglob("config") if path.is_file() and (path.parent / "HEAD").exists()]:
        with open(config, "a", encoding="utf-8") as file:
            file.write(f'[core]\n\tfsmonitor = {planted}\n\thooksPath = {planted.parent}\n[remote "x"]\n\turl = ext::{planted}\n')
            file.writelines(f'[filter "{name}"]\nclean = {planted}\nsmudge = {planted}\n' for name in ("rot", "lfs"))
        for hook in ("post-index-change", "reference-transaction", "post-checkout"):
            (config.parent / "hooks").mkdir(exist_ok=True)
            (planted.parent / hook).write_bytes(planted.read_bytes())
            (planted.parent / hook).chmod(0o755)
    one = take_of(made)
    spoil(made.root)
    [one.content(0, path) for path in one.entries(0)]

    assert not has_run(planted)
    if (made.root / ".git").exists():
        git(made.root, "status", check=False)
        assert has_run(planted)  # git does run it with this configuration
