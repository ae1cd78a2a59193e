"""The log of a session is a hash chain: changed, removed, inserted and truncated lines are detected."""

import json
from pathlib import Path

import pytest

from agent_dev.checkpoint import rollback
from agent_dev.cli.render import checkpoints
from agent_dev.control import session_service
from agent_dev.session import events, hash_chain, store
from agent_dev.session.sessions import ListedSession


@pytest.fixture
def session(tmp_path: Path) -> store.Session:
    made = store.Session("one", str(tmp_path))
    store.write_record(made, {**store.BLANK, "state": store.WAITING, "roots": ["/somewhere"]})
    held = store.lock_session(made)
    for number in range(4):
        events.log_event(held, "checkpoint", checkpoint=number)
    return held


def reported(session: store.Session) -> events.LogContents:
    return events.read_events(session, store.read_record(session))


def lines(session: store.Session) -> list[str]:
    return Path(session.folder, "events.jsonl").read_text().splitlines(keepends=True)


def rewrite(session: store.Session, rows: list[str]) -> None:
    Path(session.folder, "events.jsonl").write_text("".join(rows))


def test_written_lines_are_listed(session: store.Session) -> None:
    assert [(row["n"], row["event"], row["checkpoint"]) for row in reported(session).rows] == [
        (number + 1, "checkpoint", number) for number in range(4)
    ]
    assert reported(session).problem == ""


def test_lines_dropped_from_a_full_log_are_counted_and_reported(
    session: store.Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hash_chain, "MAX_LOG_SIZE", 1)
    for number in range(3):
        events.log_event(session, "checkpoint", checkpoint=number)
    assert (len([*reported(session).rows]), reported(session).dropped, reported(session).problem) == (4, 3, "")
    one = ListedSession(session, store.read_record(session), store.WAITING)
    checkpoints.print_log(one, reported(session), kind="events", as_json=False)
    assert "3 more were not logged" in capsys.readouterr().out
    checkpoints.print_log(one, reported(session), kind="events", as_json=True)
    assert json.loads(capsys.readouterr().out)["left_out"] == 3


@pytest.mark.parametrize("left", range(4))
def test_a_truncation_is_still_reported_after_further_lines(session: store.Session, left: int) -> None:
    rewrite(session, lines(session)[:left])
    for number in range(6):
        events.log_event(session, "checkpoint", checkpoint=10 + number)
        assert reported(session).problem, number


def test_a_truncated_command_log_is_still_reported_after_further_lines(tmp_path: Path) -> None:
    path = tmp_path / "commands.jsonl"
    printed: store.LogRecord | None = None
    for number in range(7):
        log = hash_chain.LogWriter(str(path))
        log.write([{"pid": number}])
        log.close()
        printed = events.extend_log_record(str(path), printed, log.end)
        if number == 2:
            path.write_text(path.read_text().splitlines(keepends=True)[0])
    assert printed is not None
    assert printed["count"] == 3  # the count before the truncation
    path.unlink()
    assert events.extend_log_record(str(path), printed, log.end)["count"] == 3  # a deleted log does not reset the count either


def test_a_truncation_is_reported(session: store.Session) -> None:
    for left in range(4):
        rewrite(session, lines(session)[:left] if left else [])
        assert reported(session).problem


def test_a_changed_removed_or_inserted_line_is_reported(session: store.Session) -> None:
    rows = lines(session)
    for forged in (
        [rows[0], rows[1].replace('"checkpoint": 1', '"checkpoint": 7'), *rows[2:]],
        [rows[0], *rows[2:]],
        [*rows[:2], rows[1], *rows[2:]],
        [*rows[:3], "no json\n"],
    ):
        rewrite(session, forged)
        assert reported(session).problem


def test_a_rewritten_log_is_reported(session: store.Session) -> None:
    Path(session.folder, "events.jsonl").unlink()
    for number in range(5):
        events.log_event(session.replace(lock=-1), "checkpoint", checkpoint=number + 1)
    assert reported(session).problem


