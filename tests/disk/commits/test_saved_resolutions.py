"""Resolutions of commit conflicts are saved for the next review and apply only to the conflict that was shown."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_dev.cli.screen.conflict_source import ConflictSource
from agent_dev.commits import saved_resolutions
from agent_dev.commits.saved_resolutions import SavedResolutions
from agent_dev.diff.merge3 import ConflictSide
from agent_dev.fs.entry import Key
from agent_dev.git.merge_tree_conflict import PathConflict
from agent_dev.merge import resolution_codec
from agent_dev.merge.review import Review
from agent_dev.overlay.selection import Selection
from tests.harness.commit_conflicts import THEIRS, YOURS, import_with_conflicts, make_users_repository, resolve, start_import
from tests.harness.git.git_session import GitSession
from tests.harness.repository import commit
from tui.source import Draft

LINES = "".join(f"line {number}\n" for number in range(9))
AGENT, USER_SIDE = (LINES.replace("line 4", who).replace("line 7", f"{who} 7") for who in ("AGENT", "MINE"))
TEXT, OTHER = Key(0, b"text"), Key(0, b"other")
CONFLICT = PathConflict(b"a\xff\n", (0o100644, "a" * 40), (0o100755, "b" * 40), (0, ""))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[GitSession]:
    with GitSession(tmp_path, make_users_repository(tmp_path / "root", text=LINES, other=LINES)) as opened:
        yield opened


def in_the_way(session: GitSession, review: Callable[[], Review]) -> ConflictSource:
    session.commit("one", text=AGENT, other=AGENT)
    for name in ("text", "other"):
        (session.root / name).write_text(USER_SIDE)
    commit(session.root, "mine")
    return import_with_conflicts(session, review)


def again(session: GitSession, review: Callable[[], Review]) -> ConflictSource:
    """Start the import again; return its conflicts."""
    _, source = start_import(session, review())
    assert source is not None
    return source


def clean(source: ConflictSource) -> set[bytes]:
    return {change.key.path for change in source.changes.changes if change.is_clean}


def test_a_resolution_is_reused_for_the_same_conflict(session: GitSession, review: Callable[[], Review]) -> None:
    first = in_the_way(session, review)
    first.resolve(TEXT, (ConflictSide.AGENT, ConflictSide.YOURS))
    first.save_draft(
        Draft(
            Selection(frozenset((TEXT,))),
            cursor=OTHER,
            resolutions={TEXT: (ConflictSide.AGENT, ConflictSide.YOURS), OTHER: (None, ConflictSide.BOTH)},
        )
    )
    second = again(session, review)

    assert clean(second) == {b"text"}
    assert (second.draft.selection.keys, second.draft.cursor) == (frozenset((TEXT,)), OTHER)
    assert second.draft.resolutions == {TEXT: (ConflictSide.AGENT, ConflictSide.YOURS), OTHER: (None, ConflictSide.BOTH)}
    second.resolve(OTHER, b"by hand\n")
    assert second.merge(Selection(frozenset((TEXT, OTHER))), lambda _done, _whole: None).may_have_changed
    assert (session.root / "text").read_text() == AGENT.replace("AGENT 7", "MINE 7")
    assert (session.root / "other").read_text() == "by hand\n"
    assert not (Path(session.session.folder) / "conflicts.json").exists()


def test_a_resolution_from_an_editor_is_kept_too(session: GitSession, review: Callable[[], Review]) -> None:
    first = in_the_way(session, review)
    first.resolve(TEXT, b"by hand\n")
    first.save_draft(Draft(Selection(frozenset((TEXT,))), resolutions={TEXT: (None, ConflictSide.YOURS)}))

    assert clean(again(session, review)) == {b"text"}


def test_a_withdrawn_resolution_stays_withdrawn(session: GitSession, review: Callable[[], Review]) -> None:
    first = in_the_way(session, review)
    first.resolve(TEXT, (ConflictSide.AGENT, ConflictSide.YOURS))
    first.save_draft(Draft())

    assert again(session, review).draft.selection.keys == frozenset()


def test_a_resolution_is_not_reused_for_a_changed_conflict(session: GitSession, review: Callable[[], Review]) -> None:
    first = in_the_way(session, review)
    first.resolve(TEXT, (ConflictSide.AGENT, ConflictSide.YOURS))
    first.save_draft(Draft(Selection(frozenset((TEXT,)))))
    (session.root / "text").write_text(USER_SIDE + "more\n")
    commit(session.root, "more")

    assert clean(again(session, review)) == set()


def test_resolutions_of_an_earlier_commit_survive_quitting_at_a_later_one(
    session: GitSession, review: Callable[[], Review]
) -> None:
    session.commit("one", text=AGENT)
    session.commit("two", other=AGENT)
    for name in ("text", "other"):
        (session.root / name).write_text(USER_SIDE)
    commit(session.root, "mine")
    first = import_with_conflicts(session, review)
    resolve(first, {b"text": THEIRS * 2})
    later = first.next_conflicts()
    assert later is not None
    later.resolve(OTHER, YOURS * 2)
    later.save_draft(Draft(Selection(frozenset((OTHER,)))))
    second = again(session, review)

    assert (clean(second), second.draft.selection.keys) == ({b"text"}, frozenset((TEXT,)))
    second.merge(Selection(frozenset((TEXT,))), lambda _done, _whole: None)
    last = second.next_conflicts()
    assert last is not None
    assert (clean(last), last.draft.selection.keys) == ({b"other"}, frozenset((OTHER,)))


@pytest.mark.parametrize("given", [b"\xff", (), (ConflictSide.YOURS, None, b"x", ConflictSide.BOTH, ConflictSide.AGENT)])
def test_every_resolution_round_trips(tmp_path: Path, given: resolution_codec.FileResolution) -> None:
    kept = SavedResolutions({CONFLICT: given}, frozenset((CONFLICT,)), CONFLICT.path)
    saved_resolutions.save_resolutions(str(tmp_path), kept)
    assert saved_resolutions.load_resolutions(str(tmp_path)) == kept
    saved_resolutions.save_resolutions(str(tmp_path), SavedResolutions())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1, "at": "", "answers": [[1]]}', '{"version": 1}'])
def test_unreadable_sides_keep_no_resolution(tmp_path: Path, text: str) -> None:
    (tmp_path / "conflicts.json").write_text(text)
    assert saved_resolutions.load_resolutions(str(tmp_path)) == SavedResolutions()
