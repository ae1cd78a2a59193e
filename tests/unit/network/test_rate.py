"""Limits of events and of processor time."""

from types import SimpleNamespace

import pytest

from agent_dev.network import rate
from agent_dev.network.rate import RateLimit, TimeBudget


def test_a_burst_is_followed_by_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(rate, "time", SimpleNamespace(monotonic=lambda: now[0]))
    limit = RateLimit(3, 2)
    assert [limit.take() for _ in range(5)] == [True, True, True, False, False]
    now[0] += 1
    assert [limit.take() for _ in range(3)] == [True, True, False]
    now[0] += 3600
    assert [limit.take() for _ in range(4)] == [True, True, True, False]


def test_a_budget_is_spent_and_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(rate, "time", SimpleNamespace(monotonic=lambda: now[0]))
    budget = TimeBudget(0.1, 0.05)
    budget.spend(0.09)
    assert budget.is_left()
    budget.spend(0.06)
    assert not budget.is_left()
    now[0] += 2
    assert budget.is_left()
