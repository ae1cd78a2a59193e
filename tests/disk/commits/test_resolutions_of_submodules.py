"""Conflicts of submodules that both sides moved are resolved by side; each side is shown with its old and new commit."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_dev.merge.review import Review
from tests.disk.commits.resolution_texts import AGENT, USER_SIDE, commit, head, users_repository
from tests.harness.commit_conflicts import BOTH, THEIRS, YOURS, import_with_conflicts, resolve, review_opener, start_import
from tests.harness.git.git_session import GitSession
from tests.harness.repository import git
from tui.model.conflict import whole_file_document
from tui.model.document import DiffOptions
from tui.source import ConflictResolution

START = "1" * 40
Run = Callable[..., str]
Action = Callable[[Run], object]


def point(run: Run, oid: str, name: str = "lib") -> None:
    """Set the commit of a submodule in the index."""
    run("update-index", "--add", "--cacheinfo", f"160000,{oid},{name}")


def drop(run: Run) -> None:
    run("update-index", "--force-remove", "lib")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = users_repository(tmp_path / "root")
    point(partial(git, root), START)
    git(root, "commit", "-qm", "a submodule")
    return root


def let(run: Run, action: Action, subject: str) -> None:
    action(run)
    run("commit", "-qm", subject)


def at(root: Path, where: str = "HEAD", name: str = "lib") -> str:
    """Return the commit of a submodule in a commit, or "" without one."""
    row = git(root, "ls-tree", where, name).split()
    return row[2] if row else ""


def to(oid: str, name: str = "lib") -> Action:
    return partial(point, oid=oid, name=name)


def add_objects(source: Path, place: Path) -> None:
    for one in source.glob("??/*"):
        (place / one.parent.name).mkdir(exist_ok=True)
        if not (place / one.parent.name / one.name).exists():
            (place / one.parent.name / one.name).write_bytes(one.read_bytes())


ACTIONS: dict[str, tuple[Action, Action, str, str, str]] = {
    "both moved it": (to("3" * 40), to("2" * 40), "lib", "2" * 40, "3" * 40),
    "the agent removed it": (drop, to("2" * 40), "lib", "2" * 40, ""),
    "you removed it": (to("3" * 40), drop, "lib", "", "3" * 40),
    "both added it": (to("3" * 40, "more"), to("2" * 40, "more"), "more", "2" * 40, "3" * 40),
}


@pytest.mark.parametrize("what", ACTIONS)
@pytest.mark.parametrize("answer", [YOURS, THEIRS], ids=["yours", "theirs"])
def test_a_submodule_conflict_is_resolved_by_side(
    session: GitSession, review: Callable[[], Review], what: str, answer: ConflictResolution
) -> None:
    theirs, yours, name, yours_at, theirs_at = ACTIONS[what]
    session.write("new", "n\n")
    session.run_agent_git("add", "new")
    let(session.run_agent_git, theirs, "agent")
    let(partial(git, session.root), yours, "mine")
    now, files = head(session.root), session.files()
    source = import_with_conflicts(session, review)
    assert [change.key.path for change in source.changes.changes] == [name.encode()]
    ended = resolve(source, {name.encode(): answer})

    assert (ended.may_have_changed, ended.code) == (True, 0)
    assert git(session.root, "rev-parse", "HEAD^").strip() == now
    assert at(session.root, name=name) == (yours_at if answer == YOURS else theirs_at)
    assert git(session.root, "diff", "--cached", "--ignore-submodules=none") == ""
    assert git(session.root, "fsck", "--strict", "--no-dangling") == ""
    session.undo()
    assert (head(session.root), session.files()) == (now, files)
    assert git(session.root, "diff", "--cached", "--ignore-submodules=none") == ""


def test_neither_both_nor_bytes_resolve_a_submodule(session: GitSession, review: Callable[[], Review]) -> None:
    let(session.run_agent_git, to("3" * 40), "agent")
    let(partial(git, session.root), to("2" * 40), "mine")
    source = import_with_conflicts(session, review)
    key = source.changes.changes[0].key
    assert (source.yours_content(key), source.read_content(key)[1]) == (
        b"a submodule at " + b"2" * 40,
        b"a submodule at " + b"3" * 40,
    )
    shown = whole_file_document(
        source.changes.changes[0], (), (source.yours_content(key), source.read_content(key)[1]), (), DiffOptions(200)
    )
    assert [row.text for row in shown.rows][-2:] == [
        f"yours: a submodule at {'2' * 40}",
        f"agent: a submodule at {'3' * 40}",
    ]
    assert (source.resolve(key, BOTH), source.resolve(key, b"2")) == (None, None)


def test_submodule_and_line_conflicts_are_resolved_together(session: GitSession, review: Callable[[], Review]) -> None:
    session.write("text", AGENT)
    session.run_agent_git("add", "text")
    let(session.run_agent_git, to("3" * 40), "agent")
    point(partial(git, session.root), "2" * 40)
    commit(session.root, "mine", text=USER_SIDE)
    point(partial(git, session.root), "2" * 40)
    git(session.root, "commit", "-q", "--amend", "-m", "mine")
    assert resolve(import_with_conflicts(session, review), {b"lib": THEIRS, b"text": YOURS}).may_have_changed

    assert at(session.root) == "3" * 40
    assert (session.root / "text").read_text() == USER_SIDE.replace("seven", "SEVEN")


@pytest.mark.parametrize("answer", [YOURS, THEIRS], ids=["yours", "theirs"])
def test_a_staged_submodule_conflict_is_resolved_too(
    session: GitSession, review: Callable[[], Review], answer: ConflictResolution
) -> None:
    let(session.run_agent_git, to("3" * 40), "agent")
    point(partial(git, session.root), "2" * 40)
    source = import_with_conflicts(session, review)
    assert "staged" in str(source.changes.changes[0].conflict)
    assert resolve(source, {b"lib": answer}).may_have_changed

    assert at(session.root) == "3" * 40
    assert git(session.root, "ls-files", "-s", "lib").split()[1] == ("2" * 40 if answer == YOURS else "3" * 40)
    session.undo()
    assert at(session.root) == START
    assert git(session.root, "ls-files", "-s", "lib").split()[1] == "2" * 40


def test_a_file_that_replaced_a_submodule_is_reported(session: GitSession, review: Callable[[], Review]) -> None:
    drop(session.run_agent_git)
    session.write("lib", "no submodule\n")
    session.run_agent_git("add", "lib")
    session.run_agent_git("commit", "-qm", "agent")
    let(partial(git, session.root), to("2" * 40), "mine")
    session.end()
    ended, source = start_import(session, review())

    assert (ended.may_have_changed, source) == (False, None)
    assert any(line.startswith("conflict: lib") for line in ended.lines)


def test_the_submodule_commits_of_both_sides_are_listed(tmp_path: Path) -> None:
    root, library = users_repository(tmp_path / "root"), users_repository(tmp_path / "library")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    commit(root, "a submodule")
    start = head(library)
    with GitSession(tmp_path, root) as session, review_opener(session) as review:
        theirs = commit(library, "theirs \x1b[31m red", text=AGENT)
        git(library, "checkout", "-q", start)
        yours = commit(library, "mine", text=USER_SIDE)
        for place in (session.common, root / ".git"):
            add_objects(library / ".git/objects", place / "modules/lib/objects")
        let(session.run_agent_git, to(theirs), "agent")
        let(partial(git, root), to(yours), "mine")
        conflict = str(import_with_conflicts(session, review).changes.changes[0].conflict)
        assert [left.reason for left in session.import_commits(onto_current=True).conflicts] == [conflict]

    assert f"yours {start[:10]} → {yours[:10]} (mine)" in conflict
    assert f"the agent's {start[:10]} → {theirs[:10]} (theirs \u241b[31m red)" in conflict
