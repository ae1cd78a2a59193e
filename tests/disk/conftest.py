"""What tests on a real disk share."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_dev.config import load
from agent_dev.merge.review import Review
from tests.disk.bring_world import graces_repository
from tests.disk.load_world import User
from tests.harness.git_session import GitSession
from tests.harness.settling import reviews


@pytest.fixture
def abyss(tmp_path: Path) -> Iterator[Path]:
    """A directory for trees so deep that Python's own rmtree, and so pytest's tidying, would fail on them."""
    place = tmp_path / "abyss"
    place.mkdir()
    yield place
    subprocess.run(["rm", "-rf", str(place)], check=True)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """A home with configuration files, of which none counts as too young to be kept."""
    monkeypatch.setattr(load, "_COARSEST_CLOCK", -(10**12))  # what a test has just written counts as old
    return User(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Grace's repository; some modules have another."""
    return graces_repository(tmp_path / "root")


@pytest.fixture
def session(tmp_path: Path, root: Path) -> Iterator[GitSession]:
    """A session of an agent's in the module's repository."""
    with GitSession(tmp_path, root) as made:
        yield made


@pytest.fixture
def review(session: GitSession) -> Iterator[Callable[[], Review]]:
    """Opens the review of that session."""
    with reviews(session) as opens:
        yield opens
