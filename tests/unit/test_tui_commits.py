"""Commits on the merge screen: chosen, asked about, brought home one of three ways, or left where they are."""

from dataclasses import replace

import pytest

from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk
from agent_dev.overlay.selection import Selection
from tests.unit.tui_states import after
from tui.effects import Apply, Bring, Effect, Finish, ReadEntries
from tui.events import (
    NO,
    YES,
    AllToggled,
    Answered,
    AnswerMoved,
    ApplyAsked,
    Changed,
    EntriesRead,
    Event,
    Finished,
    GivenUp,
    KindToggled,
    LeaveAsked,
    NothingChosen,
    Pane,
    TabTurned,
    Toggled,
    Typed,
    TypedOut,
    Undone,
)
from tui.model.tabs import Entry as Row
from tui.model.tabs import Risky, Tab, Way
from tui.state import Face, State
from tui.text import commits
from tui.update.dispatch import begin, update

FILE = Entry(FileType.FILE)
HOOK = Risk("hook", "runs at the next commit")
QUICK = (Row("bbbb two", id="bbbb"), Row("aaaa one", id="aaaa"))
ONE = ChangeSet((Change(Key(0, b"a"), Kind.EDITED, FILE, FILE),))
FULL = (Row("bbbb two", id="bbbb"), Row("aaaa one", id="aaaa"), Row("stash: x"))
MOVED = Risk("moved", "checks out another commit")
WITH_HOOK = Row("bbbb two", id="bbbb", risky=(Risky(b"hook", (HOOK,)),))
WITH_BOTH = Row("aaaa one", id="aaaa", risky=(Risky(b"lib", (MOVED,), ("1111 → 2222",)), Risky(b"hook", (HOOK,))))
RISKY = (WITH_HOOK, WITH_BOTH, Row("cccc zero", id="cccc"))
PICKED = frozenset(("bbbb",))
ON_BRANCH, AS_BRANCH, AS_ONE = 1, 2, 3


def opened(told: tuple[Row, ...] = FULL, *, is_running: bool = False) -> State:
    """Return the commits tab of a session, all of them read."""
    some = ChangeSet(
        (
            Change(Key(0, b"a"), Kind.EDITED, FILE, FILE),
            Change(Key(0, b"hook"), Kind.ADDED, None, FILE, risks=(HOOK,)),
        )
    )
    state, _ = begin(some, tabs={Tab.COMMITS: QUICK}, is_running=is_running)
    return after(state, TabTurned(Tab.COMMITS), EntriesRead(Tab.COMMITS, told))


def asked(state: State, *events: Event) -> tuple[Effect, ...]:
    """Return what the last of some events asks for."""
    return update(after(state, *events[:-1]), events[-1])[1]


def test_the_tab_is_read_in_full_when_it_is_turned_to_and_only_once() -> None:
    state, _ = begin(ONE, tabs={Tab.COMMITS: QUICK})
    assert ReadEntries(Tab.COMMITS) in asked(state, TabTurned(Tab.COMMITS))
    read = after(state, TabTurned(Tab.COMMITS), EntriesRead(Tab.COMMITS, FULL), TabTurned(Tab.CHANGES))
    assert ReadEntries(Tab.COMMITS) not in asked(read, TabTurned(Tab.COMMITS))


def test_what_is_read_while_its_tab_is_shown_stands_beside_it() -> None:
    state, _ = begin(ONE, tabs={Tab.COMMITS: QUICK})
    told = Row("bbbb two", ("by Ada",), id="bbbb")
    shown = after(state, TabTurned(Tab.COMMITS), EntriesRead(Tab.COMMITS, (told, QUICK[1])))
    assert [row.text for row in shown.diff.document.rows] == ["bbbb two", "by Ada"]


def test_where_there_are_only_commits_the_screen_opens_with_them() -> None:
    state, effects = begin(ChangeSet(()), tabs={Tab.COMMITS: QUICK})
    assert (state.tab, ReadEntries(Tab.COMMITS) in effects) == (Tab.COMMITS, True)
    assert begin(ChangeSet(()))[0].tab is Tab.CHANGES
    assert begin(ONE, tabs={Tab.COMMITS: QUICK})[0].tab is Tab.CHANGES


def test_space_chooses_and_leaves_one() -> None:
    assert after(opened(), Toggled()).picked == PICKED
    assert after(opened(), Toggled(), Toggled()).picked == frozenset()
    assert after(opened(), Toggled(1, Pane.LIST)).picked == {"aaaa"}


def test_what_is_no_commit_cannot_be_chosen() -> None:
    assert after(opened(), Toggled(2, Pane.LIST)).picked == frozenset()
    assert after(opened(), Toggled(7, Pane.LIST)).picked == frozenset()


def test_all_and_none() -> None:
    every = after(opened(), AllToggled())
    assert every.picked == {"aaaa", "bbbb"}
    assert after(every, AllToggled()).picked == after(every, NothingChosen()).picked == frozenset()


