from pathlib import Path

import pytest

from tests.harness.checkpointed_session import CheckpointedSession


@pytest.fixture
def world(tmp_path: Path) -> CheckpointedSession:
    """Return a session with one root; some modules override this fixture."""
    folder = tmp_path / "session"
    folder.mkdir()
    return CheckpointedSession(folder)
