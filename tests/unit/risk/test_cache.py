"""The cache of risks: rows are found in the text of its file."""

from functools import partial
from pathlib import Path

import pytest

from agent_dev.fs.entry import Key
from agent_dev.risk import cache
from agent_dev.risk.cache import RiskCache, Row

LATER = 10**9  # ns after the files were written


def key(number: int) -> Key:
    return Key(number % 2, f"directory/{number}-\xe4\udcff".encode("utf-8", "surrogateescape"))


def row(number: int) -> Row:
    return [[], None] if number % 3 else [["rule"], [True, number, 0]]


@pytest.fixture(params=["different", "equal"])
def _hashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give all names their own hash, or all the same one."""
    if request.param == "equal":
        monkeypatch.setattr(cache, "_hash", lambda _: 2**32 - 1)


@pytest.mark.usefixtures("_hashes")
def test_saved_rows_are_found_with_rows_added_and_replaced_since(tmp_path: Path) -> None:
    wanted: dict[int, tuple[str, Row]] = {}
    for step in range(4):
        opened = RiskCache(str(tmp_path), "1")
        for number in range(60, 10 * step, -step - 1):
            mark = f"{step * 100 + number:024x}"
            opened.put(key(number), mark, row(number), 0, LATER)
            wanted[number] = mark, row(number)
        opened.save()
        for found in (opened, RiskCache(str(tmp_path), "1")):
            rows = {number: found.get(key(number), partial(str, mark)) for number, (mark, _) in wanted.items()}
            assert rows == {number: one for number, (_, one) in wanted.items()}
            assert found.get(key(0), lambda: "another") is None
            assert found.get(key(1000), lambda: "none") is None


def test_an_empty_cache_asks_for_no_fingerprint(tmp_path: Path) -> None:
    def mark() -> str:
        raise AssertionError

    assert RiskCache(str(tmp_path), "1").get(key(0), mark) is None


def test_a_cache_without_rows_is_empty(tmp_path: Path) -> None:
    opened = RiskCache(str(tmp_path), "1")
    opened.put(key(0), "mark", row(0), 0, LATER)
    opened.save()
    (saved,) = tmp_path.iterdir()
    head, body = cache._head("1"), b"}}"
    saved.write_bytes(cache._sum(head + b"{" + body) + b"\n" + head + b"{" + body)
    assert RiskCache(str(tmp_path), "1").get(key(0), lambda: "mark") is None
