"""Every kind of repository: the base's bytes are the disk's, while nothing moves and after the user changed it all."""

import os
import shutil
from pathlib import Path

import pytest

from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.overlay.changes import FileType
from agent_dev.overlay.lower_snapshot import Base
from agent_dev.overlay.lower_snapshot_take import Wish
from tests.harness import trees
from tests.harness.kinds import KINDS, Made, age, files_of
from tests.harness.repository import ENVIRON, git, has_run, state_of, trap

GIT = shutil.which("git") or "git"


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    made = KINDS[request.param](tmp_path / "root")
    age(made.root)
    return made


def taken(root: Path, *, is_repository: bool = True) -> Base:
    folder = root.parent / "base"
    place = git(root, "rev-parse", "--absolute-git-dir").strip() if is_repository else ""
    base_take.take(str(folder), Wish(roots=(str(root),), git=place, program=GIT, environ=ENVIRON))
    return Base(str(folder))


def take_of(made: Made) -> Base:
    return taken(made.root, is_repository=os.path.lexists(made.root / ".git"))


def bytes_of(one: Base, root: Path, name: str) -> bytes | None:
    """Return a path's base bytes as a review does: the lower's while it is the same, else the base's own."""
    before, now = one.entries(0)[os.fsencode(name)], trees.entry_on_disk(root / name)
    if now is not None and now.identity == before.identity:
        return (root / name).read_bytes()
    return one.content(0, os.fsencode(name))


def spoil(root: Path) -> None:
    """Change every file, as a user might."""
    for name, data in files_of(root).items():
        (root / name).write_bytes(data[::-1] + b"!")


def test_while_nothing_moves_the_base_has_the_disks_bytes(made: Made) -> None:
    one = take_of(made)

    assert {name: bytes_of(one, made.root, name) for name in files_of(made.root)} == files_of(made.root)


def test_after_the_user_changed_everything_the_base_has_what_was_there(made: Made) -> None:
    before, one = files_of(made.root), take_of(made)
    spoil(made.root)
    told = {name: bytes_of(one, made.root, name) for name in before}

    assert told == {name: None if name in made.lost else data for name, data in before.items()}


def test_what_is_as_git_keeps_it_is_not_copied(made: Made) -> None:
    one = take_of(made)

    assert {name for name in made.blobs if not one.is_in_index(0, os.fsencode(name))} == set()


def test_nothing_is_in_the_base_that_is_not_on_the_disk(made: Made) -> None:
    one = take_of(made)
    paths = {os.fsdecode(path) for path, entry in one.entries(0).items() if entry.type is FileType.FILE}

    assert {path for path in paths if ".git" not in path.split("/")} == set(files_of(made.root))
    assert one.is_complete


def test_the_repository_is_only_read(made: Made) -> None:
    before = state_of(made.root.parent)
    one = take_of(made)
    [one.content(0, path) for path in one.entries(0)]
    shutil.rmtree(made.root.parent / "base")
    after = state_of(made.root.parent)

    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} - {str(made.root.parent)} == set()


def test_no_program_of_any_repository_is_run(made: Made, tmp_path: Path) -> None:
    planted = trap(tmp_path / "traps")
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
        assert has_run(planted)  # it was set as git heeds it
