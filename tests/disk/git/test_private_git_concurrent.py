"""The agent's private git directory, created while the user's git runs or where hard links fail."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from agent_dev.fs.rmtree import remove_session
from agent_dev.git import object_links, private_copy
from agent_dev.git.private_copy import CopyRequest
from agent_dev.paths import RUN
from tests.disk.git.private_git_copy import HOST_ACTIONS, PrivateClone, files_of, refs_of
from tests.harness.repository import commit, git, repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "root")


def test_objects_of_packs_replaced_during_linking_are_found_in_the_new_pack(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(root, "repack", "-qad", "--write-midx")
    link, old = os.link, files_of(root / ".git/objects/pack")
    (root / "more").touch()
    commit(root, "more")

    def repacked_first(source: str, place: str, **keywords: bool) -> None:
        if Path(source).name in old and Path(source).suffix == ".pack" and os.path.exists(source):
            git(root, "repack", "-qad")
        link(source, place, **keywords)

    monkeypatch.setattr(os, "link", repacked_first)
    inside = PrivateClone(root).enter()

    assert git(inside, "fsck", "--full") == ""
    assert git(inside, "log", "--format=%s").split() == ["more", "second", "first"]


def test_a_commit_made_during_the_copy_is_complete_or_absent(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(root, "worktree", "add", "-q", "--detach", str(tmp_path / "one"))
    stores = object_links.list_object_stores

    def commit_first(first: str) -> list[str]:
        commit(tmp_path / "one", "meanwhile")
        return stores(first)

    monkeypatch.setattr(object_links, "list_object_stores", commit_first)
    inside = PrivateClone(root).enter()
    shutil.rmtree(root / ".git/objects")

    assert git(inside, "fsck", "--full", "--no-dangling") == ""


def test_a_ref_packed_while_refs_are_read_is_copied(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(root, "branch", "other")
    before, read = refs_of(root), object_links.read_file

    def packed_first(path: str) -> bytes:
        git(root, "pack-refs", "--all")
        return read(path)

    monkeypatch.setattr(object_links, "read_file", packed_first)

    assert refs_of(PrivateClone(root).enter()) == before


@pytest.mark.parametrize("switch", ["checkout -q main", "checkout -q -b newer"])
@pytest.mark.parametrize("place", ["root", "side"])  # HEAD is copied before the refs, that of a linked worktree after them
def test_a_branch_switched_during_the_copy_leaves_no_unborn_head(
    root: Path, monkeypatch: pytest.MonkeyPatch, place: str, switch: str
) -> None:
    git(root, "branch", "-m", "main")
    git(root, "worktree", "add", "-q", "--detach", "../side")
    git(root, "checkout", "-q", "-b", "passing")
    user, copy = root.parent / place, private_copy._copy_text
    switched: list[str] = []

    def switch_now(source: str, target: str, result: private_copy.PrivateCopy) -> None:
        if Path(target).name != "HEAD" or ("worktrees" in target) != (place == "side") or switched:
            copy(source, target, result)
            return
        switched.append(target)
        if place == "side":
            git(user, *switch.split())
            copy(source, target, result)
        else:
            copy(source, target, result)
            git(user, *switch.split())
            git(user, "branch", "-q", "-D", "passing")

    monkeypatch.setattr(private_copy, "_copy_text", switch_now)
    private = PrivateClone(root).copy

    (head,) = switched
    branch = Path(head).read_text().removeprefix("ref: ").strip()
    assert branch == git(user, "symbolic-ref", "HEAD").strip()
    assert git(root, "--git-dir", str(private), "rev-parse", branch) == git(root, "rev-parse", branch)


@pytest.mark.parametrize("log_count", [0, 300])  # with many logs, HEAD names the one to copy
@pytest.mark.parametrize("head", ["ref: refs/heads/../../../secret", "ref: ../../secret", "ref: /etc/hostname"])
def test_a_head_that_leads_out_of_the_git_dir_copies_nothing_from_there(root: Path, head: str, log_count: int) -> None:
    (root / "secret").write_text("canary")
    for number in range(log_count):
        (root / f".git/logs/refs/heads/{number}").write_text("")
    (root / ".git/HEAD").write_text(f"{head}\n")
    before = files_of(root.parent)
    place = root.parent / "session"
    place.mkdir()

    private_copy.create_private_copy(CopyRequest(f"{root}/.git", f"{place}/copy", f"{place}/objects", "0"), "")

    new = files_of(root.parent) - before
    assert {name for name in new if not name.startswith(("session/copy/", "session/objects", "root/.git/agent-dev/"))} == set()
    assert not any("canary" in (root.parent / name).read_text(errors="replace") for name in new)


def test_an_unborn_head_stays_unborn(root: Path) -> None:
    git(root, "checkout", "-q", "--orphan", "new")

    assert (PrivateClone(root).copy / "HEAD").read_text() == "ref: refs/heads/new\n"


def test_a_file_deleted_during_the_copy_stops_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / ".git/fleeting").touch()
    copy = private_copy._copy_text

    def vanish(source: str, target: str, result: private_copy.PrivateCopy) -> None:
        (root / ".git/fleeting").unlink(missing_ok=True)
        copy(source, target, result)

    monkeypatch.setattr(private_copy, "_copy_text", vanish)

    commit(PrivateClone(root).enter(), "works")


def test_a_copy_leaves_no_descriptor_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    PrivateClone(root)

    assert len(os.listdir("/proc/self/fd")) == before


def test_where_hard_links_fail_the_original_store_is_mounted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    clone = PrivateClone(root)

    assert not list((root / ".git/agent-dev").glob("*"))
    assert clone.made.stores == ((os.path.realpath(root / ".git/objects"), f"{RUN}/git/0/objects"),)


def test_on_another_file_system_the_links_are_next_to_the_store(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def within_one_file_system(source: str, place: str, **keywords: bool) -> None:
        if not place.startswith(str(root)):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, place, **keywords)

    monkeypatch.setattr(os, "link", within_one_file_system)
    clone = PrivateClone(root)
    ((outside, _),) = clone.made.stores

    assert Path(outside) == root / ".git/agent-dev/links-0"
    inside = clone.enter()
    HOST_ACTIONS["a reset that loses commits"](root)
    assert git(inside, "fsck", "--full") == ""
    remove_session(str(clone.session))
    assert not Path(outside).exists()
    assert not clone.session.exists()


def test_removing_an_unknown_session_removes_nothing_next_to_a_store(root: Path) -> None:
    before = files_of(root)
    clone = PrivateClone(root)
    remove_session(str(clone.session))

    assert files_of(root) == before


def test_lfs_objects_are_hard_linked(root: Path) -> None:
    stored = root / ".git/lfs/objects/ab/cd/abcd"
    stored.parent.mkdir(parents=True)
    stored.write_text("large\n")
    clone = PrivateClone(root)
    ((outside, shown),) = clone.made.lfs_stores

    assert shown == f"{RUN}/git/0/lfs/objects"
    assert os.path.samefile(Path(outside) / "ab/cd/abcd", stored)
    assert not (clone.copy / "lfs").exists()
