"""Refs by the thousand are read once: the next start has the same ones without a look at each, later ones what git has."""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_dev.git import loose_ref_cache as kept_refs
from agent_dev.git import object_links as farm
from agent_dev.git import private_copy as private_git
from agent_dev.git.private_copy import Wish
from tests.harness.repository import git, repository

MANY = kept_refs.FEWEST


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with many branches, the newest of which is as old as git's times need."""
    place = repository(tmp_path / "root")
    head = git(place, "rev-parse", "HEAD").strip()
    for number in range(MANY):
        path = place / f".git/refs/heads/{'team/' if number % 2 else ''}b{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{head}\n")
    git(place, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    return place


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that was done be long ago when a start begins."""
    clock = SimpleNamespace(time_ns=lambda: time.time_ns() + 2 * kept_refs.REST)
    monkeypatch.setattr("agent_dev.git.loose_ref_cache.time", clock)


def wait_for_a_tick(git_dir: Path, folder: Path) -> None:
    """Let a file system that has coarse times have another one than that of any ref: in earnest that is what REST is for."""
    newest = max(path.stat().st_ctime_ns for path in (git_dir, *git_dir.glob("refs/**/")))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        (folder / "tick").write_text("")
        if (folder / "tick").stat().st_mtime_ns > newest:
            return
    raise AssertionError("time stands still")


@pytest.fixture
def start(root: Path, tmp_path: Path) -> Callable[[], Path]:
    """Make a twin as a start does; return it."""
    numbers: Iterator[int] = iter(range(10_000))

    def starts() -> Path:
        wait_for_a_tick(root / ".git", tmp_path)
        place = tmp_path / f"session{next(numbers)}"
        place.mkdir()
        wish = Wish(str(root / ".git"), str(place / "copy"), str(place / "farm"), "0", cache=str(tmp_path / "cache"))
        private_git.make(wish, "")
        return place / "copy"

    return starts


def refs(git_dir: Path) -> dict[str, str]:
    """Return all refs, read here: the twin's objects are elsewhere."""
    found = {}
    packed = git_dir / "packed-refs"
    for line in packed.read_text().splitlines() if packed.exists() else ():
        if line[0] not in "#^":
            value, _, name = line.partition(" ")
            found[name] = value
    loose = [path for path in (git_dir / "refs").rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    return found | {str(path.relative_to(git_dir)): path.read_text().strip() for path in loose}


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(folder: str, names: list[str]) -> dict[str, bytes]:
        raise AssertionError(folder, len(names))

    monkeypatch.setattr(farm, "read_files", never)


def test_the_next_start_has_the_same_refs_and_reads_none(
    root: Path, start: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start()
    forbid(monkeypatch)
    second = start()

    assert refs(first) == refs(second) == refs(root / ".git")
    assert (second / "refs/heads/alias").read_text() == "ref: refs/heads/main\n"


def test_few_refs_are_read_every_time(root: Path, start: Callable[[], Path], tmp_path: Path) -> None:
    shutil.rmtree(root / ".git/refs/heads/team")
    start()
    assert not (tmp_path / "cache").exists()


def test_refs_that_moved_just_now_are_not_kept(
    start: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    start()
    assert not (tmp_path / "cache").exists()


MOVES = {
    "a new one": ("branch", "team/new"),
    "a new one in a new directory": ("branch", "another/new"),
    "one that moved": ("update-ref", "refs/heads/b2", "HEAD~1"),
    "one that moved below": ("update-ref", "refs/heads/team/b1", "HEAD~1"),
    "one that is gone": ("update-ref", "-d", "refs/heads/team/b3"),
    "all of them packed": ("pack-refs", "--all"),
    "one that leads elsewhere": ("symbolic-ref", "refs/heads/alias", "refs/heads/b4"),
    "a tag": ("tag", "-a", "-m", "tag", "v1"),
}


@pytest.mark.parametrize("words", MOVES.values(), ids=MOVES)
def test_what_git_moves_is_seen_at_the_next_start(root: Path, start: Callable[[], Path], words: tuple[str, ...]) -> None:
    start()
    git(root, *words)
    expected = refs(root / ".git")

    assert refs(start()) == expected
    assert refs(start()) == expected


def test_the_current_branch_is_read_at_every_start(root: Path, start: Callable[[], Path]) -> None:
    start()
    other = git(root, "rev-parse", "HEAD~1").strip()
    place = root / ".git/refs/heads/main"
    with place.open("r+") as file:  # in place: no directory tells
        file.write(f"{other}\n")

    assert refs(start())["refs/heads/main"] == other


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"marks": 1, "packed": 2, "apart": 3}', b'{"marks": [], "packed": 1}'])
def test_what_is_kept_and_torn_is_read_again(root: Path, start: Callable[[], Path], tmp_path: Path, text: bytes) -> None:
    start()
    (kept,) = (tmp_path / "cache/refs").iterdir()
    kept.write_bytes(text)

    assert refs(start()) == refs(root / ".git")


def test_what_others_could_write_is_not_believed(root: Path, start: Callable[[], Path], tmp_path: Path) -> None:
    start()
    (kept,) = (tmp_path / "cache/refs").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b"refs/heads/b2", b"refs/heads/x2"))
    kept.chmod(0o666)

    assert refs(start()) == refs(root / ".git")


def test_no_more_than_some_repositories_are_kept(start: Callable[[], Path], tmp_path: Path) -> None:
    folder = tmp_path / "cache/refs"
    folder.mkdir(parents=True)
    for number in range(50):
        (folder / f"old{number}").write_text("{}")
    start()

    assert len(list(folder.iterdir())) == kept_refs._MOST


def test_random_moves_between_starts_are_all_seen(root: Path, start: Callable[[], Path]) -> None:
    seed = int(os.environ.get("AGENT_DEV_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"AGENT_DEV_TEST_SEED={seed}")  # noqa: T201  (shown when it fails)
    chance = random.Random(seed)  # noqa: S311  (no secret)
    commits = [git(root, "rev-parse", name).strip() for name in ("HEAD", "HEAD~1")]
    for _ in range(12):
        name = f"refs/heads/{chance.choice(('', 'team/', 'deep/er/'))}b{chance.randrange(MANY)}"
        match chance.randrange(5):
            case 0:
                git(root, "pack-refs", "--all")
            case 1:
                git(root, "update-ref", "-d", name)
            case 2:
                pass
            case _:
                git(root, "update-ref", name, chance.choice(commits))
        assert refs(start()) == refs(root / ".git")
