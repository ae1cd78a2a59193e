"""What tests on a real disk share."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.host import load
from tests.disk.load_world import User


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
