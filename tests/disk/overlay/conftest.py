from pathlib import Path

import pytest

from tests.disk.overlay.snapshot_world import old_repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return old_repository(tmp_path / "root")
