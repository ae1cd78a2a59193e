"""The review as a dialogue in plain lines, like `git add -p`: for screen readers, slow links and simple terminals.

It sends the same events to the same state as the screen does.
"""

from collections.abc import Iterator

from agent_dev.diff.merge3 import ConflictSide, LineConflict, LineMerge, RegionSource
from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change
from agent_dev.overlay.labels import display_path, format_count, path_text
from agent_dev.quick_dataclass import replace
from tui.effects import Apply, AssessRisks, CountDeletions, Effect, LoadDiff, Quit, Resolve
from tui.events import (
    NO,
    ONE_BY_ONE,
    YES,
    Answered,
    ApplyRequested,
    Cancelled,
    ConflictResolved,
    CursorMovedTo,
    DiffLoaded,
    DisplayOption,
    DisplayOptionToggled,
    Event,
    LinesCounted,
    Pane,
    PromptClosed,
    PromptEdited,
    PromptKind,
    PromptOpened,
    Toggled,
)
from tui.model import conflict
from tui.model.change_list import ChangeRow, HeadingRow, Section
from tui.model.document import ChangePart, Document, RowKind
from tui.model.totals import format_totals
from tui.page_text.summary import apply_question
from tui.plain.prompt import LineIO, Questioner, QuestionsQuit
from tui.source import Draft, Ending, ReviewedSession
from tui.state import ScreenPage, draft_of
from tui.update import line_selection
from tui.update.dispatch import initial_state, update
from tui.update.line_selection import SelectionState
from tui.workers import Worker

_CELLS = 78
_MAX_COUNTED = 5_000  # changes whose lines are counted for the totals at the end
_NOTE_HELP = "m: write a note to the agent"
_HUNK_HELP = (
    f"y: select; n: skip; l: line by line; a: this and all later hunks of the file; d: neither this nor later ones; {_NOTE_HELP}"
)
_SIDE_ROWS = (RowKind.CONFLICT, RowKind.STACKED)
_CONFLICT_HELP = "y: yours; a: agent's; b: both, yours first; e: edit the file; n: skip the change"
_REST_HELP = "k: keep it, to review it later; d: discard it, which agent-dev undiscard reverts"
_SEND_HELP = "run the agent again on its changes, with your notes"
_EDIT_HELP = "y: apply; n: leave it out, it stays in the session"
_ENDINGS = {"k": Ending.KEEP, "d": Ending.DISCARD, "s": Ending.SEND_BACK}
_SIDES = {"y": ConflictSide.YOURS, "a": ConflictSide.AGENT, "b": ConflictSide.BOTH}
_SIGNS = {RowKind.REMOVED: "-", RowKind.ADDED: "+", RowKind.CONTEXT: " "}


def ask_changes(source: ReviewedSession, line_io: LineIO) -> tuple[int, Ending]:
    """Ask about every change, apply the selection and print the result; return the exit code and the ending."""
    return _Plain(source, line_io).run()


