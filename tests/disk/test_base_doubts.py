"""Where a base cannot know for certain: early edits and deletions, damaged objects, what hangs git."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.merge.review import open_review
from agent_dev.overlay import lower_snapshot_git as base_git
from agent_dev.overlay import lower_snapshot_take as base_take
from agent_dev.overlay import lower_snapshot_walk as base_walk
from agent_dev.overlay.changes import Kind
from agent_dev.overlay.interpret import Found
from agent_dev.overlay.lower_snapshot import Base
from agent_dev.overlay.lower_snapshot_take import Touched, Wish
from tests.harness import trees
from tests.harness.early import GIT, Early
from tests.harness.kinds import age, files_of
from tests.harness.repository import ENVIRON, commit, git, has_run, repository, trap
from tests.harness.trees import Mark, Node
from tests.harness.users import as_ordinary, open_place

FILE, SYMLINK, DIRECTORY = trees.FILE, trees.SYMLINK, trees.DIRECTORY


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = repository(tmp_path / "root")
    (root / "link").symlink_to("a.txt")
    commit(root, "third")
    age(root)
    return root


def taken(root: Path, **more: object) -> Base:
    values: dict[str, object] = {"roots": (str(root),), "git": f"{root}/.git", "program": GIT, "environ": ENVIRON}
    base_take.take(f"{root.parent}/base", Wish(**{**values, **more}))  # type: ignore[arg-type]
    return Base(f"{root.parent}/base")


def remove(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def nothing(_: Path) -> None:
    return


# --- what the user removed before the base came by ---


def test_an_early_deletion_is_no_addition_of_the_agents(root: Path) -> None:
    (change,) = Early(root, remove("a.txt"), [Mark(b"a.txt", Node(FILE, b"agent\n"))]).changes().values()

    assert (change.kind, change.conflict) == (Kind.EDITED, "you deleted it, the agent changed it")


def test_of_an_early_deletion_git_tells_what_was_there(root: Path) -> None:
    review = Early(root, remove("a.txt"), [Mark(b"a.txt", Node(FILE, b"agent\n"))]).review()

    assert review.content(review.changes.changes[0].key) == (b"more\n", b"agent\n")
    review.close()


def test_what_the_agent_only_opened_is_no_change_after_an_early_deletion(root: Path) -> None:
    assert Early(root, remove("a.txt"), [Mark(b"a.txt", Node(FILE, b"more\n"))]).changes() == {}


def test_an_early_deletion_by_both_leaves_nothing_to_merge(root: Path) -> None:
    assert Early(root, remove("a.txt"), [Mark(b"a.txt", None)]).changes() == {}


def test_an_early_deletion_of_a_directory_is_told(root: Path) -> None:
    marks = [Mark(b"sub", Node(DIRECTORY, mode=0o755)), Mark(b"sub/b.txt", Node(FILE, b"agent\n"))]
    found = Early(root, lambda root: shutil.rmtree(root / "sub"), marks).changes()

    assert {path: change.kind for path, change in found.items()} == {b"sub/b.txt": Kind.EDITED}
    assert found[b"sub/b.txt"].conflict == "sub was removed meanwhile"


def test_of_an_early_deletion_of_a_link_git_tells_where_it_pointed(root: Path) -> None:
    (change,) = Early(root, remove("link"), [Mark(b"link", Node(SYMLINK, b"elsewhere"))]).changes().values()

    assert change.before is not None
    assert (change.kind, change.before.target, change.conflict) == (Kind.EDITED, b"a.txt", "you deleted it, the agent changed it")


def test_what_was_gone_before_the_start_is_an_addition_of_the_agents(root: Path) -> None:
    (root / "sub/b.txt").unlink()
    marks = [Mark(b"sub", Node(DIRECTORY, mode=0o755)), Mark(b"sub/b.txt", Node(FILE, b"agent\n"))]
    (change,) = Early(root, remove("link"), marks).changes().values()

    assert (change.kind, change.conflict) == (Kind.ADDED, None)


def test_what_a_sparse_checkout_leaves_out_is_an_addition_of_the_agents(root: Path) -> None:
    git(root, "sparse-checkout", "set", "--no-cone", "/*", "!/a.txt")
    (change,) = Early(root, remove("link"), [Mark(b"a.txt", Node(FILE, b"agent\n"))]).changes().values()

    assert (change.kind, change.conflict) == (Kind.ADDED, None)


def test_of_an_early_deletion_a_filter_hides_what_was_there(root: Path) -> None:
    (root / ".gitattributes").write_text("a.txt filter=any\n")
    review = Early(root, remove("a.txt"), [Mark(b"a.txt", Node(FILE, b"agent\n"))]).review()

    assert review.content(review.changes.changes[0].key) == (None, b"agent\n")
    review.close()


def test_an_early_edit_is_a_conflict_without_a_base(root: Path) -> None:
    early = Early(root, lambda root: (root / "a.txt").write_bytes(b"USER\n"), [Mark(b"a.txt", Node(FILE, b"agent\n"))])
    review = early.review()
    (change,) = review.changes.changes

    assert change.conflict == "its bytes are not known on every side"
    assert review.content(change.key) == (None, b"agent\n")
    review.close()


# --- what is there once the lower moved ---


def test_what_the_agent_only_opened_is_no_change_though_the_user_edited_it(root: Path) -> None:
    early = Early(root, nothing, [Mark(b"a.txt", Node(FILE, b"more\n", (root / "a.txt").stat().st_mode & 0o777))])
    review = early.review()
    review.close()
    (root / "a.txt").write_bytes(b"user\n")
    again = open_review(review.session, ENVIRON)
    again.close()

    assert again.changes.changes == ()


def test_a_resumed_session_finds_the_blobs_of_its_older_base(root: Path) -> None:
    taken(root)
    (root / "a.txt").write_bytes(b"the user's")
    commit(root, "of the user")
    git(root, "update-index", "--index-version", "4")
    one = taken(root, touched=(Touched(paths=frozenset((b"a.txt",))),))

    assert one.content(0, b"a.txt") == b"more\n"


def test_a_resumed_session_finds_them_though_there_are_more_object_stores_now(root: Path) -> None:
    inner = repository(root / "inner")
    (inner / "a.txt").write_bytes(b"of the inner one\n")
    commit(inner, "another")
    age(inner)
    taken(root)
    age(repository(root / "before"))
    (root / "inner/a.txt").write_bytes(b"the user's")
    one = taken(root, touched=(Touched(paths=frozenset((b"inner/a.txt",))),))

    assert (one.content(0, b"inner/a.txt"), one.content(0, b"before/a.txt")) == (b"of the inner one\n", b"more\n")


def test_a_replaced_blob_is_not_taken_for_its_replacement(root: Path) -> None:
    one = taken(root)
    git(root, "replace", *(git(root, "rev-parse", f":{name}").strip() for name in ("a.txt", "sub/b.txt")))

    assert one.content(0, b"a.txt") == b"more\n"


def test_a_blob_that_was_only_promised_is_not_fetched(root: Path, tmp_path: Path) -> None:
    planted = trap(tmp_path / "traps")
    planted.write_text(planted.read_text().removesuffix("cat\n"))  # which git would wait for
    oid = git(root, "rev-parse", ":a.txt").strip()
    with open(root / ".git/config", "a", encoding="utf-8") as config:
        config.write("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = x\n")
        config.write(f'[remote "x"]\n\turl = ext::{planted}\n\tpromisor = true\n[protocol "ext"]\n\tallow = always\n')
    one = taken(root)
    (root / ".git/objects" / oid[:2] / oid[2:]).unlink()

    assert one.content(0, b"a.txt") is None
    assert not has_run(planted)
    git(root, "cat-file", "-p", oid, check=False)
    assert has_run(planted)  # it was set as git heeds it


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
def test_a_blob_that_cannot_be_read_is_no_base(root: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    from agent_dev.git import blob_reader as blobs

    monkeypatch.setattr(blobs, "_SECONDS", 0.3)
    one = taken(root)
    for path in objects_of(root):
        HARMS[how](path)
    begun = time.monotonic()

    assert one.content(0, b"a.txt") is None
    assert time.monotonic() - begun < 10
    one.close()


def test_a_blob_of_other_bytes_than_its_name_says_is_no_base(root: Path) -> None:
    one = taken(root)
    ids = [git(root, "rev-parse", f":{name}").strip() for name in ("a.txt", "sub/b.txt")]
    this, that = (root / ".git/objects" / oid[:2] / oid[2:] for oid in ids)
    this.unlink()
    shutil.copy(that, this)

    assert (one.content(0, b"a.txt"), one.content(0, b"sub/b.txt")) == (None, b"two\n")
    one.close()


def test_many_blobs_are_read_by_one_git(root: Path, tmp_path: Path) -> None:
    for number in range(300):
        (root / f"n{number}").write_bytes(b"%d" % number * 1000)
    commit(root, "many")
    age(root)
    counter = tmp_path / "git"
    counter.write_text(f'#!/bin/sh\necho x >>"{counter}.calls"\nexec {GIT} "$@"\n')
    counter.chmod(0o755)
    one = taken(root, program=str(counter))
    calls = Path(f"{counter}.calls")
    calls.unlink()

    assert [one.content(0, b"n%d" % number) for number in range(300)] == [b"%d" % number * 1000 for number in range(300)]
    one.close()
    assert calls.read_text() == "x\n"


def test_a_further_root_with_git_is_asked_too(root: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other")
    age(other)
    one = taken(root, roots=(str(root), str(other)))

    assert one.is_in_index(1, b"sub/b.txt")
    assert one.content(1, b"sub/b.txt") == b"two\n"
    one.close()


# --- what may hang or fail ---


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".git/info/exclude", ".git/info/attributes"])
def test_a_fifo_that_git_would_read_holds_nothing_up(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(base_git, "_SECONDS", 0.3)
    (root / name).unlink(missing_ok=True)
    (root / name).parent.mkdir(exist_ok=True)
    os.mkfifo(root / name)
    one = taken(root)
    before = files_of(root)
    (root / "a.txt").write_bytes(b"user\n")

    assert one.is_complete
    assert one.content(0, b"a.txt") == before["a.txt"]
    one.close()


def test_a_cancelled_base_takes_its_git_with_it(root: Path, tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\necho $$ >"{marker}.new"\nmv "{marker}.new" "{marker}"\nexec cat "{slow}.fifo"\n')
    slow.chmod(0o755)
    os.mkfifo(f"{slow}.fifo")
    pid = base_take.begin(f"{root.parent}/base", Wish(roots=(str(root),), git=f"{root}/.git", program=str(slow), environ=ENVIRON))
    until = time.monotonic() + 20
    while not marker.exists():
        assert time.monotonic() < until
    base_take.cancel(pid)
    while is_alive(int(marker.read_text())):
        assert time.monotonic() < until


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_unreadable_file_has_no_bytes_and_stops_nothing() -> None:
    def act() -> None:
        root = repository(place / "root")
        (root / "untracked").write_bytes(b"x")
        (root / "untracked").chmod(0)
        (root / "a.txt").write_bytes(b"edited\n")
        (root / "a.txt").chmod(0)
        (root / "sub/b.txt").chmod(0)
        one = taken(root)
        told = {name: one.content(0, os.fsencode(name)) for name in ("untracked", "a.txt")}

        assert told == {"untracked": None, "a.txt": None}
        assert one.is_complete

    with open_place() as place:
        as_ordinary(act)


def test_a_directory_that_moves_while_it_is_taken_leaves_a_base_that_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "sub/deep").mkdir()
    place = base_walk._placed

    def move_first(taking: base_walk.Taking, found: Found) -> base_walk.Placed:
        if found.path == b"sub/deep":
            (root / "sub/deep").rename(root / "elsewhere")
            (root / "other").mkdir()
            (root / "sub").rename(root / "other/sub")
        return place(taking, found)

    monkeypatch.setattr(base_walk, "_placed", move_first)
    one = taken(root)

    assert (one.is_known(), one.is_complete) == (True, False)
    assert b"a.txt" in one.entries(0)
    assert "was moved while" in one.notes[0]


def test_programs_named_in_a_nested_repository_are_not_run(root: Path, tmp_path: Path) -> None:
    planted = trap(tmp_path / "traps")
    inner = repository(root / "inner")
    with open(inner / ".git/config", "a", encoding="utf-8") as config:
        config.write(f"[core]\n\tfsmonitor = {planted}\n\tsshCommand = {planted}\n[alias]\n\tls-files = !{planted}\n")
    taken(root)

    assert not has_run(planted)
