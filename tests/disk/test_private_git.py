"""The agent's private git directory: complete, its own, and standing whatever the user's git does meanwhile."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.core.plan import RUN, GitDir
from agent_dev.host import farm, private_git
from agent_dev.host.private_git import Wish
from agent_dev.host.remove import remove_session
from tests.harness.repository import commit, git, make_old, repository


class Twin:
    """A repository, its private copy, and a work tree in which git uses that copy, as inside the sandbox."""

    def __init__(self, root: Path, linked: str = "") -> None:
        self.root = root
        self.session = root.parent / "session"
        self.session.mkdir()
        common = Path(git(root, "rev-parse", "--git-common-dir").strip())
        self.source = common if common.is_absolute() else root / common
        self.copy, self.farm = self.session / "copy", self.session / "objects"
        wish = Wish(str(self.source), str(self.copy), str(self.farm), "0", linked, roots=(str(root),))
        self.made: GitDir = private_git.make(wish, "")

    def enter(self) -> Path:
        """Put the copy where the agent sees it: in a twin of the work tree, its stores where they are on the host."""
        inside = self.session / "inside"
        shutil.copytree(self.root, inside, symlinks=True, ignore=lambda place, _: [".git"] if Path(place) == self.root else [])
        self.copy.rename(inside / ".git")
        for path in (inside / ".git").rglob("alternates"):
            text = path.read_text()
            for outside, shown in sorted(self.made.stores, key=lambda store: -len(store[1])):
                text = text.replace(f"{shown}\n", f"{outside}\n")
            path.write_text(text)
        return inside


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def refs_of(place: Path) -> str:
    return git(place, "for-each-ref", "--format=%(refname) %(objectname) %(symref)") + git(place, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "root")


def test_everything_is_there(root: Path) -> None:
    inside = Twin(root).enter()

    assert git(inside, "log", "--format=%s").split() == ["second", "first"]
    assert refs_of(inside) == refs_of(root)
    assert git(inside, "fsck", "--full", "--strict") in ("", "notice: No default references\n")


def test_status_is_as_clean_as_outside(root: Path) -> None:
    (root / "new").touch()
    (root / "a.txt").write_text("edited\n")
    git(root, "add", "sub")
    inside = Twin(root).enter()

    assert git(inside, "status", "--porcelain") == git(root, "status", "--porcelain")


def test_a_commit_works_and_stays_inside(root: Path) -> None:
    before = refs_of(root)
    inside = Twin(root).enter()
    (inside / "made").write_text("by the agent\n")
    made = commit(inside, "agent's")

    assert refs_of(root) == before
    assert git(root, "cat-file", "-t", made, check=False).strip() != "commit"
    assert git(inside, "fsck", "--full") == ""


@pytest.mark.parametrize(
    "command", ["checkout -q -b x", "gc -q", "stash", "tag v1", "branch -D other", "reset -q --hard HEAD~1", "repack -qad"]
)
def test_whatever_the_agent_does_changes_nothing_outside(root: Path, command: str) -> None:
    git(root, "branch", "other")
    before = {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()}
    inside = Twin(root).enter()
    (inside / "a.txt").write_text("agent's\n")
    git(inside, *command.split())

    assert {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()} == before


HOST_DEEDS: dict[str, Callable[[Path], object]] = {
    "gc": lambda root: git(root, "gc", "-q", "--prune=now", "--aggressive"),
    "repack": lambda root: git(root, "repack", "-qad"),
    "a reset that loses commits": lambda root: (
        git(root, "reset", "-q", "--hard", "HEAD~1"),
        git(root, "reflog", "expire", "--expire=now", "--all"),
        git(root, "gc", "-q", "--prune=now"),
    ),
    "a commit": lambda root: commit(root, "meanwhile"),
    "all objects gone": lambda root: shutil.rmtree(root / ".git/objects"),
}


@pytest.mark.parametrize("deed", HOST_DEEDS)
def test_nothing_that_the_users_git_does_pulls_the_ground_away(root: Path, deed: str) -> None:
    inside = Twin(root).enter()
    HOST_DEEDS[deed](root)

    assert git(inside, "log", "--format=%s").split() == ["second", "first"]
    assert git(inside, "fsck", "--full") == ""


@pytest.mark.parametrize("packed", [False, True])
def test_packed_and_loose_objects_are_linked_into_the_farm(*, root: Path, packed: bool) -> None:
    if packed:
        git(root, "gc", "-q")
    twin = Twin(root)
    ((outside, shown),) = twin.made.stores

    assert shown == f"{RUN}/git/0/objects"
    assert files_of(Path(outside)) == files_of(root / ".git/objects") - {"info/alternates"}
    assert all(os.path.samefile(Path(outside) / name, root / ".git/objects" / name) for name in files_of(Path(outside)))


def test_the_copy_shares_no_inode_with_the_users(root: Path) -> None:
    git(root, "gc", "-q")
    copy = Twin(root).copy
    inodes = {path.stat().st_ino for path in (root / ".git").rglob("*") if path.is_file()}

    assert [path for path in copy.rglob("*") if path.is_file() and path.stat().st_ino in inodes] == []


def test_the_copy_holds_no_object(root: Path) -> None:
    assert files_of(Twin(root).copy / "objects") == {"info/alternates"}


def test_the_index_keeps_its_mtime(root: Path) -> None:
    make_old(root)
    copy = Twin(root).copy

    assert (copy / "index").stat().st_mtime_ns == (root / ".git/index").stat().st_mtime_ns
    assert (copy / "index").read_bytes() == (root / ".git/index").read_bytes()


def test_a_hook_stays_executable_and_samples_stay_away(root: Path) -> None:
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    (hook.parent / "update.sample").touch()
    copy = Twin(root).copy

    assert os.access(copy / "hooks/pre-commit", os.X_OK)
    assert not (copy / "hooks/update.sample").exists()


@pytest.mark.parametrize(
    "name", ["index.lock", "HEAD.lock", "refs/heads/main.lock", "packed-refs.lock", "config.lock", "logs/HEAD.lock", "gc.pid"]
)
def test_no_lock_is_copied(root: Path, name: str) -> None:
    (root / ".git" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / ".git" / name).touch()
    inside = Twin(root).enter()

    assert not [path for path in (inside / ".git").rglob("*") if path.name.endswith((".lock", "gc.pid"))]
    commit(inside, "works")


@pytest.mark.parametrize("name", ["lfs/objects/x", "annex/x", "agent-dev/x"])
def test_large_stores_and_our_own_are_not_copied(root: Path, name: str) -> None:
    (root / ".git" / name).parent.mkdir(parents=True)
    (root / ".git" / name).touch()

    assert not (Twin(root).copy / name).exists()


def test_a_fifo_and_a_link_in_the_git_directory_hang_nothing(root: Path) -> None:
    os.mkfifo(root / ".git/fifo")
    (root / ".git/link").symlink_to("/etc/passwd")
    copy = Twin(root).copy

    assert not (copy / "fifo").exists()
    assert os.readlink(copy / "link") == "/etc/passwd"


@pytest.mark.parametrize("state", ["MERGE_HEAD", "rebase", "bisect"])
def test_work_in_progress_goes_on_inside(root: Path, state: str) -> None:
    git(root, "checkout", "-q", "-b", "other", "HEAD~1")
    (root / "a.txt").write_text("theirs\n")
    commit(root, "theirs")
    match state:
        case "MERGE_HEAD":
            git(root, "merge", "main", check=False)
        case "rebase":
            git(root, "rebase", "main", check=False)
        case _:
            git(root, "bisect", "start", "HEAD", "HEAD~1", check=False)
    inside = Twin(root).enter()

    assert git(inside, "status") == git(root, "status")


# --- refs ---


def test_loose_packed_and_symbolic_refs_are_all_there(root: Path) -> None:
    for number in range(5):
        git(root, "branch", f"packed/{number}")
    git(root, "tag", "-a", "-m", "annotated", "v1")
    git(root, "pack-refs", "--all")
    git(root, "update-ref", "refs/heads/packed/0", "HEAD~1")
    git(root, "branch", "loose/deep/er")
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    git(root, "update-ref", "refs/bisect/bad", "HEAD")
    git(root, "update-ref", "refs/strange/x", "HEAD")

    assert refs_of(Twin(root).enter()) == refs_of(root)


def test_a_detached_head_stays_detached(root: Path) -> None:
    git(root, "checkout", "-q", "HEAD~1")

    assert refs_of(Twin(root).enter()) == refs_of(root)


def test_packed_refs_stay_one_file_and_a_few_loose_ones_win(root: Path) -> None:
    git(root, "branch", "other", "HEAD~1")
    git(root, "pack-refs", "--all")
    git(root, "update-ref", "refs/heads/other", "HEAD")
    twin = Twin(root)

    assert (twin.copy / "packed-refs").read_bytes() == (root / ".git/packed-refs").read_bytes()
    assert refs_of(twin.enter()) == refs_of(root)


def test_many_loose_refs_win_over_packed_ones(root: Path) -> None:
    for number in range(150):
        git(root, "update-ref", f"refs/tags/t{number}", "HEAD~1")
    git(root, "pack-refs", "--all")
    head = git(root, "rev-parse", "HEAD").strip()
    for number in range(120):
        (root / f".git/refs/tags/t{number}").write_text(f"{head}\n")

    assert refs_of(Twin(root).enter()) == refs_of(root)


def test_many_refs_become_one_file(root: Path) -> None:
    head = git(root, "rev-parse", "HEAD").strip()
    folder = root / ".git/refs/remotes/origin"
    folder.mkdir(parents=True)
    for number in range(2_000):
        (folder / f"b{number}").write_text(f"{head}\n")
    twin = Twin(root)

    assert files_of(twin.copy / "refs") == set()
    assert refs_of(twin.enter()) == refs_of(root)


@pytest.mark.parametrize("data", [b"", b"nonsense\n", b"\xff\n", b"0" * 39 + b"\n", b"a\nb\n"])
def test_a_broken_ref_breaks_nothing_else(root: Path, data: bytes) -> None:
    git(root, "branch", "fine")
    (root / ".git/refs/heads/broken").write_bytes(data)
    inside = Twin(root).enter()

    commit(inside, "works")
    assert {"refs/heads/fine", "refs/heads/main"} <= set(git(inside, "for-each-ref", "--format=%(refname)").split())


def test_reflogs_are_there(root: Path) -> None:
    assert git(Twin(root).enter(), "reflog") == git(root, "reflog")


def test_the_stash_is_there(root: Path) -> None:
    (root / "a.txt").write_text("stashed\n")
    git(root, "stash", "-q")
    inside = Twin(root).enter()
    git(inside, "stash", "pop", "-q")

    assert (inside / "a.txt").read_text() == "stashed\n"


def test_of_many_reflogs_those_of_head_and_this_branch_are_there(root: Path) -> None:
    for number in range(250):
        log = root / f".git/logs/refs/heads/b{number}"
        log.write_text("")
    inside = Twin(root).enter()

    assert files_of(inside / ".git/logs") == {"HEAD", "refs/heads/main"}
    assert git(inside, "reflog", "main") == git(root, "reflog", "main")


def test_a_repository_without_commits_works(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q")
    (root / "x").touch()
    inside = Twin(root).enter()
    commit(inside, "first")

    assert git(inside, "log", "--format=%s").strip() == "first"


# --- other kinds of repositories ---


@pytest.mark.parametrize("options", [["--object-format=sha256"], ["--template="]])
def test_other_formats_work(tmp_path: Path, options: list[str]) -> None:
    inside = Twin(repository(tmp_path / "root", *options)).enter()
    commit(inside, "works")

    assert git(inside, "fsck", "--full") == ""


@pytest.mark.parametrize(
    "words", ["update-index --split-index", "update-index --index-version 4", "sparse-checkout set --sparse-index sub"]
)
def test_other_kinds_of_index_work(root: Path, words: str) -> None:
    git(root, *words.split())
    inside = Twin(root).enter()

    assert git(inside, "status", "--porcelain") == ""
    (inside / "sub/new").touch()
    commit(inside, "works")


def test_a_shallow_clone_works(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    inside = Twin(tmp_path / "shallow").enter()
    commit(inside, "works")

    assert git(inside, "log", "--format=%s").split() == ["works", "second"]


@pytest.mark.parametrize("relative", [False, True])
def test_a_clone_that_borrows_objects_works(*, root: Path, tmp_path: Path, relative: bool) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(root), "borrower")
    if relative:
        (tmp_path / "borrower/.git/objects/info/alternates").write_text("../../../root/.git/objects\n")
    commit(tmp_path / "borrower", "own")
    inside = Twin(tmp_path / "borrower").enter()
    shutil.rmtree(root)

    assert git(inside, "log", "--format=%s").split() == ["own", "second", "first"]
    assert git(inside, "fsck", "--full") == ""


def test_a_clone_that_borrows_from_one_that_borrows_works(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(root), "middle")
    commit(tmp_path / "middle", "middle")
    git(tmp_path, "clone", "-q", "--shared", str(tmp_path / "middle"), "last")
    inside = Twin(tmp_path / "last").enter()

    assert git(inside, "log", "--format=%s").split() == ["middle", "second", "first"]


def test_alternates_in_a_circle_end(root: Path) -> None:
    (root / ".git/objects/info/alternates").write_text(f"{root}/.git/objects\n")

    assert len(Twin(root).made.stores) >= 1


def test_a_submodule_works(root: Path, tmp_path: Path) -> None:
    repository(tmp_path / "library")
    git(root, "submodule", "--quiet", "add", str(tmp_path / "library"), "vendor/library")
    commit(root, "with a library")
    inside = Twin(root).enter()
    shutil.rmtree(tmp_path / "library")
    (inside / "vendor/library/new").touch()
    commit(inside / "vendor/library", "in the library")
    commit(inside, "new library")

    assert git(inside, "submodule", "status").split()[0] == git(inside / "vendor/library", "rev-parse", "HEAD").strip()
    assert git(inside / "vendor/library", "fsck", "--full") == ""
    assert git(root / "vendor/library", "log", "-1", "--format=%s").strip() == "second"


def test_submodules_with_slashes_and_submodules_of_submodules_have_stores_of_their_own(root: Path, tmp_path: Path) -> None:
    repository(tmp_path / "leaf")
    repository(tmp_path / "library")
    git(tmp_path / "library", "submodule", "--quiet", "add", str(tmp_path / "leaf"), "leaf")
    commit(tmp_path / "library", "with a leaf")
    git(root, "submodule", "--quiet", "add", str(tmp_path / "library"), "a/b")
    git(root, "submodule", "--quiet", "add", str(tmp_path / "leaf"), "a/c")
    git(root, "submodule", "--quiet", "update", "--init", "--recursive")
    commit(root, "with libraries")
    twin = Twin(root)
    shown = [place for _, place in twin.made.stores]
    inside = twin.enter()

    assert len(shown) == len(set(shown)) == 4
    assert git(inside, "submodule", "status", "--recursive") == git(root, "submodule", "status", "--recursive")


def test_a_linked_work_tree_has_its_own_index_and_not_the_others(root: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        git(root, "worktree", "add", "-q", str(tmp_path / name))
    one = root / ".git/worktrees/one"
    copy = Twin(tmp_path / "one", linked=str(one)).copy

    assert (copy / "worktrees/one/index").read_bytes() == (one / "index").read_bytes()
    assert not (copy / "worktrees/two/index").exists()
    assert (copy / "worktrees/two/HEAD").read_bytes() == (root / ".git/worktrees/two/HEAD").read_bytes()


def test_a_commit_in_a_linked_work_tree_works(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "one"))
    twin = Twin(tmp_path / "one", linked=str(root / ".git/worktrees/one"))
    before = refs_of(root)
    # As inside, where the copy is bound over the common directory.
    (root / ".git").rename(tmp_path / "aside")
    twin.copy.rename(root / ".git")
    alternates = root / ".git/objects/info/alternates"
    alternates.write_text(alternates.read_text().replace(twin.made.stores[0][1], twin.made.stores[0][0]))
    (tmp_path / "one/new").touch()
    commit(tmp_path / "one", "in the linked tree")

    assert git(tmp_path / "one", "log", "-1", "--format=%s").strip() == "in the linked tree"
    assert git(tmp_path / "one", "fsck", "--full") == ""
    shutil.rmtree(root / ".git")
    (tmp_path / "aside").rename(root / ".git")
    assert refs_of(root) == before


def test_a_linked_work_tree_within_the_root_has_its_index(root: Path) -> None:
    git(root, "worktree", "add", "-q", "trees/one")
    copy = Twin(root).copy

    assert (copy / "worktrees/one/index").read_bytes() == (root / ".git/worktrees/one/index").read_bytes()


@pytest.mark.parametrize(("part", "data"), [("HEAD", b""), ("HEAD", b"0" * 40 + b"\n"), ("commondir", b""), ("gitdir", b"")])
def test_half_of_a_linked_work_tree_is_left_out(root: Path, tmp_path: Path, part: str, data: bytes) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "one"))
    (root / ".git/worktrees/one" / part).write_bytes(data)
    inside = Twin(root).enter()

    assert not (inside / ".git/worktrees/one").exists()
    commit(inside, "works")


def test_the_submodules_of_a_linked_work_tree_borrow_their_objects(root: Path, tmp_path: Path) -> None:
    repository(tmp_path / "library")
    git(root, "submodule", "--quiet", "add", str(tmp_path / "library"), "library")
    commit(root, "with a library")
    git(root, "worktree", "add", "-q", str(tmp_path / "one"))
    git(tmp_path / "one", "submodule", "--quiet", "update", "--init")
    own = root / ".git/worktrees/one/modules/library"
    twin = Twin(tmp_path / "one", linked=str(own.parents[1]))

    assert files_of(twin.copy / "worktrees/one/modules/library/objects") == {"info/alternates"}
    stores = {Path(outside) for outside, _ in twin.made.stores}
    assert any(files_of(store) == files_of(own / "objects") for store in stores)
    assert len(stores) == 3


# --- while the user's git is at work ---


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
