"""Backups of a directory: each equals its source, hard-links unchanged files to the last backup, and is complete or absent."""

import errno
import fcntl
import os
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from agent_dev.backup import backup_store
from agent_dev.backup.backup_store import Backup, BackupSpec
from agent_dev.errors import BackupBusy, BackupFailed
from agent_dev.fs import copytree, durable
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import Entry
from agent_dev.snapshot_retention import RetentionLimits
from tests.harness.program import tree
from tests.harness.scale import repeat, seeded_random

ROUNDS = repeat(12)
MINUTE = 60 * 10**9


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "sub" / "deep").mkdir(parents=True)
    (source / "a").write_text("a\n")
    (source / "sub" / "b").write_text("b\n")
    (source / "sub" / "deep" / "run").write_text("#!/bin/sh\n")
    (source / "sub" / "deep" / "run").chmod(0o755)
    (source / "link").symlink_to("sub/b")
    (source / os.fsdecode(b"odd\n\xff")).write_text("odd\n")
    os.mkfifo(source / "fifo")
    (source / "shut").mkdir(0o555)
    wait_for_clock(source)
    return source


def wait_for_clock(source: Path) -> None:
    """Wait until every ctime below the source is old enough to be trusted, by the clock of its file system."""
    marker = source.parent / "marker"
    newest = max(path.lstat().st_ctime_ns for path in [source, *source.rglob("*")])
    while True:
        marker.write_bytes(b"")
        if marker.stat().st_ctime_ns > newest + 30_000_000:
            return
        marker.unlink()


def back_up(source: Path, *excludes: str) -> Backup | None:
    return backup_store.make_backup(
        BackupSpec(str(source), str(source.parent / "target"), backup_store.load_rules(str(source), excludes))
    )


def made(backup: Backup | None) -> Backup:
    assert backup is not None
    return backup


def content(folder: str | Path) -> dict[str, str]:
    """Return a tree without the mode of its root: agent-dev sets the mode of a backup's root."""
    return {path: entry for path, entry in tree(Path(folder)).items() if path != "."}


def test_a_backup_equals_its_source(source: Path) -> None:
    backup = made(back_up(source))
    assert content(backup.path) == content(source)
    assert (backup.files, backup.linked, backup.problems) == (4, 0, ())
    assert (Path(backup.path) / "a").stat().st_mtime_ns == (source / "a").stat().st_mtime_ns
    assert sorted(path.name for path in Path(backup.path).parent.iterdir()) == [backup_store.METADATA_FOLDER, backup.name]


def test_without_changes_no_backup_is_written(source: Path) -> None:
    back_up(source)
    before = tree(source.parent / "target")
    assert back_up(source) is None
    assert tree(source.parent / "target") == before


def test_a_backup_whose_metadata_is_damaged_is_as_old_as_its_name_says(source: Path) -> None:
    backup = made(back_up(source))
    Path(source.parent / "target" / backup_store.METADATA_FOLDER / f"{backup.name}.json").write_bytes(b"")
    [found] = backup_store.list_backups(str(source.parent / "target"))
    assert found.time == backup.time // 10**9 * 10**9  # otherwise it would be pruned before all others


def test_unchanged_files_are_hard_linked_to_the_last_backup_not_the_source(source: Path) -> None:
    first = made(back_up(source))
    with (source / "a").open("a") as file:
        file.write("more\n")
    second = made(back_up(source))
    assert (second.linked, second.copied) == (3, 7)
    inodes = [(Path(place) / "sub" / "b").stat().st_ino for place in (first.path, second.path, source)]
    assert inodes[0] == inodes[1] != inodes[2]
    assert (Path(first.path) / "a").read_text() == "a\n"


@pytest.mark.parametrize(
    "change",
    [
        "printf x >a; touch -d @1000 a",
        "chmod 600 a",
        "rm sub/b",
        "rm -r sub",
        "mkdir new",
        "ln -sf a link",
        "rm a; mkdir a",
        "setfattr -n user.note -v x a",
        "touch -d @5 a",
        "mv sub moved",
        "chmod 700 sub",
    ],
)
def test_every_kind_of_change_causes_a_backup(source: Path, change: str) -> None:
    back_up(source)
    subprocess.run(["sh", "-ec", change], cwd=source, check=True)
    assert content(made(back_up(source)).path) == content(source)


