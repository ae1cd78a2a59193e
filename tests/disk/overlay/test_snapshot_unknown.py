"""Cases in which a lower snapshot cannot know the base version: early edits and deletions, damaged objects, and a hanging git."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.fs.entry import WalkedEntry
from agent_dev.merge.review import open_review
from agent_dev.overlay import lower_snapshot_git, lower_snapshot_process, lower_snapshot_walk
from agent_dev.overlay.changes import ChangeKind
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.overlay.lower_snapshot_request import PriorChanges, SnapshotRequest
from agent_dev.overlay.lower_snapshot_row import RecordedPath
from tests.disk.overlay.snapshot_world import is_in_index, taken
from tests.harness import trees
from tests.harness.faults.early_changes import GIT, EarlySession
from tests.harness.repository import ENVIRON, commit, git, has_run, make_trap, repository
from tests.harness.repository_kinds import files_of, make_indexes_newer
from tests.harness.trees import Node, UpperEntry
from tests.harness.users import call_as_ordinary_user, ordinary_users_directory

FILE, SYMLINK, DIRECTORY = trees.FILE, trees.SYMLINK, trees.DIRECTORY


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = repository(tmp_path / "root")
    (root / "link").symlink_to("a.txt")
    commit(root, "third")
    make_indexes_newer(root)
    return root


def remove(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def nothing(_: Path) -> None:
    return


# --- files that the user removed before the snapshot reached them ---


def test_an_early_deletion_is_no_addition_of_the_agent(root: Path) -> None:
    (change,) = EarlySession(root, remove("a.txt"), [UpperEntry(b"a.txt", Node(FILE, b"agent\n"))]).changes().values()

    assert (change.kind, change.conflict) == (ChangeKind.EDITED, "you deleted it, the agent changed it")


def test_an_early_deletion_changes_nothing_that_is_known_of_other_paths(root: Path) -> None:
    (root / "sub/deep").mkdir()
    for name in ("gone", "other"):
        (root / "sub/deep" / name).write_bytes(b"text\n")
    commit(root, "fourth")
    make_indexes_newer(root)
    before = dict(taken(root).entries(0))
    EarlySession(root, remove("sub/deep/gone"), []).review().close()
    [folder] = (root.parent / "state").glob("sessions/*/base")
    found = LowerSnapshot(str(folder)).entries(0)

    assert sorted(found) == sorted(before)  # each once
    assert [path for path in sorted(found) if found[path] != before[path]] == [b"sub/deep", b"sub/deep/gone"]
    assert found[b"sub/deep/gone"].inode == 0


def test_git_provides_the_content_of_an_early_deletion(root: Path) -> None:
    review = EarlySession(root, remove("a.txt"), [UpperEntry(b"a.txt", Node(FILE, b"agent\n"))]).review()

    assert review.content(review.changes.changes[0].key) == (b"more\n", b"agent\n")
    review.close()


def test_a_file_only_opened_by_the_agent_is_unchanged_after_an_early_deletion(root: Path) -> None:
    assert EarlySession(root, remove("a.txt"), [UpperEntry(b"a.txt", Node(FILE, b"more\n"))]).changes() == {}


def test_an_early_deletion_by_both_leaves_nothing_to_merge(root: Path) -> None:
    assert EarlySession(root, remove("a.txt"), [UpperEntry(b"a.txt", None)]).changes() == {}


def test_an_early_deletion_of_a_directory_is_reported(root: Path) -> None:
    marks = [UpperEntry(b"sub", Node(DIRECTORY, mode=0o755)), UpperEntry(b"sub/b.txt", Node(FILE, b"agent\n"))]
    found = EarlySession(root, lambda root: shutil.rmtree(root / "sub"), marks).changes()

    assert {path: change.kind for path, change in found.items()} == {b"sub/b.txt": ChangeKind.EDITED}
    assert found[b"sub/b.txt"].conflict == "sub was removed since the session started"


def test_git_provides_the_target_of_an_early_deleted_symlink(root: Path) -> None:
    (change,) = EarlySession(root, remove("link"), [UpperEntry(b"link", Node(SYMLINK, b"elsewhere"))]).changes().values()

    assert change.before is not None
    assert (change.kind, change.before.target, change.conflict) == (
        ChangeKind.EDITED,
        b"a.txt",
        "you deleted it, the agent changed it",
    )


def test_a_file_deleted_before_the_start_is_an_addition_of_the_agent(root: Path) -> None:
    (root / "sub/b.txt").unlink()
    marks = [UpperEntry(b"sub", Node(DIRECTORY, mode=0o755)), UpperEntry(b"sub/b.txt", Node(FILE, b"agent\n"))]
    (change,) = EarlySession(root, remove("link"), marks).changes().values()

    assert (change.kind, change.conflict) == (ChangeKind.ADDED, None)


def test_a_file_outside_a_sparse_checkout_is_an_addition_of_the_agent(root: Path) -> None:
    git(root, "sparse-checkout", "set", "--no-cone", "/*", "!/a.txt")
    (change,) = EarlySession(root, remove("link"), [UpperEntry(b"a.txt", Node(FILE, b"agent\n"))]).changes().values()

    assert (change.kind, change.conflict) == (ChangeKind.ADDED, None)


def test_a_filter_hides_the_content_of_an_early_deletion(root: Path) -> None:
    (root / ".gitattributes").write_text("a.txt filter=any\n")
    review = EarlySession(root, remove("a.txt"), [UpperEntry(b"a.txt", Node(FILE, b"agent\n"))]).review()

    assert review.content(review.changes.changes[0].key) == (None, b"agent\n")
    review.close()


def test_an_early_edit_is_a_conflict_without_a_base_version(root: Path) -> None:
    early = EarlySession(
        root, lambda root: (root / "a.txt").write_bytes(b"USER\n"), [UpperEntry(b"a.txt", Node(FILE, b"agent\n"))]
    )
    review = early.review()
    (change,) = review.changes.changes

    assert change.conflict == "its content is unknown on one side"
    assert review.content(change.key) == (None, b"agent\n")
    review.close()


@pytest.mark.parametrize("name", ["a.txt", "unspecified", "filter", "unset"])
def test_a_file_with_a_filter_has_no_content_from_git(root: Path, name: str) -> None:
    """Also one that is named as git names the value of an attribute that a file does not have."""
    (root / name).write_bytes(b"text\n")
    git(root, "add", name)
    (root / ".gitattributes").write_text(f"{name} filter=any\n")
    make_indexes_newer(root)
    one = taken(root)

    assert (one.is_in_git(0, b"sub/b.txt"), one.is_in_git(0, os.fsencode(name))) == (True, False)


# --- base versions of files that changed after the start ---


def test_a_file_only_opened_by_the_agent_is_unchanged_despite_a_user_edit(root: Path) -> None:
    early = EarlySession(root, nothing, [UpperEntry(b"a.txt", Node(FILE, b"more\n", (root / "a.txt").stat().st_mode & 0o777))])
    review = early.review()
    review.close()
    (root / "a.txt").write_bytes(b"user\n")
    again = open_review(review.session, ENVIRON)
    again.close()

    assert again.changes.changes == ()


def test_a_resumed_session_finds_the_blobs_of_its_older_lower_snapshot(root: Path) -> None:
    taken(root)
    (root / "a.txt").write_bytes(b"the user's")
    commit(root, "of the user")
    git(root, "update-index", "--index-version", "4")
    one = taken(root, touched=(PriorChanges(paths=frozenset((b"a.txt",))),))

    assert one.content(0, b"a.txt") == b"more\n"


def test_a_resumed_session_finds_blobs_despite_additional_object_stores(root: Path) -> None:
    inner = repository(root / "inner")
    (inner / "a.txt").write_bytes(b"of the inner one\n")
    commit(inner, "another")
    make_indexes_newer(inner)
    taken(root)
    make_indexes_newer(repository(root / "before"))
    (root / "inner/a.txt").write_bytes(b"the user's")
    one = taken(root, touched=(PriorChanges(paths=frozenset((b"inner/a.txt",))),))

    assert (one.content(0, b"inner/a.txt"), one.content(0, b"before/a.txt")) == (b"of the inner one\n", b"more\n")


def test_a_replace_ref_does_not_replace_a_blob(root: Path) -> None:
    one = taken(root)
    git(root, "replace", *(git(root, "rev-parse", f":{name}").strip() for name in ("a.txt", "sub/b.txt")))

    assert one.content(0, b"a.txt") == b"more\n"


def test_a_promised_blob_is_not_fetched(root: Path, tmp_path: Path) -> None:
    planted = make_trap(tmp_path / "traps")
    planted.write_text(planted.read_text().removesuffix("cat\n"))  # git would wait for its output
    oid = git(root, "rev-parse", ":a.txt").strip()
    with open(root / ".git/config", "a", encoding="utf-8") as config:
        config.write("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = x\n")
        config.write(f'[remote "x"]\n\turl = ext::{planted}\n\tpromisor = true\n[protocol "ext"]\n\tallow = always\n')
    one = taken(root)
    (root / ".git/objects" / oid[:2] / oid[2:]).unlink()

    assert one.content(0, b"a.txt") is None
    assert not has_run(planted)
    git(root, "cat-file", "-p", oid, check=False)
    assert has_run(planted)  # git does run it with this configuration


def objects_of(root: Path) -> list[Path]:
    return [path for path in (root / ".git/objects").rglob("*") if path.is_file()]


def damage(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"")


def hang(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


HARMS: dict[str, Callable[[Path], None]] = {"gone": Path.unlink, "damaged": damage, "a FIFO": hang}


@pytest.mark.parametrize("how", HARMS)
def test_an_unreadable_blob_is_no_base_version(root: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    from agent_dev.git import blob_reader

    monkeypatch.setattr(blob_reader, "_TIMEOUT", 0.3)
    one = taken(root)
    for path in objects_of(root):
        HARMS[how](path)
    begun = time.monotonic()

    assert one.content(0, b"a.txt") is None
    assert time.monotonic() - begun < 10
    one.close()


def test_a_blob_that_does_not_match_its_id_is_no_base_version(root: Path) -> None:
    one = taken(root)
    ids = [git(root, "rev-parse", f":{name}").strip() for name in ("a.txt", "sub/b.txt")]
    this, that = (root / ".git/objects" / oid[:2] / oid[2:] for oid in ids)
    this.unlink()
    shutil.copy(that, this)

    assert (one.content(0, b"a.txt"), one.content(0, b"sub/b.txt")) == (None, b"two\n")
    one.close()


def test_many_blobs_are_read_by_one_git_process(root: Path, tmp_path: Path) -> None:
    for number in range(300):
        (root / f"n{number}").write_bytes(b"%d" % number * 1000)
    commit(root, "many")
    make_indexes_newer(root)
    counter = tmp_path / "git"
    counter.write_text(f'#!/bin/sh\necho x >>"{counter}.calls"\nexec {GIT} "$@"\n')
    counter.chmod(0o755)
    one = taken(root, program=str(counter))
    calls = Path(f"{counter}.calls")
    calls.unlink()

    assert [one.content(0, b"n%d" % number) for number in range(300)] == [b"%d" % number * 1000 for number in range(300)]
    one.close()
    assert calls.read_text() == "x\n"


def test_a_further_root_with_git_is_queried_too(root: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other")
    make_indexes_newer(other)
    one = taken(root, roots=(str(root), str(other)))

    assert is_in_index(one, 1, b"sub/b.txt")
    assert one.content(1, b"sub/b.txt") == b"two\n"
    one.close()


# --- hangs and failures ---


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".git/info/exclude", ".git/info/attributes"])
def test_a_fifo_read_by_git_does_not_block(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(lower_snapshot_git, "_SECONDS", 0.3)
    (root / name).unlink(missing_ok=True)
    (root / name).parent.mkdir(exist_ok=True)
    os.mkfifo(root / name)
    one = taken(root)
    before = files_of(root)
    (root / "a.txt").write_bytes(b"user\n")

    assert one.is_complete
    assert one.content(0, b"a.txt") == before["a.txt"]
    one.close()


def test_a_cancelled_lower_snapshot_ends_its_git_process(root: Path, tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\necho $$ >"{marker}.new"\nmv "{marker}.new" "{marker}"\nexec cat "{slow}.fifo"\n')
    slow.chmod(0o755)
    os.mkfifo(f"{slow}.fifo")
    pid = lower_snapshot_process.start(
        f"{root.parent}/base", SnapshotRequest(roots=(str(root),), git=f"{root}/.git", program=str(slow), environ=ENVIRON)
    )
    until = time.monotonic() + 20
    while not marker.exists():
        assert time.monotonic() < until
    lower_snapshot_process.cancel(pid)
    while is_alive(int(marker.read_text())):
        assert time.monotonic() < until


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_unreadable_file_has_no_content_and_stops_nothing() -> None:
    def act() -> None:
        root = repository(place / "root")
        (root / "untracked").write_bytes(b"x")
        (root / "untracked").chmod(0)
        (root / "a.txt").write_bytes(b"edited\n")
        (root / "a.txt").chmod(0)
        (root / "sub/b.txt").chmod(0)
        one = taken(root)
        reported = {name: one.content(0, os.fsencode(name)) for name in ("untracked", "a.txt")}

        assert reported == {"untracked": None, "a.txt": None}
        assert one.is_complete

    with ordinary_users_directory() as place:
        call_as_ordinary_user(act)


def test_a_directory_moved_during_the_snapshot_marks_it_incomplete(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "sub/deep").mkdir()
    place = lower_snapshot_walk._record

    def move_first(
        taking: lower_snapshot_walk.RootSnapshot,
        found: WalkedEntry,
        tracked: lower_snapshot_git.TrackedFile | None,
        names: list[str] | None,
    ) -> RecordedPath:
        if found.path == b"sub/deep":
            (root / "sub/deep").rename(root / "elsewhere")
            (root / "other").mkdir()
            (root / "sub").rename(root / "other/sub")
        return place(taking, found, tracked, names)

    monkeypatch.setattr(lower_snapshot_walk, "_record", move_first)
    one = taken(root)

    assert (one.exists(), one.is_complete) == (True, False)
    assert b"a.txt" in one.entries(0)
    assert "was moved while" in one.notes[0]


def test_programs_configured_in_a_nested_repository_are_not_run(root: Path, tmp_path: Path) -> None:
    planted = make_trap(tmp_path / "traps")
    inner = repository(root / "inner")
    with open(inner / ".git/config", "a", encoding="utf-8") as config:
        config.write(f"[core]\n\tfsmonitor = {planted}\n\tsshCommand = {planted}\n[alias]\n\tls-files = !{planted}\n")
    taken(root)

    assert not has_run(planted)
