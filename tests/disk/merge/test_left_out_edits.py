"""Edits of the agent's that are left out of a file with conflicts: they stay in the session, and an undo restores everything."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent_dev.cli.screen.review_source import ReviewSource
from agent_dev.diff.hunks import find_hunks
from agent_dev.diff.merge3 import ConflictSide, LineConflict, LineMerge
from agent_dev.fs.entry import Key
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import ChangeKind
from agent_dev.overlay.selection import Selection
from tests.harness.ended_session import EndedSession
from tests.harness.trees import FILE, Node, UpperEntry
from tui.source import Draft

X = Key(0, b"x")
YOURS, AGENT, BOTH = ConflictSide.YOURS, ConflictSide.AGENT, ConflictSide.BOTH
BASE = b"".join(b"line %d\n" % number for number in range(30))
USER_SIDE = BASE.replace(b"line 10\n", b"mine 10\n").replace(b"line 29\n", b"mine 29\n")


def agents(*numbers: int) -> bytes:
    """Return the agent's file with some of its edits; that of line 10 is in conflict."""
    text = BASE
    for number in numbers:
        text = text.replace(b"line %d\n" % number, b"agent %d\n" % number)
    return text


@pytest.fixture
def session(tmp_path: Path) -> Iterator[EndedSession]:
    with EndedSession(tmp_path, {b"x": Node(FILE, BASE)}, [UpperEntry(b"x", Node(FILE, agents(3, 10, 20, 25)))]) as made:
        (made.real / "x").write_bytes(USER_SIDE)
        yield made


def silent(_done: int, _whole: int) -> None:
    return


def merge(session: EndedSession, *answers: ConflictSide) -> None:
    """Resolve the file as on the screen and apply it."""
    review = session.review()
    source = ReviewSource(review, session.store)
    assert source.resolve(X, answers) is not None
    ended = source.merge(Selection(frozenset((X,))), silent)
    review.close()
    assert ended.code == 0, ended.lines


def text(session: EndedSession) -> bytes:
    return (session.real / "x").read_bytes()


def remaining(session: EndedSession) -> tuple[bytes | None, bytes | None]:
    review = session.review()
    found = review.content(X)
    review.close()
    return found


def test_left_out_edits_are_exactly_what_remains(session: EndedSession) -> None:
    merge(session, YOURS, AGENT, AGENT, YOURS)
    assert text(session) == USER_SIDE.replace(b"line 20\n", b"agent 20\n").replace(b"line 10\n", b"agent 10\n").replace(
        b"mine 10\n", b"agent 10\n"
    )
    before, after = remaining(session)
    assert (before, after) == (agents(10, 20), agents(3, 10, 20, 25))
    assert [(one.old_start, one.old_lines) for one in find_hunks(before or b"", after or b"")] == [(3, 1), (25, 1)]
    assert (session.kinds(), session.conflicts()) == ({b"x": ChangeKind.EDITED}, {})


@pytest.mark.parametrize("side", [YOURS, AGENT, BOTH])
def test_the_rest_applied_later_gives_the_full_merge(session: EndedSession, side: ConflictSide) -> None:
    merge(session, YOURS, side, AGENT, YOURS)
    session.merge_all()
    conflict = {YOURS: b"mine 10\n", AGENT: b"agent 10\n", BOTH: b"mine 10\nagent 10\n"}[side]
    assert text(session) == agents(3, 20, 25).replace(b"line 10\n", conflict).replace(b"line 29\n", b"mine 29\n")
    assert session.kinds() == {}


def test_with_every_edit_left_out_only_the_conflict_is_gone(session: EndedSession) -> None:
    merge(session, YOURS, YOURS, YOURS, YOURS)
    assert text(session) == USER_SIDE
    assert (remaining(session)[0], session.conflicts()) == (agents(10), {})


