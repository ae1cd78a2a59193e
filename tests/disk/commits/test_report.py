"""Everything in a session's git directory is reported: commits, refs, stashes, unfinished operations, uncommitted files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.agent_git.changes import RefStatus
from agent_dev.cli.render import commits as output
from agent_dev.cli.screen import commits_reader
from agent_dev.commits import prefetch, report
from agent_dev.git import blobs
from agent_dev.git.bare import BareRepository
from tests.harness.git.git_session import GitSession
from tests.harness.repository import ENVIRON, commit, git, repository


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, repository(tmp_path / "root")) as made:
        yield made


def test_a_commit_is_listed_with_author_message_and_files(session: GitSession) -> None:
    (session.agent / "sub/b.txt").unlink()
    made = session.commit("Say hello\n\nTo everybody.", a__txt="hello\n", new="x\n")
    session.end()
    (reported,) = session.inspect().changes.commits

    assert (reported.id, reported.subject) == (made, "Say hello")
    assert reported.message == b"Say hello\n\nTo everybody.\n"
    assert (reported.author.name, reported.author.email) == ("Ada", "ada@example.invalid")
    assert {(one.path, one.kind) for one in reported.changed_files} == {
        (b"a.txt", "edited"),
        (b"new", "added"),
        (b"sub/b.txt", "deleted"),
    }
    assert reported.signature == ""


@pytest.mark.parametrize(
    ("start", "kind"),
    [("-----BEGIN SSH SIGNATURE-----", "ssh"), ("-----BEGIN PGP SIGNATURE-----", "openpgp"), ("nonsense", "unknown")],
)
def test_a_signature_is_shown_as_unverified(session: GitSession, start: str, kind: str) -> None:
    session.commit("x", a__txt="x\n")
    head, _, message = session.run_agent_git("cat-file", "commit", "HEAD").partition("\n\n")
    (session.agent / "forged").write_text(f"{head}\ngpgsig {start}\n abc\n\n{message}")
    forged = session.run_agent_git("hash-object", "-t", "commit", "-w", "forged").strip()
    session.run_agent_git("update-ref", "refs/heads/main", forged)

    assert session.inspect().changes.commits[0].signature == kind


def test_commits_are_listed_where_a_url_in_the_config_contains_sha256(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    git(root, "remote", "add", "sha256", "https://example.invalid/sha256.git")
    with GitSession(tmp_path, root) as session:
        session.run_agent_git("config", "branch.main.description", "with sha256 in it")
        made = session.commit("x", a__txt="x\n")

        assert [reported.id for reported in session.inspect().changes.commits] == [made]


def test_a_cancelled_query_leaves_nothing(session: GitSession) -> None:
    for number in range(20):
        session.commit(f"{number}", a__txt=f"{number}\n")
    session.end()
    before = sorted(Path(session.session.folder).iterdir())
    with pytest.raises(KeyError), prefetch.start_queries(session.session, session.record, ENVIRON):
        raise KeyError

    assert sorted(Path(session.session.folder).iterdir()) == before


def test_refs_are_reported_as_new_moved_or_deleted(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    git(root, "branch", "gone")
    git(root, "branch", "still")
    with GitSession(tmp_path, root) as session:
        session.commit("x", a__txt="x\n")
        session.run_agent_git("branch", "new")
        session.run_agent_git("tag", "v1")
        session.run_agent_git("branch", "-D", "gone")
        reported = {one.name: one.status for one in session.inspect().changes.refs}

    assert reported == {
        "refs/heads/main": RefStatus.MOVED,
        "refs/heads/new": RefStatus.NEW,
        "refs/tags/v1": RefStatus.NEW,
        "refs/heads/gone": RefStatus.DELETED,
    }


def test_only_stashes_of_the_agent_are_reported(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    (root / "a.txt").write_text("mine\n")
    git(root, "stash", "push", "-m", "the user's")
    with GitSession(tmp_path, root) as session:
        session.write("a.txt", "agent\n")
        session.run_agent_git("stash", "push", "-m", "the agent's")
        reported = session.inspect().changes

    assert [one.subject for one in reported.stashes] == ["On main: the agent's"]
    assert reported.commits == ()


def test_a_stopped_rebase_is_reported(session: GitSession) -> None:
    session.commit("one", a__txt="one\n")
    session.run_agent_git("checkout", "-q", "-b", "x", "HEAD~1")
    session.commit("two", a__txt="two\n")
    with pytest.raises(AssertionError, match="CONFLICT"):
        session.run_agent_git("rebase", "main")
    alternates = session.common / "objects/info/alternates"
    assert alternates.exists()

    assert session.inspect().changes.operations_in_progress == ("rebase",)


def test_a_working_tree_equal_to_the_last_commit_leaves_nothing(session: GitSession) -> None:
    session.commit("x", a__txt="x\n", new="n\n")
    session.end()

    assert session.inspect().uncommitted == ()


def test_uncommitted_files_are_named(session: GitSession) -> None:
    session.commit("x", a__txt="x\n", deep___one="1\n")
    session.write("a.txt", "more\n")
    session.write("loose", "l\n")
    (session.agent / "deep/one").unlink()
    session.end()

    assert session.inspect().uncommitted == (b"a.txt", b"deep/one", b"loose")


def test_a_file_reverted_after_its_commit_is_named(session: GitSession) -> None:
    session.commit("x", a__txt="x\n")
    session.run_agent_git("checkout", "HEAD~1", "--", "a.txt")
    session.end()

    assert session.inspect().uncommitted == (b"a.txt",)


def test_ignored_files_are_not_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    (root / ".gitignore").write_text("*.o\n")
    commit(root, "ignore")
    with GitSession(tmp_path, root) as session:
        session.write("x.o", "x")
        session.end()
        assert session.inspect().uncommitted == ()


def test_line_endings_that_git_would_convert_are_no_difference(session: GitSession) -> None:
    session.run_agent_git("config", "core.autocrlf", "true")
    session.commit("x", a__txt="one\r\ntwo\r\n")
    session.end()

    assert session.inspect().uncommitted == ()


def test_commits_containing_uncommitted_user_changes_are_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    (root / "a.txt").write_text("more\nmine\n")
    (root / "untracked").write_text("mine\n")
    with GitSession(tmp_path, root) as session:
        (session.agent / "other").write_text("x")
        session.run_agent_git("add", "other")
        session.run_agent_git("commit", "-q", "-m", "without")
        with_it = session.commit("with", a__txt="more\nmine\nagent\n")
        session.end()
        looked = session.inspect()

    assert looked.user_edits == {with_it: (b"a.txt", b"untracked")}


def test_a_commit_that_removed_the_users_edit_does_not_contain_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    (root / "a.txt").write_text("more\nmine\n")
    with GitSession(tmp_path, root) as session:
        session.commit("x", a__txt="more\nagent\n")
        session.end()

        assert session.inspect().user_edits == {}


def test_files_with_new_times_alone_are_no_edits_and_not_read_from_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "root")
    for name in ("a.txt", "sub/b.txt"):
        (root / name).touch()  # git's index does not know these times
    (root / "sub/b.txt").write_text("mine\n")
    read = list[str]()

    def read_blobs(repo: BareRepository, ids: list[str]) -> dict[str, bytes]:
        read.extend(ids)
        return blobs.read_blobs(repo, ids)

    monkeypatch.setattr(report, "read_blobs", read_blobs)
    with GitSession(tmp_path, root) as session:
        made = session.commit("x", a__txt="more\nagent\n", sub___b__txt="mine\nagent\n")
        session.end()
        assert session.inspect().user_edits == {made: (b"sub/b.txt",)}
    assert git(root, "rev-parse", "HEAD:sub/b.txt").strip() in read
    assert git(root, "rev-parse", "HEAD:a.txt").strip() not in read


@pytest.mark.parametrize("commits", [1, 2])
def test_files_that_differ_from_the_last_of_commits_are_uncommitted(session: GitSession, commits: int) -> None:
    for number in range(commits):
        session.commit("x", a__txt=f"{number}\n", new="x\n")
    (session.agent / "a.txt").write_text("later\n")
    (session.agent / "new").unlink()
    session.end()
    assert session.inspect().uncommitted == (b"a.txt", b"new")


def test_files_are_compared_with_the_checked_out_commit_not_with_the_only_one(session: GitSession) -> None:
    session.run_agent_git("checkout", "-q", "-b", "other")
    session.commit("x", a__txt="x\n")
    session.run_agent_git("checkout", "-q", "main")
    session.end()
    assert session.inspect().uncommitted == ()


def test_a_commit_that_does_not_match_its_id_is_refused(session: GitSession) -> None:
    from agent_dev.errors import CommandFailed

    made = session.commit("x", a__txt="x\n")
    other = session.run_agent_git("commit-tree", "-m", "forged", "HEAD^{tree}").strip()
    objects = session.common / "objects"
    place = objects / made[:2] / made[2:]
    place.chmod(0o644)
    place.write_bytes((objects / other[:2] / other[2:]).read_bytes())

    with pytest.raises(CommandFailed):
        session.inspect()


def test_commits_in_a_branch_of_the_users_are_not_offered_again(session: GitSession) -> None:
    first = session.commit("first", a__txt="1\n")
    second = session.commit("second", a__txt="2\n")
    session.end()
    session.import_commits(first[:12], name="topic")

    assert [one.id for one in session.inspect().changes.commits] == [second]
    assert listed(session) == ["second"]
    git(session.root, "branch", "-qD", "topic")
    assert [one.id for one in session.inspect().changes.commits] == [second, first]
    assert listed(session) == ["second", "first"]


def listed(session: GitSession) -> list[str]:
    """Return the subjects on the commits tab as it opens."""
    review = session.review()
    try:
        return [row.title.partition(" ")[2] for row in commits_reader.list_commits(review)]
    finally:
        review.close()


def test_uncommitted_files_are_one_entry_of_the_commits_tab(session: GitSession) -> None:
    session.commit("x", a__txt="x\n", deep___one="1\n", kept="k\n")
    session.write("a.txt", "x\nmore\n")
    session.write("loose", "l\n")
    (session.agent / "deep/one").unlink()
    session.end()
    review = session.review()
    try:
        rows = commits_reader.describe_commits(review)
    finally:
        review.close()

    (entry,) = (row for row in rows if row.title.startswith("uncommitted"))
    assert (entry.title, entry.id, rows.index(entry)) == ("uncommitted: 3 files", "", 1)
    assert "Changes tab" in entry.details[0]
    assert entry.details[2:5] == ("~ a.txt", "- deep/one (as in your tree)", "+ loose")
    patch = entry.details[6:]
    changed = [line for line in patch if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")]
    assert (entry.details[5], changed) == ("", ["+more", "-1", "+l"])


def test_uncommitted_files_are_one_line_of_the_list_of_commits(session: GitSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.commit("x", a__txt="x\n")
    session.write("a.txt", "x\nmore\n")
    session.write("loose", "l\n")
    session.end()
    report = session.inspect()
    output.print_commits([report], "s", as_json=False)
    assert "uncommitted: 2 files (agent-dev merge applies them)" in capsys.readouterr().out.splitlines()
    output.print_commits([report], "s", as_json=True)
    assert json.loads(capsys.readouterr().out)["uncommitted"] == ["a.txt", "loose"]
