"""The log of a session is a chain: what is changed, taken out, put in or cut off is seen."""

import json
from pathlib import Path

import pytest

from agent_dev.checkpoint import rollback
from agent_dev.cli.render import checkpoints as history
from agent_dev.inside.control import serve as nested
from agent_dev.session import events, store
from agent_dev.session import hash_chain as command_log
from agent_dev.session.sessions import Listed


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


def test_what_was_left_out_of_a_full_log_is_counted_and_told(
    session: store.Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_log, "LARGEST", 1)
    for number in range(3):
        events.note(session, "checkpoint", checkpoint=number)
    assert (len(told(session).rows), told(session).dropped, told(session).problem) == (4, 3, "")
    one = Listed(session, store.read(session), store.WAITING)
    history.log(one, told(session), what="events", as_json=False)
    assert "3 more were left out" in capsys.readouterr().out
    history.log(one, told(session), what="events", as_json=True)
    assert json.loads(capsys.readouterr().out)["left_out"] == 3


@pytest.mark.parametrize("left", range(4))
def test_a_cut_is_still_seen_when_the_log_has_gone_on(session: store.Session, left: int) -> None:
    rewrite(session, lines(session)[:left])
    for number in range(6):
        events.note(session, "checkpoint", checkpoint=10 + number)
        assert told(session).problem, number


def test_a_cut_of_the_commands_is_still_seen_when_the_log_has_gone_on(tmp_path: Path) -> None:
    path = tmp_path / "commands.jsonl"
    said: store.LogRecord | None = None
    for number in range(7):
        log = command_log.Log(str(path))
        log.write([{"pid": number}])
        log.close()
        said = events.extended(str(path), said, log.head)
        if number == 2:
            path.write_text(path.read_text().splitlines(keepends=True)[0])
    assert said is not None
    assert said["count"] == 3  # as it was before the cut
    path.unlink()
    assert events.extended(str(path), said, log.head)["count"] == 3  # nor is one that is gone whole


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


def test_lines_are_shown_in_the_order_of_their_times(session: store.Session, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ({"n": 1, "time": 2 * 10**9, "event": "checkpoint"}, {"n": 2, "time": 10**9, "event": "start", "policy": {"set": "x"}})
    history.log(Listed(session, store.read(session), store.WAITING), events.Told(rows), what="events", as_json=False)
    assert [line.split()[2:] for line in capsys.readouterr().out.splitlines()] == [["start", "policy.set=x"], ["checkpoint"]]


def test_a_line_is_added_at_what_its_last_two_cost_however_long_the_log_is(
    session: store.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_log, "verify", None)
    events.note(session, "checkpoint", checkpoint=4)
    monkeypatch.undo()
    assert [row["n"] for row in told(session).rows] == [1, 2, 3, 4, 5]
    assert told(session).problem == ""


@pytest.mark.parametrize("long", [1 << 15, 1 << 16, 1 << 17])
def test_a_log_goes_on_behind_lines_of_any_length(session: store.Session, long: int) -> None:
    for text in ("x" * long, "short", "y" * long):
        events.note(session, "checkpoint", cause=text)
    events.note(session, "end")
    assert [row["n"] for row in told(session).rows] == [*range(1, 9)]
    assert told(session).problem == ""


def test_a_change_further_up_is_seen_when_lines_were_added_since(session: store.Session) -> None:
    rows = lines(session)
    rewrite(session, [rows[0].replace('"checkpoint": 0', '"checkpoint": 7'), *rows[1:]])
    events.note(session, "checkpoint", checkpoint=4)
    assert told(session).problem


def test_of_what_could_not_be_rolled_back_little_is_written_down(session: store.Session) -> None:
    problems = tuple(f"{'n' * 4000}{number}: it could not be read" for number in range(1000))
    rollback._noted(session, rollback.RolledBack(1, 2, (), problems))
    nested._note(session, 1, "true", "rolled back", "not all could be brought back: " + "; ".join(problems))
    for line, key in zip(lines(session)[-2:], ("problems", "problem"), strict=True):
        assert len(line) < 4096
        assert "990 more" in json.dumps(json.loads(line)[key])
    assert events.few(problems[:1])[0].startswith("nnn")
    assert events.few(("short", "one")) == ["short", "one"]
