"""What tests on a real disk share."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def abyss(tmp_path: Path) -> Iterator[Path]:
    """A directory for trees so deep that Python's own rmtree, and so pytest's tidying, would fail on them."""
    place = tmp_path / "abyss"
    place.mkdir()
    yield place
    subprocess.run(["rm", "-rf", str(place)], check=True)
