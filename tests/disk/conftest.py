"""Fixtures for tests on a real disk."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_dev.config import load
from agent_dev.merge.review import Review
from tests.disk.commits.import_world import graces_repository
from tests.disk.config.load_world import User
from tests.harness.commit_conflicts import review_opener
from tests.harness.git.git_session import GitSession


@pytest.fixture
def abyss(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory for trees so deep that `shutil.rmtree`, and therefore pytest's cleanup, would fail on them."""
    place = tmp_path / "abyss"
    place.mkdir()
    yield place
    subprocess.run(["rm", "-rf", str(place)], check=True)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """Return a home directory with configuration files; none of them counts as too recent for the cache."""
    monkeypatch.setattr(load, "_COARSEST_CLOCK", -(10**12))  # files that a test has just written count as old
    return User(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create Grace's repository; some modules override this fixture."""
    return graces_repository(tmp_path / "root")


@pytest.fixture
def session(tmp_path: Path, root: Path) -> Iterator[GitSession]:
    """Yield a session in the module's repository."""
    with GitSession(tmp_path, root) as made:
        yield made


@pytest.fixture
def review(session: GitSession) -> Iterator[Callable[[], Review]]:
    """Yield a function that opens a review of the session."""
    with review_opener(session) as opens:
        yield opens