@pytest.mark.parametrize("event", [Undone(), KindToggled()])
def test_other_choices_say_what_can_be_done_and_do_nothing(event: Event) -> None:
    state = after(opened(), Toggled(), event)
    assert (state.picked, "space" in state.word) == (PICKED, True)


def test_choosing_commits_chooses_no_files() -> None:
    assert not after(opened(), AllToggled()).selection.keys


def test_nothing_is_asked_while_none_is_chosen() -> None:
    state = after(opened(), ApplyAsked())
    assert (state.face, "no commit is chosen" in state.word) == (Face.REVIEW, True)


def test_nothing_is_asked_before_their_files_are_known() -> None:
    state, _ = begin(ONE, tabs={Tab.COMMITS: QUICK})
    asking = after(state, TabTurned(Tab.COMMITS), Toggled(), ApplyAsked())
    assert (asking.face, "still being read" in asking.word) == (Face.REVIEW, True)


def test_nothing_is_chosen_while_the_agent_works() -> None:
    assert not after(opened(is_running=True), AllToggled()).picked
    assert after(opened(is_running=True), ApplyAsked()).face is Face.REVIEW


def test_no_is_in_focus_and_changes_nothing() -> None:
    state = after(opened(), Toggled(), ApplyAsked())
    assert (state.face, state.answer) == (Face.BRING, NO)
    for event in (Answered(), Answered(NO), GivenUp()):
        there, effects = update(state, event)
        assert (there.face, there.picked, effects) == (Face.REVIEW, PICKED, ())


def test_the_answers_are_gone_through_in_both_directions() -> None:
    state = after(opened(), Toggled(), ApplyAsked())
    assert [after(state, *[AnswerMoved()] * times).answer for times in range(5)] == [NO, ON_BRANCH, AS_BRANCH, AS_ONE, NO]
    assert after(state, AnswerMoved(-1)).answer == AS_ONE


def test_yes_is_onto_ones_own_branch() -> None:
    state = after(opened(), AllToggled(), ApplyAsked())
    assert asked(state, Answered(YES)) == (Bring(("bbbb", "aaaa"), Way.YOURS),)
    assert after(state, Answered(YES)).face is Face.PROGRESS
    assert asked(state, AnswerMoved(), Answered()) == (Bring(("bbbb", "aaaa"), Way.YOURS),)


def test_as_one_commit() -> None:
    assert asked(opened(), Toggled(), ApplyAsked(), Answered(AS_ONE)) == (Bring(("bbbb",), Way.ONE),)


def test_a_branch_gets_the_name_that_is_typed() -> None:
    naming = (Toggled(), ApplyAsked(), Answered(AS_BRANCH))
    assert after(opened(), *naming).face is Face.PROMPT
    assert asked(opened(), *naming, Typed(" topic "), TypedOut(is_meant=True)) == (Bring(("bbbb",), Way.BRANCH, "topic"),)


@pytest.mark.parametrize(("text", "is_meant"), [("topic", False), ("  ", True)])
def test_a_branch_without_a_name_is_not_made(text: str, is_meant: bool) -> None:  # noqa: FBT001  (a table's column)
    naming = (Toggled(), ApplyAsked(), Answered(AS_BRANCH), Typed(text))
    there, effects = update(after(opened(), *naming), TypedOut(is_meant=is_meant))
    assert (there.face, effects) == (Face.REVIEW, ())


def test_after_it_the_screen_leaves() -> None:
    state = after(opened(), Toggled(), ApplyAsked(), Answered(YES), Finished(("took it",), 0))
    assert (state.face, state.result) == (Face.RESULT, ("took it",))
    assert asked(state, Answered()) == (Finish(is_kept=False),)


def test_after_a_refusal_the_review_goes_on_with_what_was_chosen() -> None:
    state = after(opened(), Toggled(), ApplyAsked(), Answered(YES), Finished(("conflict: a",), 1, is_done=False))
    assert (state.face, state.code) == (Face.RESULT, 0)
    there, effects = update(state, GivenUp())
    assert (there.face, there.picked, effects) == (Face.REVIEW, PICKED, ())


STOPPED = (Toggled(), ApplyAsked(), Answered(YES), Finished(("conflict: a",), 1, is_done=False, conflicts=1))


def test_conflicts_that_can_be_settled_are_asked_about_and_no_is_in_focus() -> None:
    state = after(opened(), *STOPPED)
    assert (state.face, state.answer, state.code) == (Face.CLASH, NO, 0)
    for event in (Answered(), Answered(NO), GivenUp()):
        there, effects = update(state, event)
        assert (there.face, there.picked, there.is_onward, effects) == (Face.REVIEW, PICKED, False, ())


def test_yes_ends_this_screen_for_that_of_the_conflicts() -> None:
    there, effects = update(after(opened(), *STOPPED), Answered(YES))
    assert (there.is_onward, effects) == (True, (Finish(),))


