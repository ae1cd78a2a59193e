"""Backups of a real tree: each is what was there, shares what did not change, and is there whole or not at all."""

import errno
import fcntl
import os
import random
import subprocess
from pathlib import Path

import pytest

from agent_dev.backup import backup_store as backups
from agent_dev.backup.backup_store import Backup, Wish
from agent_dev.checkpoint.restore_plan import Keep
from agent_dev.errors import BackupBusy, BackupFailed
from agent_dev.fs import copytree as copies
from agent_dev.fs import durable as disk
from agent_dev.fs.dir_tree import Tree
from agent_dev.overlay.changes import Entry
from tests.harness.program import tree

ROUNDS = int(os.environ.get("AGENT_DEV_BACKUP_ROUNDS", "12"))
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
    settle(source)
    return source


def settle(source: Path) -> None:
    """Make every time of change old enough to be trusted: a moment goes by for all of them, by the clock of the disk."""
    marker = source.parent / "marker"
    newest = max(path.lstat().st_ctime_ns for path in [source, *source.rglob("*")])
    while True:
        marker.write_bytes(b"")
        if marker.stat().st_ctime_ns > newest + 30_000_000:
            return
        marker.unlink()


def seeded() -> random.Random:
    seed = int(os.environ.get("AGENT_DEV_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"AGENT_DEV_TEST_SEED={seed}")  # noqa: T201  (shown when it fails)
    return random.Random(seed)  # noqa: S311  (no secret)


def back_up(source: Path, *excludes: str) -> Backup | None:
    return backups.take(Wish(str(source), str(source.parent / "target"), backups.rules_of(str(source), excludes)))


def made(backup: Backup | None) -> Backup:
    assert backup is not None
    return backup


def content(folder: str | Path) -> dict[str, str]:
    """Return a tree but for the mode of its root: that of a backup is ours."""
    return {path: entry for path, entry in tree(Path(folder)).items() if path != "."}


def test_a_backup_is_what_was_there(source: Path) -> None:
    backup = made(back_up(source))
    assert content(backup.path) == content(source)
    assert (backup.files, backup.linked, backup.problems) == (4, 0, ())
    assert (Path(backup.path) / "a").stat().st_mtime_ns == (source / "a").stat().st_mtime_ns
    assert sorted(path.name for path in Path(backup.path).parent.iterdir()) == [backups.NOTES, backup.name]


def test_nothing_is_written_when_nothing_changed(source: Path) -> None:
    back_up(source)
    before = tree(source.parent / "target")
    assert back_up(source) is None
    assert tree(source.parent / "target") == before


def test_what_did_not_change_is_shared_with_the_one_before_and_never_with_the_source(source: Path) -> None:
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
def test_every_kind_of_change_makes_a_backup(source: Path, change: str) -> None:
    back_up(source)
    subprocess.run(["sh", "-ec", change], cwd=source, check=True)
    assert content(made(back_up(source)).path) == content(source)


def test_an_edit_that_hides_behind_its_size_and_time_is_seen(source: Path) -> None:
    back_up(source)
    status = (source / "a").stat()
    (source / "a").write_text("b\n")
    os.utime(source / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (Path(made(back_up(source)).path) / "a").read_text() == "b\n"


def test_an_edit_in_the_moment_of_the_backup_is_seen_by_the_next(source: Path) -> None:
    (source / "a").write_text("1\n")
    status = (source / "a").stat()
    back_up(source)
    (source / "a").write_text("2\n")
    os.utime(source / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (Path(made(back_up(source)).path) / "a").read_text() == "2\n"


def test_a_new_name_for_the_same_content_copies_nothing_of_the_others(source: Path) -> None:
    back_up(source)
    os.link(source / "a", source / "twin")  # which moves the time of change of both
    second = made(back_up(source))
    assert (second.linked, second.copied) == (4, 2)


def test_a_backup_that_somebody_changed_is_not_built_upon(source: Path) -> None:
    first = made(back_up(source))
    (Path(first.path) / "a").write_text("meddled with\n")
    (source / "new").write_text("new\n")
    assert content(made(back_up(source)).path) == content(source)


def test_without_its_notes_contents_are_compared(source: Path) -> None:
    first = made(back_up(source))
    (source.parent / "target" / backups.NOTES / f"{first.name}.json").write_text("{")
    assert back_up(source) is None


def test_what_was_cut_short_does_not_count_and_is_removed(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back_up(source)
    (source / "new").write_text("x")
    calls = iter(range(4))

    def full(call: str, _words: tuple[object, ...]) -> None:
        if call in ("create", "link") and next(calls, None) is None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "watcher", full)
    with pytest.raises(BackupFailed, match="No space left"):
        back_up(source)
    target = source.parent / "target"
    assert [path.name for path in target.iterdir() if path.name.endswith("-partial")]
    assert len(backups.listed(str(target))) == 1
    monkeypatch.setattr(disk, "watcher", None)
    second = made(back_up(source))
    assert not [path.name for path in target.iterdir() if path.name.endswith("-partial")]
    assert content(second.path) == content(source)


def test_two_never_write_to_one_place_at_a_time(source: Path) -> None:
    back_up(source)
    with (source.parent / "target" / backups.NOTES / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BackupBusy):
            back_up(source)


def test_a_place_takes_the_backups_of_one_directory_only(source: Path, tmp_path: Path) -> None:
    back_up(source)
    (tmp_path / "other").mkdir()
    with pytest.raises(BackupFailed, match="has those of"):
        backups.take(Wish(str(tmp_path / "other"), str(tmp_path / "target")))


def test_what_the_user_names_is_left_out_and_can_be_taken_back(source: Path) -> None:
    (source / backups.IGNORE).write_text("/sub/deep\n*.log\n!keep.log\nfifo\n")
    for name in ("x.log", "keep.log", "cache"):
        (source / name).write_text("x")
    backup = made(back_up(source, "cache"))
    names = set(content(backup.path))
    assert {"keep.log", "sub/b", backups.IGNORE} <= names
    assert not names & {"x.log", "cache", "sub/deep", "sub/deep/run", "fifo"}


def test_a_list_that_is_a_link_is_not_read(source: Path) -> None:
    (source.parent / "list").write_text("a\n")
    (source / backups.IGNORE).symlink_to(source.parent / "list")
    assert "a" in content(made(back_up(source)).path)


def test_a_file_that_will_not_hold_still_is_there_and_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copies.Copier.copy

    def moving(copier: copies.Copier, path: bytes, entry: Entry) -> bool:
        done = copy(copier, path, entry)
        if path == b"a":
            with (source / "a").open("a") as file:
                file.write("more\n")
        return done

    monkeypatch.setattr(copies.Copier, "copy", moving)
    backup = made(back_up(source))
    assert backup.problems == ("a: it changed while it was copied",)
    assert (Path(backup.path) / "a").read_text() == "a\nmore\nmore\n"


def test_what_cannot_be_read_makes_no_backup_of_its_own_until_it_can(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, shut = Tree.open, {b"a"}

    def opened(tree: Tree, path: bytes, flags: int) -> int:
        if tree.path == str(source) and path in shut:
            raise PermissionError(errno.EACCES, "Permission denied", os.fsdecode(path))  # root may read everything
        return real(tree, path, flags)

    monkeypatch.setattr(Tree, "open", opened)
    settle(source)
    assert made(back_up(source)).problems == ("a: Permission denied",)
    assert [back_up(source), back_up(source)] == [None, None]
    shut.clear()
    backup = made(back_up(source))
    assert (backup.problems, content(backup.path)) == ((), content(source))


def test_old_ones_are_thinned_and_the_newest_stay(source: Path) -> None:
    for number in range(8):
        (source / "a").write_text(f"{number}\n")
        back_up(source)
    target = str(source.parent / "target")
    names = [one.name for one in backups.listed(target)]
    gone = backups.let_go(target, Keep(5), 5 * MINUTE)
    left = [one.name for one in backups.listed(target)]
    assert (len(gone), left[-3:], len(left)) == (3, names[-3:], 5)
    assert sorted(path.name for path in Path(target).iterdir()) == sorted([backups.NOTES, *left])
    assert (Path(target) / left[-1] / "a").read_text() == "7\n"


def test_after_any_changes_each_backup_is_what_was_there(source: Path) -> None:
    rolls = seeded()
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


def test_git_leaves_out_the_same(tmp_path: Path) -> None:
    rolls = seeded()
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
        (repo / backups.IGNORE).write_text("\n".join(lines) + "\n")
        asked = ["git", "check-ignore", "--no-index", *paths]
        told = subprocess.run(asked, cwd=repo, capture_output=True, text=True, check=False)
        wish = Wish(str(repo), str(tmp_path / "target"), backups.rules_of(str(repo)), (b".git",))
        backup = backups.take(wish)
        if backup is not None:
            there = set(content(backup.path))
            assert {path for path in paths if path not in there} == set(told.stdout.split()), lines
