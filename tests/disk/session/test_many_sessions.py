"""Notes about other sessions, with more of them than are compared or read."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from agent_dev.cli.review_notes import shared_notes
from agent_dev.config.options import RunOptions
from agent_dev.errors import UsageError
from agent_dev.session import session_names, sessions, startup_state, store
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.trees import FILE, Node, UpperEntry

MARKS = [UpperEntry(b"new", Node(FILE, b"b\n"))]


def test_the_oldest_session_is_compared_with_the_newest_others_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EndedSession(tmp_path, {b"a": Node(FILE, b"a\n")}, MARKS) as first:
        made = [EndedSession.another(first) for _ in range(3)]
        for one in made:
            (one.upper / "new").write_bytes(b"c\n")
            store.unlock_session(one.session)
        found = sessions.list_sessions(first.store)
        names = [one.name for one in found]
        whole = shared_notes(found[0], found[1:], ENVIRON)
        assert whole == (f"new is also changed by {', '.join(names[1:])}",)
        monkeypatch.setattr(store, "NEWEST", 3)
        assert shared_notes(found[0], found[1:], ENVIRON) == (
            f"new is also changed by {', '.join(names[2:])}",
            "compared only with the newest 2 of the other sessions",
        )


def test_a_start_reads_the_newest_sessions_only_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EndedSession(tmp_path, {b"a": Node(FILE, b"a\n")}, MARKS) as first:
        made = [EndedSession.another(first) for _ in range(2)]
        for one in made:
            store.unlock_session(one.session)
        names = tuple(one.name for one in sessions.list_sessions(first.store))
        (root,) = store.read_record(first.session)["roots"]
        assert startup_state.waiting_session_names(first.store, root) == (names, False)
        monkeypatch.setattr(store, "NEWEST", 2)
        assert startup_state.waiting_session_names(first.store, root) == (names[1:], True)


def test_a_name_reads_only_the_records_that_contain_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EndedSession(tmp_path, {b"a": Node(FILE, b"a\n")}, MARKS) as first:
        made = [EndedSession.another(first) for _ in range(3)]
        for one in made:
            store.unlock_session(one.session)
        (root,) = store.read_record(first.session)["roots"]
        context = sessions.CommandContext(first.store, root, root, ENVIRON)
        store.write_record(made[1].session, {**store.read_record(made[1].session), "name": "fix"})
        read = Mock(wraps=store.read_record)
        monkeypatch.setattr(store, "read_record", read)
        assert sessions.find_session(context, "fix").session.id == made[1].session.id
        assert sessions.find_session(context).session.id == made[2].session.id
        assert [one.session.id for one in sessions.open_with_name(context, "fix")] == [made[1].session.id]
        assert sessions.open_with_name(context, "unused") == ()
        order = (made[1], made[2], made[1])
        assert [call.args[0].id for call in read.call_args_list] == [one.session.id for one in order]


def test_a_session_that_is_named_by_its_id_needs_no_other_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EndedSession(tmp_path, {b"a": Node(FILE, b"a\n")}, MARKS) as first:
        made = EndedSession.another(first)
        store.write_record(made.session, {**store.read_record(made.session), "name": first.session.id})
        store.unlock_session(made.session)
        (root,) = store.read_record(first.session)["roots"]
        context = sessions.CommandContext(first.store, root, root, ENVIRON)
        search = Mock(return_value=())
        monkeypatch.setattr(store, "mentioning_sessions", search)
        found = sessions.find_by_name(context, first.session.id)
        assert found is not None
        assert found.session.id == first.session.id
        search.assert_not_called()
        for name in ("", ".", "..", f"../sessions/{first.session.id}", "unknown"):
            assert sessions.find_by_name(context, name) is None


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndedSession]:
    """Yield a session in whose repository names are checked."""
    with EndedSession(tmp_path, {b"a": Node(FILE, b"a\n")}, MARKS) as first:
        (root,) = store.read_record(first.session)["roots"]
        monkeypatch.setattr(sessions, "command_context", lambda *_: sessions.CommandContext(first.store, root, root, ENVIRON))
        yield first


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "renamed"])
def test_a_name_that_was_taken_since_the_first_check_is_refused(named: EndedSession, *, is_new: bool) -> None:
    options = RunOptions(name="fix")
    session_names.require_unused_name(options, ENVIRON)
    session = EndedSession.another(named).session if is_new else named.session
    store.write_record(session, {**store.read_record(session), "name": "fix"})
    if is_new:
        store.unlock_session(session)

    for _ in range(2):
        with pytest.raises(UsageError, match="a waiting session of this repository has that name"):
            session_names.require_unused_name(options, ENVIRON)
