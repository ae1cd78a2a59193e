"""The decision when an agent is idle."""

from agent_dev.run.alerts.idle_alert import IdleState


def alerts(rows: list[tuple[float, float, float]]) -> list[float]:
    """Return the times of alerts after ten idle seconds, for rows of time, processor seconds and last use of the terminal."""
    state = IdleState(10, 0.0, 0.0)
    return [now for now, used, touched in rows if state.update(now, used, touched)]


def test_an_idle_agent_is_announced_once() -> None:
    assert alerts([(float(now), 0.0, 3.0) for now in range(1, 60)]) == [13.0]


def test_a_busy_agent_is_not_announced() -> None:
    assert alerts([(float(now), now * 0.2, 0.0) for now in range(1, 60)]) == []


def test_a_blinking_cursor_is_idle() -> None:
    assert alerts([(float(now), now * 0.02, 0.0) for now in range(1, 60)]) == [10.0]


def test_output_and_typing_begin_anew() -> None:
    assert alerts([(float(now), 0.0, 30.0 if now >= 30 else 0.0) for now in range(1, 60)]) == [10.0, 40.0]


def test_the_own_bell_does_not_begin_anew() -> None:
    assert alerts([(float(now), 0.0, 11.0 if now >= 11 else 0.0) for now in range(1, 60)]) == [10.0]
