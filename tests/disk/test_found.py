"""What a session's git dir holds is told whole: commits, refs, stashes, what was begun, and what is in no commit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.agent_git.changes import Motion
from agent_dev.commits import prefetch as asked
from tests.harness.git_session import GitSession
from tests.harness.repository import ENVIRON, commit, git, repository


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, repository(tmp_path / "root")) as made:
        yield made


def test_a_commit_is_told_with_author_message_and_files(session: GitSession) -> None:
    (session.agent / "sub/b.txt").unlink()
    made = session.commit("Say hello\n\nTo everybody.", a__txt="hello\n", new="x\n")
    session.end()
    (told,) = session.look().found.commits

    assert (told.id, told.subject) == (made, "Say hello")
    assert told.message == b"Say hello\n\nTo everybody.\n"
    assert (told.author.name, told.author.email) == ("Ada", "ada@example.invalid")
    assert {(one.path, one.kind) for one in told.files} == {(b"a.txt", "edited"), (b"new", "added"), (b"sub/b.txt", "deleted")}
    assert told.signature == ""


@pytest.mark.parametrize(
    ("start", "kind"),
    [("-----BEGIN SSH SIGNATURE-----", "ssh"), ("-----BEGIN PGP SIGNATURE-----", "openpgp"), ("nonsense", "unknown")],
)
def test_a_signature_is_told_and_not_believed(session: GitSession, start: str, kind: str) -> None:
    session.commit("x", a__txt="x\n")
    head, _, message = session.let_agent("cat-file", "commit", "HEAD").partition("\n\n")
    (session.agent / "forged").write_text(f"{head}\ngpgsig {start}\n abc\n\n{message}")
    forged = session.let_agent("hash-object", "-t", "commit", "-w", "forged").strip()
    session.let_agent("update-ref", "refs/heads/main", forged)

    assert session.look().found.commits[0].signature == kind


def test_a_look_that_is_given_up_leaves_nothing(session: GitSession) -> None:
    for number in range(20):
        session.commit(f"{number}", a__txt=f"{number}\n")
    session.end()
    before = sorted(Path(session.session.folder).iterdir())
    with pytest.raises(KeyError), asked.begun(session.session, session.record, ENVIRON):
        raise KeyError

    assert sorted(Path(session.session.folder).iterdir()) == before


def test_refs_are_told_as_new_moved_and_deleted(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    git(root, "branch", "gone")
    git(root, "branch", "still")
    with GitSession(tmp_path, root) as session:
        session.commit("x", a__txt="x\n")
        session.let_agent("branch", "new")
        session.let_agent("tag", "v1")
        session.let_agent("branch", "-D", "gone")
        told = {one.name: one.motion for one in session.look().found.refs}

    assert told == {
        "refs/heads/main": Motion.MOVED,
        "refs/heads/new": Motion.NEW,
        "refs/tags/v1": Motion.NEW,
        "refs/heads/gone": Motion.DELETED,
    }


def test_only_the_agents_own_stashes_are_told(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    (root / "a.txt").write_text("mine\n")
    git(root, "stash", "push", "-m", "the user's")
    with GitSession(tmp_path, root) as session:
        session.write("a.txt", "agent\n")
        session.let_agent("stash", "push", "-m", "the agent's")
        told = session.look().found

    assert [one.subject for one in told.stashes] == ["On main: the agent's"]
    assert told.commits == ()


def test_a_rebase_that_stopped_is_named(session: GitSession) -> None:
    session.commit("one", a__txt="one\n")
    session.let_agent("checkout", "-q", "-b", "x", "HEAD~1")
    session.commit("two", a__txt="two\n")
    with pytest.raises(AssertionError, match="CONFLICT"):
        session.let_agent("rebase", "main")
    alternates = session.common / "objects/info/alternates"
    assert alternates.exists()

    assert session.look().found.unfinished == ("rebase",)


def test_a_work_tree_that_is_the_last_commit_leaves_nothing(session: GitSession) -> None:
    session.commit("x", a__txt="x\n", new="n\n")
    session.end()

    assert session.look().uncommitted == ()


def test_what_is_in_no_commit_is_named(session: GitSession) -> None:
    session.commit("x", a__txt="x\n", deep___one="1\n")
    session.write("a.txt", "more\n")
    session.write("loose", "l\n")
    (session.agent / "deep/one").unlink()
    session.end()

    assert session.look().uncommitted == (b"a.txt", b"deep/one", b"loose")


def test_a_file_taken_back_after_its_commit_is_named(session: GitSession) -> None:
    session.commit("x", a__txt="x\n")
    session.let_agent("checkout", "HEAD~1", "--", "a.txt")
    session.end()

    assert session.look().uncommitted == (b"a.txt",)


def test_what_git_ignores_is_not_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    (root / ".gitignore").write_text("*.o\n")
    commit(root, "ignore")
    with GitSession(tmp_path, root) as session:
        session.write("x.o", "x")
        session.end()
        assert session.look().uncommitted == ()


def test_line_ends_that_git_would_turn_are_no_difference(session: GitSession) -> None:
    session.let_agent("config", "core.autocrlf", "true")
    session.commit("x", a__txt="one\r\ntwo\r\n")
    session.end()

    assert session.look().uncommitted == ()


def test_commits_that_hold_what_the_user_had_not_committed_are_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    (root / "a.txt").write_text("more\nmine\n")
    (root / "untracked").write_text("mine\n")
    with GitSession(tmp_path, root) as session:
        (session.agent / "other").write_text("x")
        session.let_agent("add", "other")
        session.let_agent("commit", "-q", "-m", "without")
        with_it = session.commit("with", a__txt="more\nmine\nagent\n")
        session.end()
        looked = session.look()

    assert looked.holds == {with_it: (b"a.txt", b"untracked")}


def test_a_commit_that_took_the_users_edit_away_does_not_hold_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    (root / "a.txt").write_text("more\nmine\n")
    with GitSession(tmp_path, root) as session:
        session.commit("x", a__txt="more\nagent\n")
        session.end()

        assert session.look().holds == {}


def test_a_commit_that_lies_about_its_id_is_refused(session: GitSession) -> None:
    from agent_dev.errors import CommandFailed

    made = session.commit("x", a__txt="x\n")
    other = session.let_agent("commit-tree", "-m", "forged", "HEAD^{tree}").strip()
    objects = session.common / "objects"
    place = objects / made[:2] / made[2:]
    place.chmod(0o644)
    place.write_bytes((objects / other[:2] / other[2:]).read_bytes())

    with pytest.raises(CommandFailed):
        session.look()
