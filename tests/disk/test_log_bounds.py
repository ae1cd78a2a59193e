"""The logs of a session end at a size, and say that they did."""

from pathlib import Path

import pytest

from agent_dev.session import hash_chain as command_log
from agent_dev.session.hash_chain import Log, verify

PLAIN = {"decision": "allow", "argv": ["x" * 100]}
SIZE = 10_000


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The place of a log that may be ten thousand bytes long."""
    monkeypatch.setattr(command_log, "LARGEST", SIZE)
    return str(tmp_path / "log")


def test_a_flood_of_allowed_commands_fills_no_more_than_its_part(small: str) -> None:
    log = Log(small)
    for _ in range(50):
        log.write([PLAIN] * 20)

    assert SIZE < Path(small).stat().st_size < 1.1 * SIZE
    found = verify(small)
    assert found.problem == ""
    assert log.head.count == len(found.rows)
    assert log.head.count + log.head.dropped == 1000


def test_what_was_denied_is_still_written_and_has_an_end_too(small: str) -> None:
    log = Log(small)
    log.write([PLAIN] * 200)
    before = log.head.count
    log.write([{**PLAIN, "decision": "deny"}])
    assert log.head.count == before + 1

    log.write([{**PLAIN, "decision": "deny"}] * 500)
    assert Path(small).stat().st_size < 1.6 * SIZE
    assert verify(small).problem == ""


def test_a_full_log_stays_full_when_it_is_opened_again(small: str) -> None:
    first = Log(small)
    first.write([PLAIN] * 500)
    size = Path(small).stat().st_size
    first.close()
    Log(small).write([PLAIN] * 500)

    assert Path(small).stat().st_size == size