class _Plain(Questioner):
    def __init__(self, source: ReviewedSession, line_io: LineIO) -> None:
        super().__init__(line_io)
        self._source = source
        self._results: list[Event] = []
        self._work = Worker(source, self._results.append)
        self._state, effects = initial_state(source.changes, _CELLS, draft=source.draft, is_resolving=source.is_resolving)
        self._state = replace(self._state, unassessed=source.unassessed)
        self._run_effects(effects)

    # The state

    def _send(self, event: Event) -> None:
        self._state, effects = update(self._state, event)
        self._run_effects(effects)
        if self._state.message:
            self.print_line(f"({self._state.message})")

    def _run_effects(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case LoadDiff():
                    names = tuple(display_path(key, self._source.roots) for key in self._table[effect.key].requires)
                    without_keys = replace(effect, options=replace(effect.options, shows_keys=False))
                    self._state, _ = update(self._state, DiffLoaded(self._work.build_document(without_keys, names)))
                case Resolve() | AssessRisks() | CountDeletions() | Apply():
                    self._work.run_effect(effect)
                case Quit():
                    pass
                case _:
                    raise NotImplementedError(effect)  # the events sent here have no other effects
        results, self._results[:] = [*self._results], []
        for result in results:
            self._send_result(result)

    def _send_result(self, result: Event) -> None:
        self._state, more = update(self._state, result)
        self._run_effects(more)

    @property
    def _table(self) -> dict[Key, Change]:
        return dict(self._state.changes.by_key())

    # The questions

    def run(self) -> tuple[int, Ending]:
        """Ask about all changes, apply the selection, and ask what to do with the rest."""
        try:
            for number, key in enumerate(list(self._keys()), 1):
                self._ask_change(key, number)
            self._ask_folded()
        except QuestionsQuit as enough:
            if enough.is_end_of_input:
                self.print_line("nothing was merged")
                self._save()
                return self._state.code, Ending.KEEP
        self._apply()
        return self._state.code, self._ask_ending()

    def _keys(self) -> Iterator[Key]:
        for row in self._state.listing.rows:
            if isinstance(row, ChangeRow):
                yield row.key

    def _ask_change(self, key: Key, number: int) -> None:
        self._send(CursorMovedTo(self._state.listing.row_of(key), Pane.LIST))
        document = self._state.diff.document
        self.print_line("")
        self.print_line(f"{number} of {len(self._state.listing.group_of)}: {display_path(key, self._source.roots)}")
        for row in document.rows[: document.hunk_rows[0] if document.hunk_rows else len(document.rows)]:
            if row.text and row.kind is not RowKind.HEADING:
                self.print_line(f"  {row.text}")
        change = self._table[key]
        if document.conflict_count >= 0 and not change.is_clean:
            self._ask_conflict(document)
        elif not change.is_clean:
            return
        elif document.has_selectable_lines:
            self._ask_mode(document)
            self._ask_hunks(len(document.hunk_rows))
        else:
            self._ask_whole(key)

    def _ask_whole(self, key: Key) -> None:
        is_selected = self._ask_or_note("select this change?", "yn", f"y: select; n: skip; {_NOTE_HELP}") == "y"
        if is_selected != (key in self._state.selection):
            self._send(Toggled(None, Pane.LIST))

    def _ask_or_note(self, question: str, letters: str, help_text: str) -> str:
        """Ask like `ask_letter`; `m` writes a note about the change or line under the cursor, and asks again."""
        if self._state.is_resolving:
            return self.ask_letter(question, letters, help_text)
        while (letter := self.ask_letter(question, f"{letters}m", help_text)) == "m":
            self._send(PromptOpened(PromptKind.NOTE))
            self._send(PromptEdited(self.ask_line("note to the agent: ")))
            self._send(PromptClosed(is_accepted=True))
        return letter

    def _ask_selected(self, question: str) -> bool:
        return self.ask_letter(question, "yn", "y: select; n: skip") == "y"

    def _ask_mode(self, document: Document) -> None:
        for index, row in enumerate(document.rows):
            if row.part is ChangePart.MODE:
                octal, _, words = row.text.partition(": ")
                question = f"{words} (mode {octal.removeprefix('mode ')}): select this change of mode?"
                self._select(index, is_selected=self._ask_selected(question))

    def _ask_hunks(self, count: int) -> None:
        for index in range(count):
            self._print_hunk(self._state.diff.document, self._state.diff.document.hunk_rows[index])
            self._send(CursorMovedTo(self._state.diff.document.hunk_rows[index], Pane.DIFF))
            letter = self._ask_or_note(f"select this hunk ({index + 1} of {count})?", "ynlad", _HUNK_HELP)
            document = self._state.diff.document  # a note moves the rows
            if letter == "l":
                self._ask_lines(document, document.hunk_rows[index])
            elif letter in "yn":
                self._select(document.hunk_rows[index], is_selected=letter == "y")
            else:
                for row in document.hunk_rows[index:]:
                    self._select(row, is_selected=letter == "a")
                return

    def _select(self, row: int, *, is_selected: bool) -> None:
        """Select or deselect the item of a row, regardless of its current state."""
        self._send(CursorMovedTo(row, Pane.DIFF))
        if is_selected and self._selection_of(row) is not SelectionState.ALL:
            self._send(Toggled())
        while not is_selected and self._selection_of(row) is not SelectionState.NONE:
            self._send(Toggled())

    def _selection_of(self, row: int) -> SelectionState:
        document, is_lines = self._state.diff.document, self._state.display_options.selects_lines
        choice = line_selection.selection_of(self._state.selection, document)
        return line_selection.row_state(document.rows[row], choice, document, is_lines=is_lines)

    def _ask_lines(self, document: Document, start: int) -> None:
        self._send(DisplayOptionToggled(DisplayOption.LINES))
        hunk = document.rows[start].hunk
        for index, row in enumerate(document.rows):
            if row.hunk == hunk and row.kind in (RowKind.REMOVED, RowKind.ADDED):
                self._print_row(document, index)
                self._select(index, is_selected=self._ask_selected("select this line?"))
        self._send(DisplayOptionToggled(DisplayOption.LINES))

    def _print_hunk(self, document: Document, start: int) -> None:
        """Print a hunk with its context lines."""
        first = start
        while first > 0 and document.rows[first - 1].kind is RowKind.CONTEXT and start - first < 3:
            first -= 1
        last = start
        while last < len(document.rows) and document.rows[last].hunk == document.rows[start].hunk:
            last += 1
        end = last
        while end < len(document.rows) and document.rows[end].kind is RowKind.CONTEXT and end - last < 3:
            end += 1
        for index in range(first, end):
            self._print_row(document, index)

    def _print_row(self, document: Document, index: int) -> None:
        row = document.rows[index]
        if row.kind in _SIGNS:
            is_old = row.kind is RowKind.REMOVED
            line = document.old_lines[row.old_line] if is_old else document.new_lines[row.new_line]
            self.print_line(_SIGNS[row.kind] + _text(line))
        else:
            self.print_line(row.text)

    def _ask_conflict(self, document: Document) -> None:
        if not document.conflict_count:
            letters = "yabn" if self._state.is_resolving else "yan"  # an import can keep both, if their types differ
            letter = self.ask_letter("resolve: yours or agent's?", letters, "y: yours; a: agent's; n: skip")
            if letter != "n":
                self._send(ConflictResolved(_SIDES[letter]))
        elif document.key is not None and (merged := self._source.line_merge(document.key)) is not None:
            self._ask_regions(document, merged)

    def _ask_regions(self, document: Document, merged: LineMerge) -> None:
        choice = conflicts = 0
        for region in merged.regions:
            if isinstance(region, LineConflict):
                conflicts += 1
                question = f"conflict {conflicts} of {document.conflict_count}: yours, agent's, both?"
                if not self._ask_sides(document, choice, question):
                    return
            elif region.source is not RegionSource.UNCHANGED:
                for line in conflict.region_lines(region):
                    self.print_line(f"  {line}")
                if region.is_choice and not self._state.is_resolving:
                    self._ask_edit(choice)
            choice += region.is_choice

    def _ask_edit(self, choice: int) -> None:
        is_applied = self.ask_letter("apply this edit?", "yn", _EDIT_HELP) == "y"
        self._resolve(choice, ConflictSide.AGENT if is_applied else ConflictSide.YOURS)

    def _ask_sides(self, document: Document, choice: int, question: str) -> bool:
        """Ask how to resolve a conflict; return whether to go on with the file."""
        self._print_sides(document, document.hunk_rows[choice], choice)
        letter = self.ask_letter(question, "yaben", _CONFLICT_HELP)
        if letter == "e" and document.key is not None:
            self._send_result(self._work.edit_conflict(document.key))
        if letter in "en":
            return False
        self._resolve(choice, _SIDES[letter])
        return True

    def _resolve(self, choice: int, side: ConflictSide) -> None:
        rows = self._state.diff.document.hunk_rows  # of the current document: a resolution moves the rows
        self._send(CursorMovedTo(rows[choice], Pane.DIFF))
        self._send(ConflictResolved(side))

    def _print_sides(self, document: Document, start: int, index: int) -> None:
        for label, column in (("yours", 0), ("agent's", 2)):
            self.print_line(f"{label}:")
            for row in document.rows[start:]:
                if row.hunk == index and row.kind in _SIDE_ROWS and row.cells[column] is not None:
                    self.print_line("  " + _text(row.cells[column] or b""))

    def _ask_folded(self) -> None:
        for index, row in enumerate(self._state.listing.rows):
            if isinstance(row, HeadingRow) and row.group in self._state.listing.closed:
                group = self._state.listing.groups[row.group]
                what = format_count(len(group.keys), "ignored or generated file")
                if group.section is Section.RENAMED:
                    names = f"{path_text(group.origin)}/ to {path_text(group.path) or '.'}/"
                    what = f"the rename of {names} ({format_count(len(group.keys), 'file')})"
                self.print_line("")
                if self.ask_letter(f"select {what}?", "yn", "y: all of them; n: none") == "y":
                    self._send(Toggled(index, Pane.LIST))

    # The end

    def _apply(self) -> None:
        self.print_line("")
        if not self._state.is_resolving:
            self._count_lines()
            self.print_line("".join(format_totals(self._state.selected_totals, self._state.totals, 200)).strip())
        if not self._state.selection.keys:
            self.print_line("nothing was merged")
            self._save()
            return
        self._send(ApplyRequested())
        try:
            self._answer_questions()
        except QuestionsQuit:
            self._send(Cancelled())
        if self._state.page not in (ScreenPage.RESULT, ScreenPage.CONFLICTS):
            self.print_line("nothing was merged; the selection is kept")
            self._save()
        elif not self._state.is_resolving:
            for line in self._state.result:
                self.print_line(line)

    def _answer_questions(self) -> None:
        """Ask the questions before a merge: about risks, many deletions, and the whole selection."""
        while self._state.page is ScreenPage.RISK:
            self._ask_risk()
        if self._state.page is ScreenPage.DELETIONS:
            self._confirm(f"delete {self._state.many_deletions:,} files, a large share of the tree?")
        if self._state.page is ScreenPage.SUMMARY:
            self._confirm(self._last_question())

    def _confirm(self, question: str) -> None:
        is_yes = self.ask_without_typeahead(question, "yn", "y: yes; n: not now, keep the selection") == "y"
        self._send(Answered(YES if is_yes else NO))

    def _ask_ending(self) -> Ending:
        """Ask what to do with the rest of the session, and whether to send the notes."""
        state = self._state
        if state.is_resolving:
            return Ending.KEEP
        has_rest = state.page is ScreenPage.RESULT and state.may_have_changed and state.has_rest
        try:
            if has_rest:
                letters, help_text = ("kds", f"{_REST_HELP}; s: {_SEND_HELP}") if state.notes else ("kd", _REST_HELP)
                question = (
                    "the rest of the session: keep, discard, send back?"
                    if state.notes
                    else "the rest of the session: keep, discard?"
                )
                ending = _ENDINGS[self.ask_without_typeahead(question, letters, help_text)]
            elif state.notes and state.page is not ScreenPage.RESULT:
                question = f"send {format_count(len(state.notes), 'note')} back to the agent?"
                is_sent = self.ask_without_typeahead(question, "yn", f"y: {_SEND_HELP}; n: keep them for the next review") == "y"
                ending = Ending.SEND_BACK if is_sent else Ending.KEEP
            else:
                ending = Ending.KEEP
        except QuestionsQuit:
            ending = Ending.KEEP
        if has_rest and state.notes:
            self._source.save_draft(Draft(notes=state.notes))
        return ending

    def _count_lines(self) -> None:
        """Count the lines of all changes, up to a limit, the selected ones first."""
        every = sorted(self._state.changes.changes, key=lambda one: (one.key not in self._state.selection, one.is_ignored))
        self._send_result(LinesCounted(self._source.count_lines([one.key for one in every[:_MAX_COUNTED]])))

    def _last_question(self) -> str:
        if self._state.is_resolving:
            return "import the commits with these resolutions?"
        return apply_question(self._state)[0].lower()

    def _ask_risk(self) -> None:
        group = self._state.unconfirmed[0]
        for key in group:
            self.print_line(f"risky: {display_path(key, self._source.roots)}")
        for risk in self._table[group[0]].risks:
            self.print_line(f"  {risk.why} ({risk.rule})")
        if len(group) == 1:
            question, letters, help_text = "apply it anyway?", "yn", "y: apply it; n: deselect it"
        else:
            question, letters = f"apply all {len(group):,} anyway?", "yno"
            help_text = "y: apply them; n: deselect them; o: ask one by one"
        answers = {"y": YES, "n": NO, "o": ONE_BY_ONE}
        self._send(Answered(answers[self.ask_without_typeahead(question, letters, help_text)]))

    def _save(self) -> None:
        self._source.save_draft(draft_of(self._state))


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").decode("utf-8", "surrogateescape")