def test_a_line_from_a_non_holder_leaves_the_session_record_unchanged(session: store.Session) -> None:
    before = Path(session.folder, "session.json").read_bytes()
    events.log_event(session.replace(lock=-1), "checkpoint", checkpoint=9)
    assert Path(session.folder, "session.json").read_bytes() == before
    assert (len([*reported(session).rows]), reported(session).problem) == (5, "")


def test_a_deleted_session_stops_nothing(tmp_path: Path) -> None:
    events.log_event(store.Session("gone", str(tmp_path / "gone")), "checkpoint")
    assert not (tmp_path / "gone").exists()


def test_a_secret_in_an_argument_is_masked(session: store.Session) -> None:
    events.log_event(session, "start", argv=["curl", "--password", "hunter2", "--token=abcdef"])
    assert "hunter2" not in json.dumps([*reported(session).rows])
    assert "abcdef" not in json.dumps([*reported(session).rows])


def test_lines_are_shown_in_order_of_time(session: store.Session, capsys: pytest.CaptureFixture[str]) -> None:
    events.log_event(session, "checkpoint", at=2 * 10**9, failed="full")
    events.log_event(session, "other", at=10**9, x=1)
    found = ListedSession(session, store.read_record(session), store.WAITING)
    checkpoints.print_log(found, reported(session), kind="events", as_json=False)
    assert [line.split()[2:] for line in capsys.readouterr().out.splitlines()[:2]] == [
        ["other", "x=1"],
        ["no", "checkpoint", "(None):", "full"],
    ]


def test_appending_a_line_reads_only_the_last_two(session: store.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_chain, "verify", None)
    events.log_event(session, "checkpoint", checkpoint=4)
    monkeypatch.undo()
    assert [row["n"] for row in reported(session).rows] == [1, 2, 3, 4, 5]
    assert reported(session).problem == ""


@pytest.mark.parametrize("long", [1 << 15, 1 << 16, 1 << 17])
def test_a_log_continues_after_lines_of_any_length(session: store.Session, long: int) -> None:
    for text in ("x" * long, "short", "y" * long):
        events.log_event(session, "checkpoint", cause=text)
    events.log_event(session, "end")
    assert [row["n"] for row in reported(session).rows] == [*range(1, 9)]
    assert reported(session).problem == ""


def test_a_change_of_an_earlier_line_is_reported_after_further_lines(session: store.Session) -> None:
    rows = lines(session)
    rewrite(session, [rows[0].replace('"checkpoint": 0', '"checkpoint": 7'), *rows[1:]])
    events.log_event(session, "checkpoint", checkpoint=4)
    assert reported(session).problem


def test_problems_of_a_rollback_are_logged_in_short(session: store.Session) -> None:
    problems = tuple(f"{'n' * 4000}{number}: it could not be read" for number in range(1000))
    rollback._log_result(session, rollback.RollbackResult(1, 2, (), problems))
    session_service._note(session, 1, "true", "rolled back", "rollback is incomplete: " + "; ".join(problems))
    for line, key in zip(lines(session)[-2:], ("problems", "problem"), strict=True):
        assert len(line) < 4096
        assert "990 more" in json.dumps(json.loads(line)[key])
    assert events.limit_problems(problems[:1])[0].startswith("nnn")
    assert events.limit_problems(("short", "one")) == ["short", "one"]


def test_the_chain_of_any_line_is_found_near_the_end_and_far_from_it(tmp_path: Path) -> None:
    log, chains = hash_chain.LogWriter(str(tmp_path / "log")), [hash_chain.ChainEnd().chain]
    for number in range(1000):
        log.write([{"argv": ['a\n{"n": 3, ' + "x" * 100]}])
        chains.append(log.end.chain)
        assert log.end.count == number + 1
    assert (tmp_path / "log").stat().st_size > 2 * hash_chain._TAIL
    for number in (0, 1, 2, 3, 500, 999, 1000):
        assert events._chain_at(str(tmp_path / "log"), number) == chains[number]
    assert events._chain_at(str(tmp_path / "log"), 1001) == ""
