"""The logs of a session are limited in size and count the dropped lines."""

import tracemalloc
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
    assert log.end.count == len([*found.rows])
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


def test_rows_are_in_order_of_time_without_all_in_memory(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    rows = [{"time": (number * 7919) % 20_000, "decision": "deny" if number % 10 else "allow"} for number in range(20_000)]
    log = LogWriter(path)
    log.write([{"event": "without a time"}, *rows])
    log.close()
    found = verify(path).rows
    tracemalloc.start()
    try:
        times = [row.get("time", -1) for row in found.by_time()]
        denied = sum(1 for _ in found.with_decision("deny").by_time())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert times == [-1, *range(20_000)]
    assert denied == 18_000
    assert next(iter(found)) == {"n": 1, "event": "without a time"}
    assert peak < Path(path).stat().st_size * 1.5  # as dictionaries, they take four times the size of the file