def test_conflicts_of_commits_are_brought_home_only_when_each_is_settled() -> None:
    some = ChangeSet(tuple(Change(Key(0, path), Kind.EDITED, FILE, FILE, conflict="both") for path in (b"a", b"b")))
    state, _ = begin(some, is_settling=True)
    one, two = (Changed(replace(change, conflict=None, is_merged=True), is_taken=True) for change in some.changes)
    half = after(state, one, ApplyAsked())
    assert (half.face, half.word.startswith("1 more to settle")) == (Face.REVIEW, True)
    assert after(state, one, two, ApplyAsked()).face is Face.SUMMARY
    assert asked(state, one, two, ApplyAsked(), Answered(YES)) == (Apply(Selection(frozenset(c.key for c in some.changes))),)


HOOKED, LIB = Key(0, b"hook"), Key(0, b"lib")


def test_each_risky_path_is_asked_about_once_before_it_is_asked_how() -> None:
    state = after(opened(RISKY), AllToggled(), ApplyAsked())
    assert (state.face, state.answer, state.asked) == (Face.RISK, NO, (HOOKED, LIB))
    assert after(state, Answered(YES)).asked == (LIB,)
    asking = after(state, Answered(YES), Answered(YES))
    assert (asking.face, asking.asked, asking.answer, len(asking.picked)) == (Face.BRING, (), NO, 3)


def test_no_to_a_risky_path_leaves_every_commit_that_has_it() -> None:
    state = after(opened(RISKY), AllToggled(), ApplyAsked())
    assert after(state, Answered(NO)).picked == {"cccc"}
    assert after(state, Answered(NO)).face is Face.BRING
    without = after(state, Answered(YES), Answered(NO))
    assert (without.face, set(without.picked)) == (Face.BRING, {"bbbb", "cccc"})


def test_when_no_commit_is_left_nothing_is_asked_any_more() -> None:
    state = after(opened(RISKY), Toggled(), ApplyAsked(), Answered(NO))
    assert (state.face, state.picked, state.asked) == (Face.REVIEW, frozenset(), ())


def test_giving_up_at_a_risky_path_changes_nothing() -> None:
    state = after(opened(RISKY), AllToggled(), ApplyAsked(), Answered(YES), GivenUp())
    assert (state.face, len(state.picked), state.asked) == (Face.REVIEW, 3, ())


def test_nothing_is_asked_about_commits_without_risks() -> None:
    assert after(opened(RISKY), Toggled(2, Pane.LIST), ApplyAsked()).face is Face.BRING


def test_the_page_of_a_risky_path_says_why_what_came_and_with_which_commits() -> None:
    state = after(opened(RISKY), AllToggled())
    text = "\n".join(line.text for line in commits.risk(state, LIB, ("/r",), 74))
    assert all(part in text for part in ("lib", MOVED.why, "1111 → 2222", "aaaa one", "look at:"))
    assert "bbbb two" not in text
    assert all(part in "".join(line.text for line in commits.risk(state, HOOKED, ("/r",), 74)) for part in ("aaaa", "bbbb"))


def test_leaving_asks_when_commits_are_chosen() -> None:
    assert after(opened(), Toggled(), LeaveAsked()).face is Face.LEAVE
    assert asked(opened(), LeaveAsked()) == (Finish(),)


def test_the_page_names_the_commits_and_the_risky_files_that_come_with_them() -> None:
    def said(*events: Event) -> str:
        return "\n".join(line.text for line in commits.summary(after(opened(RISKY), *events), ("/r",), 74))

    with_hook, without = said(Toggled()), said(Toggled(2, Pane.LIST))
    assert "bbbb two" in with_hook
    assert "aaaa one" not in with_hook
    assert ("hook" in with_hook, HOOK.why in with_hook) == (True, True)
    assert "hook" not in without
    assert all(way.value in without for way in Way)


@pytest.mark.parametrize("cells", [30, 40, 74])
def test_the_page_is_no_wider_than_it_may_be(cells: int) -> None:
    state = after(opened(RISKY), AllToggled())
    lines = [*commits.summary(state, ("/a/long/root",), cells), *commits.risk(state, LIB, ("/a/long/root",), cells)]
    assert max(len(line.text) for line in lines) <= cells


def test_the_word_says_how_many_stay_and_where_they_are() -> None:
    state, _ = begin(ONE, tabs={Tab.COMMITS: QUICK})
    assert commits.word(state) == "2 commits stay in the session: 2 chooses what comes home"
    assert "space chooses" in commits.word(after(state, TabTurned(Tab.COMMITS)))


def test_no_way_promises_a_message_that_is_not_asked_for() -> None:
    text = " ".join(line.text.strip() for line in commits.summary(after(opened(), Toggled()), ("/r",), 74))
    assert "as one commit, whose message names each of them" in text
    assert "you write" not in text
