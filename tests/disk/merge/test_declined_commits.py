"""Declined commits: no longer reported as not imported, so that a session can be over; undone and redone like a merge."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.agent_git import commits
from agent_dev.agent_git.repositories import list_repositories
from agent_dev.cli.render import commits as output
from agent_dev.cli.screen import commits_reader
from agent_dev.commits import report
from agent_dev.commits.decline import DeclineResult, decline_commits
from agent_dev.errors import CannotImport, UsageError
from agent_dev.merge import history
from agent_dev.session import store
from tests.disk.commits.import_world import graces_repository, head, refs, status
from tests.harness.git.git_session import GitSession
from tests.harness.repository import ENVIRON


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, graces_repository(tmp_path / "root"), graces_repository(tmp_path / "other")) as one:
        yield one


def commit_in_both(session: GitSession) -> tuple[str, str, str]:
    """Let the agent make commits without a change of files, two in the first repository and one in the other; return the ids."""
    first, second = session.commit("one"), session.commit("two")
    third = session.agent_roots[1].commit("three")
    session.end()
    return first, second, third


def decline(session: GitSession, *args: str) -> DeclineResult:
    review = session.review()
    try:
        return decline_commits(review, args or ("",), session.store, session.printed.append)
    finally:
        review.close()


def undecided(session: GitSession) -> list[str]:
    sources = list_repositories(session.session, session.record)
    return [one.id for source in sources for one in commits.list_undecided(source, ENVIRON)]


def state(session: GitSession) -> str:
    return store.read_record(session.session)["state"]


def test_all_commits_are_declined_and_the_session_is_over(session: GitSession) -> None:
    first, second, third = commit_in_both(session)
    before = [(refs(one.root), status(one.root)) for one in session.agent_roots]
    done = decline(session)

    assert [[one.id for one in part.commits] for part in done.repositories] == [[second, first], [third]]
    assert (done.is_session_empty, state(session), undecided(session)) == (True, store.MERGED, [])
    assert [(refs(one.root), status(one.root)) for one in session.agent_roots] == before


def test_one_undo_reverts_it_and_redo_repeats_it(session: GitSession) -> None:
    ids = commit_in_both(session)
    decline(session)
    assert set(session.undo().declined) == set(ids)
    assert (state(session), set(undecided(session))) == (store.WAITING, set(ids))
    assert set(session.redo().declined) == set(ids)
    assert (state(session), undecided(session)) == (store.MERGED, [])
    assert [set(one.declined) for one in history.list_merges(session.here)] == [set(ids)]


@pytest.mark.parametrize("kind", ["id", "range", "branch"])
def test_some_commits_are_declined_and_the_others_stay_undecided(session: GitSession, kind: str) -> None:
    first, second, third = commit_in_both(session)
    value = {"id": second[:10], "range": f"{first}..{second}", "branch": "main"}[kind]
    if kind == "branch":  # both repositories have it
        decline(session, value)
        assert undecided(session) == []
        return
    decline(session, value)
    assert (set(undecided(session)), state(session)) == ({first, third}, store.WAITING)


def test_the_others_are_imported_and_then_the_session_is_over(session: GitSession) -> None:
    first, second, third = commit_in_both(session)
    decline(session, second)
    session.import_commits(first)
    assert (head(session.root), state(session)) == (first, store.WAITING)
    session.import_commits(third)
    assert state(session) == store.MERGED


def test_a_declined_commit_can_still_be_imported_by_its_name(session: GitSession) -> None:
    first, second, _ = commit_in_both(session)
    decline(session)
    session.import_commits("main", name="kept")
    assert head(session.root, "kept") == second
    assert first != second


def test_declining_what_is_decided_or_unknown_changes_nothing(session: GitSession) -> None:
    commit_in_both(session)
    with pytest.raises(UsageError, match="neither a branch nor a commit"):
        decline(session, "nothing")
    assert len(undecided(session)) == 3
    decline(session)
    with pytest.raises(CannotImport, match="no commits to decline"):
        decline(session)
    assert len(history.list_merges(session.here)) == 1


def test_a_new_commit_of_a_resumed_agent_is_undecided(session: GitSession) -> None:
    commit_in_both(session)
    decline(session)
    made = session.commit("four")
    assert undecided(session) == [made]


def test_declined_commits_are_marked_in_lists_and_on_the_screen(session: GitSession, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = commit_in_both(session)
    decline(session, second, third)
    review = session.review()
    try:
        reports = report.create_reports(review)
        rows = (*commits_reader.list_commits(review), *commits_reader.describe_commits(review))
    finally:
        review.close()
    marked = [row.title.endswith("(declined)") for row in rows if row.title[:10] in (first[:10], second[:10], third[:10])]
    assert marked == [True, False, True] * 2
    assert [row.id for row in rows if row.id] == [first] * 2
    output.print_commits(reports, "s", as_json=False)
    assert f"{second} two (declined)\n" in capsys.readouterr().out
    output.print_commits(reports, "s", as_json=True)
    value = json.loads(capsys.readouterr().out)
    assert [one["declined"] for one in value["commits"]] == [True, False]


def test_the_screen_declines_what_is_selected(session: GitSession) -> None:
    _, second, third = commit_in_both(session)
    review = session.review()
    try:
        ended = commits_reader.decline(review, session.store, (second, third))
        assert ended.lines[-1].startswith("2 commits declined (agent-dev undo ")  # not here, so that it has the id
        again = commits_reader.decline(review, session.store, (second,))
    finally:
        review.close()
    assert (again.may_have_changed, again.code) == (False, 1)
