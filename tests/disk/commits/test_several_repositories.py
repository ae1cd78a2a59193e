"""Commits of several roots: found in each, shown by repository, imported and undone together."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.agent_git import commits
from agent_dev.cli.render import commits as output
from agent_dev.cli.render import undo
from agent_dev.cli.render.colour import PLAIN
from agent_dev.cli.screen import commits_reader
from agent_dev.commits import report
from agent_dev.errors import CannotImport, UsageError
from agent_dev.fs import checksummed_json
from agent_dev.git.updates import GitUpdate, RefUpdate
from agent_dev.git.user_refs import RefMovedError, update_refs
from agent_dev.merge import history, merge
from agent_dev.overlay.selection import Selection
from agent_dev.session import sessions, startup_state, store
from agent_dev.session.sessions import CommandContext
from tests.disk.commits.import_world import graces_repository, head, refs, status
from tests.harness.git.git_session import GitSession
from tests.harness.repository import ENVIRON, git
from tui.model.tabs import ImportMode


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return graces_repository(tmp_path / "other")


@pytest.fixture
def session(tmp_path: Path, other: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, graces_repository(tmp_path / "root"), other) as one:
        yield one


def commit_in_both(session: GitSession) -> tuple[str, str]:
    """Let the agent commit in both repositories; return the ids."""
    ids = session.commit("one", a__txt="agent\n"), session.agent_roots[1].commit("two", b__txt="other\n")
    session.end()
    return ids


def state(session: GitSession) -> str:
    return store.read_record(session.session)["state"]


def merge_files(session: GitSession) -> None:
    """Apply all files of a session."""
    review = session.review()
    try:
        keys = frozenset(change.key for change in review.changes.changes)
        merge.apply_plan(review, merge.plan_selection(review, Selection(keys), keys), session.store)
    finally:
        review.close()


def test_the_commits_of_each_repository_are_found(session: GitSession, other: Path) -> None:
    ids = commit_in_both(session)
    found = commits.list_session_commits(session.session, session.record, ENVIRON)
    assert sorted(one.place for one in found) == sorted((str(session.root), str(other)))
    assert any(f"in {other}" in line for one in found for line in output.describe_session_commit(one, (), PLAIN))
    assert {output.session_commit_as_json(one, ())["repository"] for one in found} == {str(session.root), str(other)}
    assert tuple(one.id for one in found) == ids


def test_an_import_moves_both_branches_and_one_undo_reverts_both(session: GitSession, other: Path) -> None:
    before = refs(session.root), refs(other)
    ids = commit_in_both(session)
    done = session.import_commits()

    assert (head(session.root), head(other)) == ids
    assert status(session.root) == status(other) == ""
    assert (other / "b.txt").read_text() == "other\n"
    assert [(one.path, one.after) for one in done.repositories] == [(str(session.root), ids[0]), (str(other), ids[1])]
    assert state(session) == store.MERGED
    session.undo()
    assert (refs(session.root), refs(other)) == before
    assert status(session.root) == status(other) == ""
    assert not (other / "b.txt").exists()
    session.redo()
    assert (head(session.root), head(other)) == ids


def test_a_branch_of_two_repositories_is_listed_once(session: GitSession, capsys: pytest.CaptureFixture[str]) -> None:
    commit_in_both(session)
    session.import_commits()
    undo.print_merges(history.list_merges(session.here), with_roots=False)
    assert "branch main in 2 repositories, 1 added, 1 edited\n" in capsys.readouterr().out


def test_a_conflict_in_one_repository_imports_nothing(session: GitSession, other: Path) -> None:
    commit_in_both(session)
    (other / "b.txt").write_text("mine\n")
    before = refs(session.root), refs(other), session.files()
    done = session.import_commits()

    assert done.conflicts[0].key == (1, b"b.txt")
    assert done.conflict_root == str(other)
    assert (refs(session.root), refs(other), session.files()) == before


def test_a_ref_that_moved_in_one_repository_moves_none(session: GitSession, other: Path) -> None:
    before = refs(session.root), refs(other)
    program = f"{git(session.root, '--exec-path').strip()}/git"
    sides = tuple(
        GitUpdate(f"{root}/.git", program, tuple(ENVIRON.items()), (RefUpdate("refs/heads/new", old, head(root)),))
        for root, old in ((session.root, ""), (other, "1" * 40))
    )
    with pytest.raises(RefMovedError):
        update_refs(sides, "m", -1, is_forward=True)
    assert (refs(session.root), refs(other)) == before


def test_a_repository_without_new_commits_is_left_alone(session: GitSession, other: Path) -> None:
    made = session.agent_roots[1].commit("two", b__txt="other\n")
    session.end()
    start = head(session.root)
    done = session.import_commits()
    assert [one.path for one in done.repositories] == [str(other)]
    assert (head(session.root), head(other)) == (start, made)
    with pytest.raises(CannotImport, match="no new commits"):
        session.import_commits()


def test_a_commit_id_selects_its_repository(session: GitSession, other: Path) -> None:
    first, second = commit_in_both(session)
    start = head(session.root)
    session.import_commits(second[:10])
    assert (head(session.root), head(other)) == (start, second)
    assert state(session) == store.WAITING
    session.import_commits(first[:10])
    assert state(session) == store.MERGED


def test_a_value_of_no_repository_is_refused(session: GitSession) -> None:
    commit_in_both(session)
    with pytest.raises(UsageError, match="neither a branch nor a commit"):
        session.import_commits("nothing")


def test_the_screen_imports_what_is_selected_in_both(session: GitSession, other: Path) -> None:
    ids = commit_in_both(session)
    review = session.review()
    try:
        rows = [(row.title, row.id) for row in commits_reader.list_commits(review)]
        assert rows == [
            (f"{session.root}:", ""),
            (f"{ids[0][:10]} one", ids[0]),
            (f"{other}:", ""),
            (f"{ids[1][:10]} two", ids[1]),
        ]
        assert tuple(row.id for row in commits_reader.describe_commits(review) if row.id) == ids
        target = (ImportMode.ONTO_BRANCH, "")
        retry = commits_reader.make_importer(review, session.store, ids[::-1], target, with_trailers=False)
        assert len(retry({}, session.printed.append).repositories) == 2
    finally:
        review.close()
    assert (head(session.root), head(other)) == ids


def test_a_session_is_not_over_while_it_holds_commits(session: GitSession) -> None:
    commit_in_both(session)
    merge_files(session)
    assert state(session) == store.WAITING


def test_commits_are_printed_by_repository(session: GitSession, other: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = commit_in_both(session)
    review = session.review()
    try:
        reports = report.create_reports(review)
    finally:
        review.close()
    output.print_commits(reports, "s", as_json=False)
    lines = capsys.readouterr().out.splitlines()
    order = [lines.index(one) for one in (f"{session.root}:", f"{first} one", f"{other}:", f"{second} two")]
    assert order == sorted(order)
    output.print_commits(reports, "s", as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in document["commits"]] == [first]
    assert [(one["root"], one["commits"][0]["id"]) for one in document["other_repositories"]] == [(str(other), second)]


def test_a_session_is_found_from_each_root(session: GitSession, other: Path) -> None:
    for root in (session.root, other):
        context = CommandContext(session.store, str(root), str(root), ENVIRON)
        assert [one.session.id for one in sessions.sessions_of_repository(context)] == [session.session.id]
        assert sessions.find_session(context).session.id == session.session.id
        assert startup_state.waiting_session_names(session.store, str(root)) == ((session.session.id,), False)


def test_a_record_with_a_single_repository_is_read_as_a_list(session: GitSession) -> None:
    git_record = {name: value for name, value in session.record["git"][0].items() if name != "root"}
    for old, new in ((git_record, session.record["git"][:1]), (None, [])):
        data = checksummed_json.dumps({**session.record, "git": old, "version": store.VERSION})
        Path(session.session.folder, "session.json").write_bytes(data)
        assert store.read_record(session.session)["git"] == new
