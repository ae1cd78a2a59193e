"""The logs of a session are limited in size and count the dropped lines."""

from pathlib import Path

import pytest

from agent_dev.session import hash_chain
from agent_dev.session.hash_chain import LogWriter, verify

PLAIN = {"decision": "allow", "argv": ["x" * 100]}
SIZE = 10_000


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Limit logs to ten thousand bytes; return the path of one."""
    monkeypatch.setattr(hash_chain, "MAX_LOG_SIZE", SIZE)
    return str(tmp_path / "log")


def test_a_flood_of_allowed_commands_fills_only_its_share(small: str) -> None:
    log = LogWriter(small)
    for _ in range(50):
        log.write([PLAIN] * 20)

    assert SIZE < Path(small).stat().st_size < 1.1 * SIZE
    found = verify(small)
    assert found.problem == ""
    assert log.end.count == len(found.rows)
    assert log.end.count + log.end.dropped == 1000


def test_denied_commands_are_still_logged_up_to_a_limit(small: str) -> None:
    log = LogWriter(small)
    log.write([PLAIN] * 200)
    before = log.end.count
    log.write([{**PLAIN, "decision": "deny"}])
    assert log.end.count == before + 1

    log.write([{**PLAIN, "decision": "deny"}] * 500)
    assert Path(small).stat().st_size < 1.6 * SIZE
    assert verify(small).problem == ""


def test_a_full_log_stays_full_when_reopened(small: str) -> None:
    first = LogWriter(small)
    first.write([PLAIN] * 500)
    size = Path(small).stat().st_size
    first.close()
    LogWriter(small).write([PLAIN] * 500)

    assert Path(small).stat().st_size == size
