"""The described outcome of a file changed by both sides: "merged" only if the result has both changes."""

from dataclasses import replace

import pytest

from agent_dev.diff.merge3 import ConflictSide, LineMerge, merge_lines
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.merge.reconcile import Reconciliation, ThreeVersions, reconcile_change, resolve_regions
from agent_dev.merge_engine.merge_plan import RemainderBase
from agent_dev.overlay.changes import Change, ChangeKind, Resolution
from agent_dev.overlay.labels import MergeOutcome
from tests.unit.tui.tui_states import after, change, changes, key
from tui.effects import Resolutions
from tui.events import AllToggled, ChangeUpdated, ConflictResolved
from tui.model import outcome
from tui.page_text.summary import apply_question, apply_summary
from tui.state import State
from tui.update.dispatch import initial_state

FILE = Entry(FileType.FILE)
KEY = Key(0, b"both.txt")
LINES = merge_lines(b"a\n\nb\n\nc\n", b"A\n\nb\n\nC\n", b"1\n\nb\n\n3\n")
EDITED = merge_lines(b"a\n\nb\n", b"A\n\nb\n", b"1\n\n2\n")
USER_SIDE, AGENT, BOTH = ConflictSide.YOURS, ConflictSide.AGENT, ConflictSide.BOTH
TOGETHER = Change(KEY, ChangeKind.EDITED, FILE, FILE, resolution=Resolution.BOTH)
ADDED = Change(KEY, ChangeKind.ADDED, None, FILE, yours=FILE, conflict="both added it")
FITS = "both changes are merged without conflict"


@pytest.mark.parametrize(
    ("merged", "answers", "expected"),
    [
        (None, (), FITS),
        (merge_lines(b"a\n", b"a\n", b"b\n"), (), FITS),
        (None, (AGENT,), "replaces yours with the agent's version (undo restores yours)"),
        (LINES, (AGENT, AGENT), "the agent's lines replace yours (undo restores yours)"),
        (LINES, (USER_SIDE, USER_SIDE), "conflicts: your lines are kept"),
        (LINES, (BOTH, BOTH), "your lines, followed by the agent's"),
        (LINES, (USER_SIDE, AGENT), "2 conflicts: 1 yours, 1 the agent's"),
        (LINES, (), "in an editor"),
        (EDITED, (USER_SIDE, AGENT), "conflict: your lines are kept; the agent's other changes are applied"),
        (EDITED, (AGENT, USER_SIDE), "your other changes are kept; 1 edit of the agent's left out: it stays in the session"),
    ],
)
def test_the_result_line_names_the_side_whose_lines_are_applied(
    merged: LineMerge | None, answers: Resolutions, expected: str
) -> None:
    is_agents = merged is None and answers == (AGENT,)
    printed = outcome.describe_outcome(
        replace(TOGETHER, resolution=Resolution.AGENT if is_agents else Resolution.BOTH), merged, answers
    )
    assert expected in printed
    assert (FITS in printed) is (expected == FITS)


def test_a_dropped_change_and_an_import_have_their_own_result_lines() -> None:
    assert "the agent's change is dropped" in outcome.describe_outcome(
        replace(TOGETHER, resolution=Resolution.YOURS), None, (USER_SIDE,)
    )
    assert "the import writes this result" in outcome.describe_outcome(replace(TOGETHER, is_from_commit=True), None, (AGENT,))


@pytest.mark.parametrize(
    ("resolution", "expected"),
    [
        (Resolution.YOURS, MergeOutcome.KEPT_YOURS),
        (Resolution.AGENT, MergeOutcome.REPLACED_YOURS),
        (Resolution.BOTH, MergeOutcome.MERGED),
    ],
)
def test_each_outcome_has_a_label_in_the_list(resolution: Resolution, expected: MergeOutcome) -> None:
    assert outcome.outcome_of(replace(TOGETHER, resolution=resolution)) is expected


def answered(how: ConflictSide) -> State:
    """Return the screen with one plain change, and one that both sides added and that was resolved in this way."""
    plain = Change(Key(0, b"plain"), ChangeKind.ADDED, None, FILE)
    state, _ = initial_state(changes(plain, ADDED))
    state = replace(state, resolutions={KEY: (how,)})
    done = replace(
        ADDED,
        conflict=None,
        resolution=Resolution.YOURS if how is USER_SIDE else Resolution.AGENT if how is AGENT else Resolution.BOTH,
    )
    return after(state, AllToggled(), ChangeUpdated(done, is_selected=True))


def page(state: State) -> str:
    return "\n".join(line.text for line in apply_summary(state, (), 0, 100, lambda _key: None))


