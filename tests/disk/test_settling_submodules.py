"""Submodules that commits and the user both moved are settled by sides, each told from where to where with its log."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent_dev.merge.review import Review
from tests.disk.settling_texts import AGENT, MINE, commit, head, users_repository
from tests.harness.git_session import GitSession
from tests.harness.repository import git
from tests.harness.settling import BOTH, THEIRS, YOURS, begin, meet, reviews, settle
from tui.model.conflict import of_wholes
from tui.model.document import Look
from tui.source import Answers

START = "1" * 40
Run = Callable[..., str]
Deed = Callable[[Run], object]


def point(run: Run, oid: str, name: str = "lib") -> None:
    """Let a submodule be at a commit."""
    run("update-index", "--add", "--cacheinfo", f"160000,{oid},{name}")


def drop(run: Run) -> None:
    run("update-index", "--force-remove", "lib")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = users_repository(tmp_path / "root")
    point(partial(git, root), START)
    git(root, "commit", "-qm", "a submodule")
    return root


def let(run: Run, deed: Deed, subject: str) -> None:
    deed(run)
    run("commit", "-qm", subject)


def at(root: Path, where: str = "HEAD", name: str = "lib") -> str:
    """Return the commit that a submodule is at in a commit, "" for none."""
    row = git(root, "ls-tree", where, name).split()
    return row[2] if row else ""


def to(oid: str, name: str = "lib") -> Deed:
    return partial(point, oid=oid, name=name)


def add_objects(source: Path, place: Path) -> None:
    for one in source.glob("??/*"):
        (place / one.parent.name).mkdir(exist_ok=True)
        if not (place / one.parent.name / one.name).exists():
            (place / one.parent.name / one.name).write_bytes(one.read_bytes())


DEEDS: dict[str, tuple[Deed, Deed, str, str, str]] = {
    "both moved it": (to("3" * 40), to("2" * 40), "lib", "2" * 40, "3" * 40),
    "the agent removed it": (drop, to("2" * 40), "lib", "2" * 40, ""),
    "you removed it": (to("3" * 40), drop, "lib", "", "3" * 40),
    "both added it": (to("3" * 40, "more"), to("2" * 40, "more"), "more", "2" * 40, "3" * 40),
}


@pytest.mark.parametrize("what", DEEDS)
@pytest.mark.parametrize("answer", [YOURS, THEIRS], ids=["yours", "theirs"])
def test_a_submodule_is_settled_by_sides(session: GitSession, review: Callable[[], Review], what: str, answer: Answers) -> None:
    theirs, mine, name, yours_at, theirs_at = DEEDS[what]
    session.write("new", "n\n")
    session.let_agent("add", "new")
    let(session.let_agent, theirs, "agent")
    let(partial(git, session.root), mine, "mine")
    now, files = head(session.root), session.files()
    source = meet(session, review)
    assert [change.key.path for change in source.changes.changes] == [name.encode()]
    ended = settle(source, {name.encode(): answer})

    assert (ended.is_done, ended.code) == (True, 0)
    assert git(session.root, "rev-parse", "HEAD^").strip() == now
    assert at(session.root, name=name) == (yours_at if answer == YOURS else theirs_at)
    assert git(session.root, "diff", "--cached", "--ignore-submodules=none") == ""
    assert git(session.root, "fsck", "--strict", "--no-dangling") == ""
    session.undo()
    assert (head(session.root), session.files()) == (now, files)
    assert git(session.root, "diff", "--cached", "--ignore-submodules=none") == ""


def test_neither_both_nor_bytes_settle_a_submodule(session: GitSession, review: Callable[[], Review]) -> None:
    let(session.let_agent, to("3" * 40), "agent")
    let(partial(git, session.root), to("2" * 40), "mine")
    source = meet(session, review)
    key = source.changes.changes[0].key
    assert (source.mine(key), source.content(key)[1]) == (b"a submodule at " + b"2" * 40, b"a submodule at " + b"3" * 40)
    shown = of_wholes(source.changes.changes[0], (), (source.mine(key), source.content(key)[1]), (), Look(200))
    assert [row.text for row in shown.rows][-2:] == [
        f"yours:       a submodule at {'2' * 40}",
        f"the agent's: a submodule at {'3' * 40}",
    ]
    assert (source.settle(key, BOTH), source.settle(key, b"2")) == (None, None)


def test_a_submodule_and_lines_are_settled_together(session: GitSession, review: Callable[[], Review]) -> None:
    session.write("text", AGENT)
    session.let_agent("add", "text")
    let(session.let_agent, to("3" * 40), "agent")
    point(partial(git, session.root), "2" * 40)
    commit(session.root, "mine", text=MINE)
    point(partial(git, session.root), "2" * 40)
    git(session.root, "commit", "-q", "--amend", "-m", "mine")
    assert settle(meet(session, review), {b"lib": THEIRS, b"text": YOURS}).is_done

    assert at(session.root) == "3" * 40
    assert (session.root / "text").read_text() == MINE.replace("seven", "SEVEN")


@pytest.mark.parametrize("answer", [YOURS, THEIRS], ids=["yours", "theirs"])
def test_a_submodule_that_is_staged_is_settled_too(session: GitSession, review: Callable[[], Review], answer: Answers) -> None:
    let(session.let_agent, to("3" * 40), "agent")
    point(partial(git, session.root), "2" * 40)
    source = meet(session, review)
    assert "staged" in str(source.changes.changes[0].conflict)
    assert settle(source, {b"lib": answer}).is_done

    assert at(session.root) == "3" * 40
    assert git(session.root, "ls-files", "-s", "lib").split()[1] == ("2" * 40 if answer == YOURS else "3" * 40)
    session.undo()
    assert at(session.root) == START
    assert git(session.root, "ls-files", "-s", "lib").split()[1] == "2" * 40


def test_a_file_that_took_the_place_of_a_submodule_is_told(session: GitSession, review: Callable[[], Review]) -> None:
    drop(session.let_agent)
    session.write("lib", "no submodule\n")
    session.let_agent("add", "lib")
    session.let_agent("commit", "-qm", "agent")
    let(partial(git, session.root), to("2" * 40), "mine")
    session.end()
    ended, source = begin(session, review())

    assert (ended.is_done, source) == (False, None)
    assert any(line.startswith("conflict: lib") for line in ended.lines)


def test_what_lies_between_is_told_of_both_sides(tmp_path: Path) -> None:
    root, library = users_repository(tmp_path / "root"), users_repository(tmp_path / "library")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    commit(root, "a submodule")
    start = head(library)
    with GitSession(tmp_path, root) as session, reviews(session) as review:
        theirs = commit(library, "theirs \x1b[31m red", text=AGENT)
        git(library, "checkout", "-q", start)
        mine = commit(library, "mine", text=MINE)
        for place in (session.common, root / ".git"):
            add_objects(library / ".git/objects", place / "modules/lib/objects")
        let(session.let_agent, to(theirs), "agent")
        let(partial(git, root), to(mine), "mine")
        conflict = str(meet(session, review).changes.changes[0].conflict)
        assert [left.why for left in session.bring(onto_current=True).conflicts] == [conflict]

    assert f"yours {start[:10]} → {mine[:10]} (mine)" in conflict
    assert f"the agent's {start[:10]} → {theirs[:10]} (theirs \u241b[31m red)" in conflict
