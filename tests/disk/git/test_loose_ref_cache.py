"""Thousands of loose refs are cached: the next start does not read them again, and still has every change that git made since."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_dev.git import loose_ref_cache, object_links, private_copy
from agent_dev.git.private_copy import CopyRequest
from tests.harness.repository import git, repository
from tests.harness.scale import seeded_random

MANY = loose_ref_cache.MIN_LOOSE_REFS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a repository with many branches, loose and in directories."""
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
    """Set the clock forward, so that no ref counts as too recent for the cache."""
    clock = SimpleNamespace(time_ns=lambda: time.time_ns() + 2 * loose_ref_cache.MIN_AGE_NS)
    monkeypatch.setattr("agent_dev.git.loose_ref_cache.time", clock)


def wait_for_a_tick(git_dir: Path, folder: Path) -> None:
    """Wait until the file system's clock has advanced past the newest ref; outside the tests, MIN_AGE_NS ensures this."""
    newest = max(path.stat().st_ctime_ns for path in (git_dir, *git_dir.glob("refs/**/")))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        (folder / "tick").write_text("")
        if (folder / "tick").stat().st_mtime_ns > newest:
            return
    raise AssertionError("time stands still")


@pytest.fixture
def start(root: Path, tmp_path: Path) -> Callable[[], Path]:
    """Return a function that creates a private copy, as the start of a session does, and returns its path."""
    numbers: Iterator[int] = iter(range(10_000))

    def starts() -> Path:
        wait_for_a_tick(root / ".git", tmp_path)
        place = tmp_path / f"session{next(numbers)}"
        place.mkdir()
        wanted = CopyRequest(str(root / ".git"), str(place / "copy"), str(place / "farm"), "0", cache_dir=str(tmp_path / "cache"))
        private_copy.create_private_copy(wanted, "")
        return place / "copy"

    return starts


def refs(git_dir: Path) -> dict[str, str]:
    """Return all refs, read from the files: git needs objects, and the copy's are elsewhere."""
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

    monkeypatch.setattr(object_links, "read_small_files", never)


def test_the_next_start_reads_the_same_refs_from_the_cache(
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


def test_recently_moved_refs_are_not_cached(start: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_refs_moved_by_git_are_seen_at_the_next_start(root: Path, start: Callable[[], Path], words: tuple[str, ...]) -> None:
    start()
    git(root, *words)
    expected = refs(root / ".git")

    assert refs(start()) == expected
    assert refs(start()) == expected


def test_the_current_branch_is_read_at_every_start(root: Path, start: Callable[[], Path]) -> None:
    start()
    other = git(root, "rev-parse", "HEAD~1").strip()
    place = root / ".git/refs/heads/main"
    with place.open("r+") as file:  # written in place: no mtime of a directory changes
        file.write(f"{other}\n")

    assert refs(start())["refs/heads/main"] == other


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"marks": 1, "packed": 2, "apart": 3}', b'{"marks": [], "packed": 1}'])
def test_a_torn_cache_is_read_again(root: Path, start: Callable[[], Path], tmp_path: Path, text: bytes) -> None:
    start()
    (kept,) = (tmp_path / "cache/refs").iterdir()
    kept.write_bytes(text)

    assert refs(start()) == refs(root / ".git")


def test_a_cache_writable_by_others_is_not_trusted(root: Path, start: Callable[[], Path], tmp_path: Path) -> None:
    start()
    (kept,) = (tmp_path / "cache/refs").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b"refs/heads/b2", b"refs/heads/x2"))
    kept.chmod(0o666)

    assert refs(start()) == refs(root / ".git")


def test_the_number_of_cached_repositories_is_bounded(start: Callable[[], Path], tmp_path: Path) -> None:
    folder = tmp_path / "cache/refs"
    folder.mkdir(parents=True)
    for number in range(50):
        (folder / f"old{number}").write_text("{}")
    start()

    assert len(list(folder.iterdir())) == loose_ref_cache._MAX_REPOSITORIES


def test_random_ref_updates_between_starts_are_all_seen(root: Path, start: Callable[[], Path]) -> None:
    chance = seeded_random()
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
