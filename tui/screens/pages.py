"""The pages over the review: questions before applying, importing and quitting; results; help."""

import shlex
from collections.abc import Callable, Sequence

from agent_dev.diff.review_note import describe_place
from agent_dev.fs.entry import Key
from agent_dev.overlay.labels import display_path, format_count
from tui.events import Event
from tui.keys.bindings import REVIEW_BINDINGS
from tui.keys.key_names import KeysByBinding
from tui.model.document import PageLine, Tone
from tui.model.note_rows import NOTE_SIGN
from tui.model.tabs import Tab
from tui.page_text import commits
from tui.page_text.summary import apply_question, apply_summary, deletions_page, risky_changes_page
from tui.screens.question import PageScreen, QuestionScreen, ResultScreen, lines_as_pieces
from tui.source import ReviewedSession
from tui.state import State
from tui.text.cells import clean_text, wrap
from tui.update.questions import IMPORT_MODES
from tui.widgets.paint import Piece

Send = Callable[[Event], None]

_MAX_TEXT = 104  # columns of a page's text
_FRAME = 6  # columns of a page's frame, margin and scrollbar
_KEYS, _MIN_DESCRIPTION = 15, 10  # columns of the keys, and of their descriptions
_RESOLVE = ("No, change nothing", "Yes, resolve")
_LEGEND = (
    ("[x] [ ] [~]", "selected, not selected, partly selected"),
    ("x ·", "line of a hunk: selected, not selected"),
    ("✓", "reviewed"),
    (NOTE_SIGN, "note to the agent"),
    ("✗", "conflict, or cannot be merged; the reason is shown"),
    ("+ ~ -", "new, edited, deleted"),
    ("% m", "type changed; only mode or attributes changed"),
    ("!", "risky: must be selected individually"),
)


def summary_screen(state: State, source: ReviewedSession, send: Send) -> QuestionScreen:
    """Return the summary and question before the selection is applied."""
    commit_count = len(state.tabs.get(Tab.COMMITS, ()))
    lines = apply_summary(state, source.roots, commit_count, min(state.columns - _FRAME, _MAX_TEXT), source.line_merge)
    if state.is_resolving:
        answers = ("No, go back", "Yes, import them")
        return QuestionScreen(("Import the commits with these resolutions?", lines_as_pieces(lines)), answers, send)
    title, yes = apply_question(state)
    return QuestionScreen((title, lines_as_pieces(lines)), ("No, go back", yes), send)


def import_screen(state: State, source: ReviewedSession, send: Send) -> QuestionScreen:
    """Return the question of how to import the selected commits."""
    lines = commits.import_summary(state, source.roots, min(state.columns - _FRAME, _MAX_TEXT))
    title = f"Import {format_count(len(state.selected_commit_entries), 'commit')}?"
    return QuestionScreen((title, lines_as_pieces(lines)), ("No", *(way.value for way in IMPORT_MODES)), send)


def decline_screen(state: State, send: Send) -> QuestionScreen:
    """Return the question before the selected commits are declined."""
    lines = commits.decline_summary(state, min(state.columns - _FRAME, _MAX_TEXT))
    title = f"Decline {format_count(len(state.selected_commit_entries), 'commit')}?"
    return QuestionScreen((title, lines_as_pieces(lines)), ("No, go back", "Yes, decline them"), send)


def risk_screen(state: State, source: ReviewedSession, send: Send) -> QuestionScreen:
    """Return the question about risky changes that have the same risks."""
    is_commits, group = state.tab is Tab.COMMITS, state.unconfirmed[0]
    page = commits.risky_paths_page if is_commits else risky_changes_page
    lines = page(state, group, source.roots, min(state.columns - _FRAME, _MAX_TEXT))
    return QuestionScreen((_risk_title(state), lines_as_pieces(lines)), _risk_answers(len(group), is_commits=is_commits), send)


def _risk_title(state: State) -> str:
    count, left = len(state.unconfirmed[0]), sum(map(len, state.unconfirmed))
    changes = "this risky change" if count == 1 else f"these {count:,} risky changes"
    more = f" ({left:,} to confirm)" if left > count else ""
    return f"{'Import' if state.tab is Tab.COMMITS else 'Apply'} {changes}?{more}"


def _risk_answers(count: int, *, is_commits: bool) -> tuple[str, ...]:
    if count == 1:
        return ("No, skip its commits", "Yes, import it") if is_commits else ("No, deselect it", "Yes, apply it")
    return (
        ("No, skip their commits", f"Yes, import all {count:,}", "One by one")
        if is_commits
        else ("No, deselect them", f"Yes, apply all {count:,}", "One by one")
    )


