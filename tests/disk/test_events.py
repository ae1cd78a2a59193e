"""The log of a session is a chain: what is changed, taken out, put in or cut off is seen."""

import json
from pathlib import Path

import pytest

from agent_dev.host import events, store


@pytest.fixture
def session(tmp_path: Path) -> store.Session:
    made = store.Session("one", str(tmp_path))
    store.write(made, {**store.BLANK, "state": store.WAITING, "roots": ["/somewhere"]})
    held = store.hold(made)
    for number in range(4):
        events.note(held, "checkpoint", checkpoint=number)
    return held


def told(session: store.Session) -> events.Told:
    return events.read(session, store.read(session))


def lines(session: store.Session) -> list[str]:
    return Path(session.folder, "events.jsonl").read_text().splitlines(keepends=True)


def rewrite(session: store.Session, rows: list[str]) -> None:
    Path(session.folder, "events.jsonl").write_text("".join(rows))


def test_what_was_written_is_told(session: store.Session) -> None:
    assert [(row["n"], row["event"], row["checkpoint"]) for row in told(session).rows] == [
        (number + 1, "checkpoint", number) for number in range(4)
    ]
    assert told(session).problem == ""


def test_a_cut_is_seen(session: store.Session) -> None:
    for left in range(4):
        rewrite(session, lines(session)[:left] if left else [])
        assert told(session).problem


def test_a_line_that_is_changed_taken_out_or_put_in_is_seen(session: store.Session) -> None:
    rows = lines(session)
    for forged in (
        [rows[0], rows[1].replace('"checkpoint": 1', '"checkpoint": 7'), *rows[2:]],
        [rows[0], *rows[2:]],
        [*rows[:2], rows[1], *rows[2:]],
        [*rows[:3], "no json\n"],
    ):
        rewrite(session, forged)
        assert told(session).problem


def test_a_log_that_was_written_anew_is_seen(session: store.Session) -> None:
    Path(session.folder, "events.jsonl").unlink()
    for number in range(5):
        events.note(session.but(lock=-1), "checkpoint", checkpoint=number + 1)
    assert told(session).problem


def test_a_line_by_who_does_not_hold_the_session_leaves_its_record_alone(session: store.Session) -> None:
    before = Path(session.folder, "session.json").read_bytes()
    events.note(session.but(lock=-1), "checkpoint", checkpoint=9)
    assert Path(session.folder, "session.json").read_bytes() == before
    assert (len(told(session).rows), told(session).problem) == (5, "")


def test_a_session_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    events.note(store.Session("gone", str(tmp_path / "gone")), "checkpoint")
    assert not (tmp_path / "gone").exists()


def test_a_secret_in_an_argument_is_masked(session: store.Session) -> None:
    events.note(session, "start", argv=["curl", "--password", "hunter2", "--token=abcdef"])
    assert "hunter2" not in json.dumps(told(session).rows)
    assert "abcdef" not in json.dumps(told(session).rows)
