"""The agent's private git directory made while the user's git is at work, and where links cannot be made."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from agent_dev.fs.rmtree import remove_session
from agent_dev.git import object_links as farm
from agent_dev.git import private_copy as private_git
from agent_dev.sandbox.plan import RUN
from tests.disk.private_git_twin import HOST_DEEDS, Twin, files_of, refs_of
from tests.harness.repository import commit, git, repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "root")


def test_packs_that_a_repack_replaces_while_they_are_linked_are_found_in_its_new_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "repack", "-qad", "--write-midx")
    link, old = os.link, files_of(root / ".git/objects/pack")
    (root / "more").touch()
    commit(root, "more")

    def repacked_first(source: str, place: str, **keywords: bool) -> None:
        if Path(source).name in old and Path(source).suffix == ".pack" and os.path.exists(source):
            git(root, "repack", "-qad")
        link(source, place, **keywords)

    monkeypatch.setattr(os, "link", repacked_first)
    inside = Twin(root).enter()

    assert git(inside, "fsck", "--full") == ""
    assert git(inside, "log", "--format=%s").split() == ["more", "second", "first"]


def test_what_is_committed_while_the_copy_is_made_is_whole_or_not_there(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "worktree", "add", "-q", "--detach", str(tmp_path / "one"))
    stores = farm.object_stores

    def commit_first(first: str) -> list[str]:
        commit(tmp_path / "one", "meanwhile")
        return stores(first)

    monkeypatch.setattr(farm, "object_stores", commit_first)
    inside = Twin(root).enter()
    shutil.rmtree(root / ".git/objects")

    assert git(inside, "fsck", "--full", "--no-dangling") == ""


def test_a_ref_that_is_packed_while_refs_are_read_is_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(root, "branch", "other")
    before, read = refs_of(root), farm.read

    def packed_first(path: str) -> bytes:
        git(root, "pack-refs", "--all")
        return read(path)

    monkeypatch.setattr(farm, "read", packed_first)

    assert refs_of(Twin(root).enter()) == before


def test_a_file_that_went_meanwhile_stops_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / ".git/fleeting").touch()
    copy = private_git.copy_file

    def vanish(source: str, target: str) -> None:
        (root / ".git/fleeting").unlink(missing_ok=True)
        copy(source, target)

    monkeypatch.setattr(private_git, "copy_file", vanish)

    commit(Twin(root).enter(), "works")


def test_a_copy_leaves_no_descriptor_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    Twin(root)

    assert len(os.listdir("/proc/self/fd")) == before


def test_where_links_cannot_be_made_the_store_itself_is_shown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    twin = Twin(root)

    assert not list((root / ".git/agent-dev").glob("*"))
    assert twin.made.stores == ((os.path.realpath(root / ".git/objects"), f"{RUN}/git/0/objects"),)


def test_on_another_file_system_the_links_lie_beside_the_store_until_the_session_goes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def within_one_file_system(source: str, place: str, **keywords: bool) -> None:
        if not place.startswith(str(root)):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, place, **keywords)

    monkeypatch.setattr(os, "link", within_one_file_system)
    twin = Twin(root)
    ((outside, _),) = twin.made.stores

    assert Path(outside) == root / ".git/agent-dev/farm-0"
    inside = twin.enter()
    HOST_DEEDS["a reset that loses commits"](root)
    assert git(inside, "fsck", "--full") == ""
    remove_session(str(twin.session))
    assert not Path(outside).exists()
    assert not twin.session.exists()


def test_without_a_session_nothing_is_removed_beside_a_store(root: Path) -> None:
    before = files_of(root)
    twin = Twin(root)
    remove_session(str(twin.session))

    assert files_of(root) == before


def test_lfs_objects_are_linked(root: Path) -> None:
    stored = root / ".git/lfs/objects/ab/cd/abcd"
    stored.parent.mkdir(parents=True)
    stored.write_text("large\n")
    twin = Twin(root)
    ((outside, shown),) = twin.made.large

    assert shown == f"{RUN}/git/0/lfs/objects"
    assert os.path.samefile(Path(outside) / "ab/cd/abcd", stored)
    assert not (twin.copy / "lfs").exists()
