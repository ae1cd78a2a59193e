"""Renamed files of a commit are one line, `old → new`, in lists, JSON and patches, by git's detection."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.cli.render import commits as output
from agent_dev.cli.screen import commits_reader
from agent_dev.commits import commit_patch
from agent_dev.commits.prefetch import start_queries
from agent_dev.session import store
from tests.harness.git.git_session import GitSession
from tests.harness.repository import ENVIRON, commit, repository

LINES = "".join(f"line {number}\n" for number in range(20))
EDITED = LINES.replace("line 3\n", "three\n")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    root = repository(tmp_path / "root")
    (root / "old.txt").write_text(LINES)
    commit(root, "lines")
    with GitSession(tmp_path, root) as opened:
        yield opened


def move(session: GitSession, new: str, text: str = EDITED) -> str:
    """Rename a file as the agent, with an edit and a new file in the same commit; return the commit's id."""
    (session.agent / "old.txt").unlink()
    session.write(new, text)
    session.write("more", "more\n")
    session.run_agent_git("add", "-A")
    session.run_agent_git("commit", "-qm", "move")
    return session.run_agent_git("rev-parse", "HEAD").strip()


def set_similarity(session: GitSession, percent: int) -> None:
    session.record["rename_similarity"] = percent
    store.write_record(session.session, session.record)


def rows(session: GitSession) -> list[str]:
    """Return the files of the newest commit as `commits` lists them."""
    report = session.inspect()
    return [*output.describe_commit(report.changes.commits[0], report)][1:]


def test_a_renamed_file_is_one_line(session: GitSession) -> None:
    move(session, "sub/new.txt")
    session.end()
    assert rows(session) == ["+ more", "→ old.txt → sub/new.txt"]


@pytest.mark.parametrize(("percent", "is_renamed"), [(0, False), (50, True), (100, False)])
def test_the_configured_similarity_decides(session: GitSession, percent: int, *, is_renamed: bool) -> None:
    set_similarity(session, percent)
    oid = move(session, "new.txt")
    session.end()
    assert (rows(session) == ["+ more", "→ old.txt → new.txt"]) is is_renamed
    with start_queries(session.session, session.record, ENVIRON) as queries:
        ((made, patch),) = commit_patch.read_patches(queries[0], oid)
    assert made.id == oid
    assert (b"rename from old.txt\nrename to new.txt\n" in patch) is is_renamed
    assert (b"deleted file mode" in patch) is not is_renamed


def test_json_names_the_old_path(session: GitSession, capsys: pytest.CaptureFixture[str]) -> None:
    move(session, "new.txt")
    session.end()
    output.print_commits([session.inspect()], "s", as_json=True)
    (made,) = json.loads(capsys.readouterr().out)["commits"]
    assert made["files"] == [
        {"path": "more", "kind": "added", "from": None, "risks": []},
        {"path": "new.txt", "kind": "renamed", "from": "old.txt", "risks": []},
    ]


def test_the_screen_lists_and_shows_the_rename(session: GitSession) -> None:
    move(session, "new.txt")
    session.end()
    review = session.review()
    try:
        entry = commits_reader.describe_commits(review)[0]
    finally:
        review.close()
    assert "→ old.txt → new.txt" in entry.details
    assert "- old.txt" not in entry.details
    assert "rename to new.txt" in entry.details


def test_hostile_names_are_escaped_on_both_sides(session: GitSession) -> None:
    move(session, "new\x1b[2J\n:R")
    session.end()
    (row,) = (one for one in rows(session) if one.startswith("→"))
    assert ("\x1b" in row, "\n" in row, row.startswith("→ old.txt → new")) == (False, False, True)


def test_risks_of_both_paths_are_shown(session: GitSession) -> None:
    (session.agent / "old.txt").unlink()
    session.write(".github/workflows/x.yml", LINES)
    session.run_agent_git("add", "-A")
    session.run_agent_git("commit", "-qm", "move")
    session.end()
    (row,) = rows(session)
    assert row.startswith("→ old.txt → .github/workflows/x.yml ! ")