def test_the_summary_shows_what_the_agents_file_replaces() -> None:
    printed = page(answered(AGENT))
    assert "Replaces yours (1)\n  +  both.txt\n      replaces yours with the agent's version" in printed
    assert "Merges both" not in printed
    assert "2 of 2 changes" in printed
    assert apply_question(answered(AGENT))[0] == "Apply 2 changes?"


def test_the_summary_does_not_count_changes_resolved_to_yours() -> None:
    printed = page(answered(USER_SIDE))
    assert "Keeps yours (1)\n  +  both.txt\n      keeps yours" in printed
    assert ("1 of 2 changes" in printed, "Files (1)" in printed, "Merges both" in printed) == (True, True, False)
    assert apply_question(answered(USER_SIDE)) == ("Apply 1 change?", "Yes, apply 1 change")


def test_without_applied_changes_the_question_is_to_keep_yours() -> None:
    state, _ = initial_state(changes(ADDED))
    done = after(state, ChangeUpdated(replace(ADDED, conflict=None, resolution=Resolution.YOURS), is_selected=True))
    assert apply_question(done) == ("Keep yours, and apply nothing?", "Yes, keep yours")


def test_an_edited_result_replaces_the_previous_resolution() -> None:
    state = answered(AGENT)
    edited = after(state, ChangeUpdated(TOGETHER, is_selected=True, is_edited=True))
    assert (KEY in state.resolutions, KEY in edited.resolutions) == (True, False)
    assert (
        after(edited, ConflictResolved(USER_SIDE)).resolutions.get(KEY) is None
    )  # its diff is not open, so the conflict is unknown


def unsettled(base: bytes, user_side: bytes, agent: bytes) -> tuple[Change, Reconciliation]:
    one = reconcile_change(Change(KEY, ChangeKind.EDITED, FILE, FILE), FILE, ThreeVersions(base, user_side, agent))
    assert one.change is not None
    assert one.merged is not None
    return one.change, one


def test_the_agents_side_of_every_conflict_replaces_yours_whatever_is_left_out() -> None:
    change, one = unsettled(b"a\n\nb\n", b"A\n\nb\n", b"1\n\n2\n")
    found = [resolve_regions(change, one, answers) for answers in ((AGENT, AGENT), (AGENT, USER_SIDE), (USER_SIDE, AGENT))]
    assert [made and made.change and made.change.resolution for made in found] == [
        Resolution.AGENT,
        Resolution.AGENT,
        Resolution.BOTH,
    ]


def test_a_left_out_edit_stays_in_the_session() -> None:
    change, one = unsettled(b"a\n\nb\n", b"A\n\nb\n", b"1\n\n2\n")
    made = resolve_regions(change, one, (USER_SIDE, USER_SIDE))
    assert made is not None
    assert made.change is not None
    assert not made.change.is_session_only
    assert made.result is not None
    assert (made.result.content, made.result.part) == (b"A\n\nb\n", RemainderBase(b"1\n\nb\n", FILE.mode))


@pytest.mark.parametrize(
    ("agent", "how", "is_dropped"),
    [
        (b"1\n\nc\n", USER_SIDE, True),
        (b"1\n\nc\n", AGENT, False),
        (b"1\n\n3\n", USER_SIDE, False),
    ],
)
def test_a_resolution_without_the_agents_lines_drops_the_change(
    agent: bytes,
    how: ConflictSide,
    is_dropped: bool,  # noqa: FBT001  (a table's column)
) -> None:
    change, one = unsettled(b"a\n\nc\n", b"A\n\nc\n", agent)
    made = resolve_regions(change, one, (how,))
    assert made is not None
    assert made.change is not None
    assert made.change.is_session_only is is_dropped


def test_after_a_conflict_is_resolved_the_cursor_moves_to_the_next() -> None:
    some = changes(*(change(name, conflict="both") for name in "abc"), change("d"))
    resolved = {one.key: replace(one, conflict=None, resolution=Resolution.AGENT) for one in some.changes}
    state = initial_state(some)[0]
    assert state.change is not None
    for name in "bc":
        state = after(state, ChangeUpdated(resolved[state.change.key], is_selected=True))
        assert state.change is not None
        assert state.change.key == key(name)
    state = after(state, ChangeUpdated(resolved[key("c")], is_selected=True))
    assert state.change is not None
    assert state.change.key == key("c")


def test_a_conflict_resolved_in_an_editor_shows_its_result() -> None:
    some = changes(*(change(name, conflict="both") for name in "ab"))
    done = replace(some.changes[0], conflict=None, resolution=Resolution.BOTH)
    state = after(initial_state(some)[0], ChangeUpdated(done, is_selected=True, is_edited=True))
    assert state.change == done