def test_an_edit_with_the_same_size_and_time_is_detected(source: Path) -> None:
    back_up(source)
    status = (source / "a").stat()
    (source / "a").write_text("b\n")
    os.utime(source / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (Path(made(back_up(source)).path) / "a").read_text() == "b\n"


def test_an_edit_during_a_backup_is_detected_by_the_next(source: Path) -> None:
    (source / "a").write_text("1\n")
    status = (source / "a").stat()
    back_up(source)
    (source / "a").write_text("2\n")
    os.utime(source / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (Path(made(back_up(source)).path) / "a").read_text() == "2\n"


def test_a_new_hard_link_copies_no_other_content(source: Path) -> None:
    back_up(source)
    os.link(source / "a", source / "twin")  # a new hard link changes the ctime of the shared inode
    second = made(back_up(source))
    assert (second.linked, second.copied) == (4, 2)


def test_a_modified_backup_is_not_reused(source: Path) -> None:
    first = made(back_up(source))
    (Path(first.path) / "a").write_text("meddled with\n")
    (source / "new").write_text("new\n")
    assert content(made(back_up(source)).path) == content(source)


def test_without_its_index_contents_are_compared(source: Path) -> None:
    first = made(back_up(source))
    (source.parent / "target" / backup_store.METADATA_FOLDER / f"{first.name}.json").write_text("{")
    assert back_up(source) is None


def test_an_interrupted_backup_is_ignored_and_removed(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back_up(source)
    (source / "new").write_text("x")
    calls = iter(range(4))

    def full(call: str, _words: tuple[object, ...]) -> None:
        if call in ("create", "link") and next(calls, None) is None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "hook", full)
    with pytest.raises(BackupFailed, match="No space left"):
        back_up(source)
    target = source.parent / "target"
    assert [path.name for path in target.iterdir() if path.name.endswith("-partial")]
    assert len(backup_store.list_backups(str(target))) == 1
    monkeypatch.setattr(durable, "hook", None)
    second = made(back_up(source))
    assert not [path.name for path in target.iterdir() if path.name.endswith("-partial")]
    assert content(second.path) == content(source)


def test_two_backups_never_write_to_one_target_concurrently(source: Path) -> None:
    back_up(source)
    with (source.parent / "target" / backup_store.METADATA_FOLDER / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BackupBusy):
            back_up(source)


def test_a_target_holds_backups_of_one_directory_only(source: Path, tmp_path: Path) -> None:
    back_up(source)
    (tmp_path / "other").mkdir()
    with pytest.raises(BackupFailed, match="holds backups of"):
        backup_store.make_backup(BackupSpec(str(tmp_path / "other"), str(tmp_path / "target")))


def test_user_patterns_exclude_and_reinclude_paths(source: Path) -> None:
    (source / backup_store.IGNORE_FILE).write_text("/sub/deep\n*.log\n!keep.log\nfifo\n")
    for name in ("x.log", "keep.log", "cache"):
        (source / name).write_text("x")
    backup = made(back_up(source, "cache"))
    names = set(content(backup.path))
    assert {"keep.log", "sub/b", backup_store.IGNORE_FILE} <= names
    assert not names & {"x.log", "cache", "sub/deep", "sub/deep/run", "fifo"}


def test_a_symlink_as_pattern_file_is_not_read(source: Path) -> None:
    (source.parent / "list").write_text("a\n")
    (source / backup_store.IGNORE_FILE).symlink_to(source.parent / "list")
    assert "a" in content(made(back_up(source)).path)


def test_a_file_changing_during_its_copy_is_included_and_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copytree.Copier.copy

    def moving(copier: copytree.Copier, path: bytes, entry: Entry) -> bool:
        done = copy(copier, path, entry)
        if path == b"a":
            with (source / "a").open("a") as file:
                file.write("more\n")
        return done

    monkeypatch.setattr(copytree.Copier, "copy", moving)
    backup = made(back_up(source))
    assert backup.problems == ("a: it kept changing while it was copied",)
    assert (Path(backup.path) / "a").read_text() == "a\nmore\nmore\n"


def test_an_unreadable_file_causes_no_backup_until_it_is_readable(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, unreadable = Tree.open, {b"a"}

    def opened(tree: Tree, path: bytes, flags: int) -> int:
        if tree.path == str(source) and path in unreadable:
            raise PermissionError(errno.EACCES, "Permission denied", os.fsdecode(path))  # root may read any file
        return real(tree, path, flags)

    monkeypatch.setattr(Tree, "open", opened)
    wait_for_clock(source)
    assert made(back_up(source)).problems == ("a: Permission denied",)
    assert [back_up(source), back_up(source)] == [None, None]
    unreadable.clear()
    backup = made(back_up(source))
    assert (backup.problems, content(backup.path)) == ((), content(source))


def test_old_backups_are_thinned_and_the_newest_kept(source: Path) -> None:
    for number in range(8):
        (source / "a").write_text(f"{number}\n")
        back_up(source)
    target = str(source.parent / "target")
    names = [one.name for one in backup_store.list_backups(target)]
    gone = backup_store.prune_backups(target, RetentionLimits(5), 5 * MINUTE)
    left = [one.name for one in backup_store.list_backups(target)]
    assert (len(gone), left[-3:], len(left)) == (3, names[-3:], 5)
    assert sorted(path.name for path in Path(target).iterdir()) == sorted([backup_store.METADATA_FOLDER, *left])
    assert (Path(target) / left[-1] / "a").read_text() == "7\n"


def test_after_any_changes_each_backup_equals_its_source(source: Path) -> None:
    rolls = seeded_random()
    names = ["a", "sub/b", "sub/deep/run", "new", "sub/new", "sub"]
    kept: list[tuple[Backup, dict[str, str]]] = []
    for number in range(ROUNDS):
        for _ in range(rolls.randrange(3)):
            name = rolls.choice(names)
            words = [f"echo {number} >{name}", f"rm -rf {name}", f"mkdir -p {name}", f"chmod {rolls.choice((700, 755))} {name}"]
            words += [f"touch {name}", f"ln -sf x {name}", f"mv {name} {rolls.choice(names)}"]
            subprocess.run(["sh", "-c", f"{rolls.choice(words)} 2>/dev/null"], cwd=source, check=False)
        before = kept[-1][1] if kept else {}
        backup = back_up(source)
        assert backup is not None or content(source) == before
        if backup is not None:
            kept.append((backup, content(source)))
    for backup, was in kept:
        assert content(backup.path) == was


def test_exclusions_match_those_of_git(tmp_path: Path) -> None:
    rolls = seeded_random()
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    letters = ("a", "b", "ab", "*", "?", "**", "[ab]", "[!a]", "a*b", "\\a", "[^b]")
    for place in ("a", "b/a", "ab/b/a", "ab/a/b", "b/b/b", "aab/x", "ab/bb"):
        (repo / place).parent.mkdir(parents=True, exist_ok=True)
        if not (repo / place).is_dir():
            (repo / place).write_text("")
    paths = sorted(str(path.relative_to(repo)) for path in repo.rglob("*") if ".git" not in path.parts and path.is_file())
    for _ in range(ROUNDS * 2):
        lines = []
        for _ in range(rolls.randrange(1, 4)):
            body = "/".join(rolls.choice(letters) for _ in range(rolls.randrange(1, 4)))
            lines.append(rolls.choice(("", "", "!")) + rolls.choice(("", "/")) + body + rolls.choice(("", "", "/")))
        (repo / ".gitignore").write_text("\n".join(lines) + "\n")
        (repo / backup_store.IGNORE_FILE).write_text("\n".join(lines) + "\n")
        asked = ["git", "check-ignore", "--no-index", *paths]
        reported = subprocess.run(asked, cwd=repo, capture_output=True, text=True, check=False)
        wanted = BackupSpec(str(repo), str(tmp_path / "target"), backup_store.load_rules(str(repo)), (b".git",))
        backup = backup_store.make_backup(wanted)
        if backup is not None:
            there = set(content(backup.path))
            assert {path for path in paths if path not in there} == set(reported.stdout.split()), lines


def test_a_small_backup_needs_little_memory(source: Path) -> None:
    tracemalloc.start()
    try:
        made(back_up(source))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
