"""Conflicts of commits about renames, deletions and file types are resolved path by path; random texts are compared with git."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.cli.screen.conflict_source import ConflictSource
from agent_dev.diff.merge3 import ConflictSide, LineMerge
from agent_dev.fs.entry import Key
from agent_dev.merge.review import Review
from tests.disk.commits.resolution_texts import LINES, USER_SIDE, commit, head, renamed, users_repository
from tests.harness.commit_conflicts import BOTH, THEIRS, YOURS, import_with_conflicts, resolve
from tests.harness.git.git_session import GitSession
from tests.harness.repository import git
from tests.harness.scale import seeded_random
from tui.model.tabs import ImportMode
from tui.source import ConflictResolution


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return users_repository(tmp_path / "root")


Action = Callable[[Path], object]


def removed(place: Path) -> None:
    (place / "text").unlink()


def linked(place: Path) -> None:
    removed(place)
    (place / "text").symlink_to("bin")


def edited(place: Path) -> None:
    (place / "text").write_text(USER_SIDE)


def in_line_seven(place: Path) -> None:
    (place / "text").write_text(LINES.replace("seven", "SEVEN"))


def after(one: Action, other: Action) -> Action:
    return lambda place: (other(place), one(place))


def made_a_directory(place: Path) -> None:
    removed(place)
    (place / "text").mkdir()
    (place / "text/inside").write_text("i\n")


# The change of the agent, that of the user, the resolution of each path, and the expected content of "text" and of new names.
LINK = "→ bin"
TWICE = USER_SIDE.replace("seven", "SEVEN")
OTHERS: dict[str, tuple[Action, Action, dict[bytes, ConflictResolution], dict[str, str]]] = {
    "two new names, yours": (renamed("one"), renamed("other"), {b"one": YOURS, b"other": YOURS}, {"other": LINES}),
    "two new names, the agent's": (renamed("one"), renamed("other"), {b"one": THEIRS, b"other": THEIRS}, {"one": LINES}),
    "two new names, both": (renamed("one"), renamed("other"), {b"one": THEIRS, b"other": YOURS}, {"one": LINES, "other": LINES}),
    "two new names and lines": (
        after(renamed("one"), in_line_seven),
        after(renamed("other"), edited),
        {b"one": THEIRS, b"other": YOURS},
        {"one": TWICE, "other": TWICE},
    ),
    "a new name, or removed": (renamed("one"), removed, {b"one": THEIRS}, {"one": LINES}),
    "removed, or a new name": (removed, renamed("one"), {b"one": THEIRS}, {}),
    "removed, and a new name": (removed, renamed("one"), {b"one": YOURS}, {"one": LINES}),
    "a link, yours lines": (linked, edited, {b"text": YOURS}, {"text": USER_SIDE}),
    "a link, the agent's": (linked, edited, {b"text": THEIRS}, {"text": LINK}),
    "a link, and lines": (linked, edited, {b"text": BOTH}, {"text": USER_SIDE, "text~agent": LINK}),
    "lines, and a link": (edited, linked, {b"text": BOTH}, {"text": LINK, "text~agent": USER_SIDE}),
    "a directory, yours a file": (made_a_directory, edited, {b"text": YOURS}, {"text": USER_SIDE}),
    "a directory, not yours": (made_a_directory, edited, {b"text": THEIRS}, {"text/inside": "i\n"}),
    "a directory, and a file": (made_a_directory, edited, {b"text": BOTH}, {"text/inside": "i\n", "text~yours": USER_SIDE}),
    "yours a directory": (edited, made_a_directory, {b"text": YOURS}, {"text/inside": "i\n"}),
    "a file, yours a directory": (edited, made_a_directory, {b"text": THEIRS}, {"text": USER_SIDE}),
    "a file, and a directory": (edited, made_a_directory, {b"text": BOTH}, {"text/inside": "i\n", "text~agent": USER_SIDE}),
}


def texts(root: Path) -> dict[str, str]:
    """Return the contents of the files that the conflicts concern; of a link, its target."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(("text", "one", "other")) and not (path.is_dir() and not path.is_symlink()):
            found[name] = f"→ {path.readlink()}" if path.is_symlink() else path.read_text()
    return found


@pytest.mark.parametrize("name", OTHERS)
def test_conflicts_of_several_files_are_resolved_path_by_path(
    session: GitSession, review: Callable[[], Review], name: str
) -> None:
    theirs, yours, answers, landed = OTHERS[name]
    theirs(session.agent)
    session.commit("one", more="m\n")
    yours(session.root)
    now = commit(session.root, "mine")
    before = session.files()
    source = import_with_conflicts(session, review)
    assert {change.key.path for change in source.changes.changes} == answers.keys()
    ended = resolve(source, answers)

    assert (ended.may_have_changed, ended.code) == (True, 0)
    assert git(session.root, "rev-parse", "HEAD^").strip() == now
    assert texts(session.root) == landed
    assert git(session.root, "status", "--porcelain") == ""
    assert git(session.root, "fsck", "--strict", "--no-dangling") == ""
    session.undo()
    assert (head(session.root), session.files()) == (now, before)


def test_both_saves_the_agents_version_under_a_free_name(session: GitSession, review: Callable[[], Review]) -> None:
    linked(session.agent)
    session.commit("one", **{"text~agent": "there already\n"})
    edited(session.root)
    commit(session.root, "mine")

    assert resolve(import_with_conflicts(session, review), {b"text": BOTH}).may_have_changed
    assert texts(session.root) == {"text": USER_SIDE, "text~agent": "there already\n", "text~agent~": LINK}


@pytest.mark.parametrize("way", [ImportMode.ONTO_BRANCH, ImportMode.SQUASHED])
def test_the_result_equals_gits_for_the_same_resolutions(
    session: GitSession, review: Callable[[], Review], way: ImportMode
) -> None:
    chance = seeded_random()

    def changed(text: str, name: str) -> str:
        lines = [f"{name} {number}" if chance.random() < 0.3 else line for number, line in enumerate(text.splitlines())]
        return "\n".join([*lines[:2], f"{name} conflicts", *lines[3:]]) + "\n"

    one = changed(LINES, "agent")
    session.commit("one", text=one)
    session.commit("two", text=one.replace("agent conflicts", "agent conflicts, too"))
    yours = changed(LINES, "mine")
    commit(session.root, "mine", text=yours)
    expected = _by_git(session.root, yours, one, one.replace("agent conflicts", "agent conflicts, too"))
    source: ConflictSource | None = import_with_conflicts(session, review, way)
    while source is not None:
        ended = resolve(source, {b"text": _merged(source).default_resolutions(ConflictSide.AGENT)})
        source = source.next_conflicts()

    assert ended.may_have_changed
    assert (session.root / "text").read_text() == expected


def _merged(source: ConflictSource) -> LineMerge:
    found = source.line_merge(Key(0, b"text"))
    assert found is not None
    return found


def _by_git(root: Path, yours: str, *agents: str) -> str:
    """Return the result of `git merge-file --theirs`, applied for each version of the agent in turn."""
    base, now = LINES, yours
    for agent in agents:
        for name, text in (("base", base), ("now", now), ("agent", agent)):
            (root.parent / f"{name}.txt").write_text(text)
        now = git(root.parent, "merge-file", "-p", "--diff3", "--theirs", "now.txt", "base.txt", "agent.txt")
        base = agent
    return now