def test_an_undo_restores_the_conflict_and_every_edit(session: EndedSession) -> None:
    before = remaining(session)
    merge(session, YOURS, BOTH, AGENT, YOURS)
    merged = text(session)
    session.undo()
    assert (text(session), remaining(session), session.kinds()) == (USER_SIDE, before, {})
    assert session.conflicts() == {b"x": "you and the agent changed the same lines"}
    session.redo()
    assert text(session) == merged
    assert remaining(session)[0] == agents(10, 20)


def test_your_mode_is_no_remaining_change(session: EndedSession) -> None:
    (session.real / "x").chmod(0o755)
    merge(session, YOURS, AGENT, AGENT, AGENT)
    session.merge_all()
    assert ((session.real / "x").stat().st_mode & 0o777, session.kinds()) == (0o755, {})


@pytest.mark.parametrize("answers", [(YOURS, None, AGENT, AGENT), (AGENT, BOTH, YOURS, AGENT)])
def test_left_out_edits_are_saved_with_the_selection(session: EndedSession, answers: tuple[ConflictSide | None, ...]) -> None:
    review = session.review()
    first = ReviewSource(review, session.store)
    first.save_draft(Draft(Selection(frozenset()), resolutions={X: answers}))
    review.close()
    review = session.review()
    assert ReviewSource(review, session.store).draft.resolutions == {X: answers}
    review.close()


@pytest.mark.parametrize("answers", [(YOURS,), (None,), (YOURS, AGENT, AGENT, AGENT, AGENT), ()])
def test_saved_resolutions_of_another_merge_are_dropped(session: EndedSession, answers: tuple[ConflictSide | None, ...]) -> None:
    review = session.review()
    ReviewSource(review, session.store).save_draft(Draft(Selection(frozenset()), resolutions={X: answers}))
    review.close()
    review = session.review()
    assert ReviewSource(review, session.store).draft.resolutions == {}
    assert [change.conflict is not None for change in review.changes.changes] == [True]
    review.close()


# --- the law ---

EDITS = st.sampled_from(["", "", "", "replace", "delete", "insert"])


def edited(name: str, edits: list[str]) -> bytes:
    """Return the base of distinct lines with edits; each new line is distinct too, so that diffs are unambiguous."""
    lines: list[str] = []
    for number, edit in enumerate(edits):
        lines += [f"{name} {number}"] * (edit in ("replace", "insert")) + [f"line {number}"] * (edit in ("", "insert"))
    return "".join(f"{line}\n" for line in lines).encode()


def draw_resolutions(merged: LineMerge, data: st.DataObject) -> list[ConflictSide]:
    edit = st.sampled_from([YOURS, AGENT])
    return [data.draw(st.sampled_from(ConflictSide) if isinstance(one, LineConflict) else edit) for one in merged.choices]


def merge_of(review: Review) -> LineMerge | None:
    one = review.reconciliations.get(X)
    return one.merged if one else None


@settings(max_examples=40, deadline=None)
@given(st.lists(EDITS, min_size=8, max_size=8), st.lists(EDITS, min_size=8, max_size=8), st.data())
def test_a_merge_in_two_steps_gives_the_full_merge(yours: list[str], agent: list[str], data: st.DataObject) -> None:
    base, theirs = edited("", [""] * 8), edited("agent", agent)
    assume(base != theirs)
    with (
        TemporaryDirectory() as folder,
        EndedSession(Path(folder), {b"x": Node(FILE, base)}, [UpperEntry(b"x", Node(FILE, theirs))]) as session,
    ):
        (session.real / "x").write_bytes(edited("mine", yours))
        review = session.review()
        merged = merge_of(review)
        review.close()
        assume(merged is not None and merged.conflicts)
        assert merged is not None
        answers = draw_resolutions(merged, data)
        merge(session, *answers)
        assert text(session) == merged.resolve(answers)
        assert bool(session.kinds()) is bool(merged.left_out(answers))
        session.merge_all()
        full = [one if isinstance(region, LineConflict) else AGENT for region, one in zip(merged.choices, answers, strict=True)]
        assert (text(session), session.kinds(), session.conflicts()) == (merged.resolve(full), {}, {})
