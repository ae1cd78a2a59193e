from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.merge.forerunner_world import World, world_below


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_below(tmp_path) as made:
        yield made