def deletions_screen(state: State, source: ReviewedSession, send: Send) -> QuestionScreen:
    """Return the question about a selection that deletes a large share of the tree."""
    lines = deletions_page(state, source.roots, min(state.columns - _FRAME, _MAX_TEXT))
    title = f"Delete {state.many_deletions:,} files, a large share of the tree?"
    return QuestionScreen((title, lines_as_pieces(lines)), ("No, go back", f"Yes, delete {state.many_deletions:,} files"), send)


def result_screen(state: State, send: Send) -> PageScreen:
    """Return the page with the result of a merge or import, and the question what to do with the rest of the session, if any."""
    wrapped = [part for line in state.result for part in wrap(clean_text(line), state.columns - _FRAME)]
    title = "Nothing was changed" if not state.may_have_changed else "Partly done" if state.code else "Done"
    page = lines_as_pieces([PageLine(Tone.PLAIN, text) for text in wrapped])
    if state.has_rest and state.may_have_changed:
        answers = ("Keep the rest", "Discard the rest", *(("Send the notes back",) if state.notes else ()))
        return ResultScreen((title, page), answers, send)
    return PageScreen(title, page, send, exit_label="quit" if state.may_have_changed else "back")


def send_back_screen(state: State, source: ReviewedSession, send: Send) -> QuestionScreen:
    """Return the question before the notes are sent to the agent, which is resumed with them."""
    cells = min(state.columns - _FRAME, _MAX_TEXT)
    lines = [PageLine(Tone.PLAIN, "The review ends, and the agent runs again on its changes, with these notes:")]
    lines.append(PageLine(Tone.DIM, shlex.join(source.command)))
    for note in state.notes:
        where = display_path(Key(note.root, note.path), source.roots)
        lines += [
            PageLine(Tone.PLAIN, ""),
            PageLine(Tone.STRONG, f"{where}, {describe_place(note)}"),
            PageLine(Tone.PLAIN, note.text),
        ]
    wrapped = [PageLine(line.tone, part) for line in lines for part in wrap(clean_text(line.text), cells) or [""]]
    count = format_count(len(state.notes), "note")
    selected = state.selected_totals.changes
    first = (f"Apply {format_count(selected, 'selected change')} first",) if selected else ()
    answers = ("No, go back", f"Yes, send {count}", *first)
    return QuestionScreen((f"Send {count} back to the agent?", lines_as_pieces(wrapped)), answers, send)


def conflicts_screen(state: State, send: Send) -> QuestionScreen:
    """Return the question before conflicts of commits are resolved."""
    wrapped = [part for line in state.result for part in wrap(clean_text(line), state.columns - _FRAME)]
    page = lines_as_pieces([PageLine(Tone.PLAIN, text) for text in wrapped])
    return QuestionScreen(("The commits conflict with your work. Resolve conflicts now?", page), _RESOLVE, send)


def quit_screen(state: State, source: ReviewedSession, send: Send) -> QuestionScreen:
    """Return the question before quitting with a selection that was not applied."""
    counts = [(state.selected_totals.changes, "change"), (len(state.selected_commit_entries), "commit")]
    selected = " and ".join(format_count(*one) for one in counts if one[0])
    lines = [
        PageLine(Tone.PLAIN, f"{selected} selected but not applied."),
        PageLine(Tone.DIM, f"Nothing is lost: session {source.session} keeps the changes and the selection."),
    ]
    wrapped = [PageLine(line.tone, part) for line in lines for part in wrap(clean_text(line.text), state.columns - _FRAME)]
    return QuestionScreen(("Quit without applying?", lines_as_pieces(wrapped)), ("No, stay", "Yes, quit"), send)


def help_screen(key_names: KeysByBinding, meanings: dict[str, str], send: Send, columns: int) -> PageScreen:
    """Return the help: the keys as bound now, and the signs; at most `columns` wide."""
    names = sorted(meanings, key=[*REVIEW_BINDINGS, *meanings].index)  # a rebound key keeps its position
    cells = min(columns - _FRAME, _MAX_TEXT) - _KEYS - 2
    rows: list[Sequence[Piece]] = [row for name in names for row in _help_rows(" ".join(key_names[name]), meanings[name], cells)]
    rows += [[], [Piece(" Signs", Tone.STRONG)]]
    rows += [row for sign, meaning in _LEGEND for row in _help_rows(sign, meaning, cells)]
    return PageScreen("Keys", rows, send)


def _help_rows(left: str, right: str, cells: int) -> list[list[Piece]]:
    parts = wrap(right, max(cells, _MIN_DESCRIPTION))
    return [[Piece(f" {'' if index else left:<{_KEYS}} ", "accent"), Piece(part)] for index, part in enumerate(parts)]
