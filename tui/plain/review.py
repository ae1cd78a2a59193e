"""The review as questions in plain lines, like `git add -p`: for screen readers, bad lines, and terminals that carry no screen.

It sends the same events to the same state as the screen does; what it prints is what it asks about.
"""

from collections.abc import Iterator

from agent_dev.diff.merge3 import Side
from agent_dev.overlay.changes import Change, Key
from tui.effects import Apply, Effect, Finish, Load, Settle
from tui.events import (
    NO,
    YES,
    Answered,
    ApplyAsked,
    Counted,
    DiffShown,
    Event,
    GivenUp,
    MovedTo,
    Pane,
    Settled,
    Switch,
    Switched,
    Toggled,
)
from tui.model.change_list import ChangeRow, HeadRow
from tui.model.document import Document, Part, RowKind
from tui.model.totals import sentence
from tui.plain.prompt import Enough, Questions, Talk
from tui.source import Draft, Source
from tui.state import Face
from tui.text import labels as words
from tui.text.summary import question
from tui.update import line_selection as picking
from tui.update.dispatch import begin, update
from tui.update.line_selection import State as Chosen
from tui.workers import Work

_CELLS = 78
_COUNTED = 5_000  # changes whose lines are counted at the end
_BLOCK_HELP = "y: take it; n: leave it; l: line by line; a: this one and all behind it here; d: none of them"
_CONFLICT_HELP = "m: yours; g: the agent's; b: yours, then the agent's; e: all of the file in an editor; n: leave the change"
_SIDES = {"m": Side.MINE, "g": Side.AGENT, "b": Side.BOTH}
_SIGNS = {RowKind.OLD: "-", RowKind.NEW: "+", RowKind.SAME: " "}


def review(source: Source, talk: Talk) -> int:
    """Ask about every change, then merge what was chosen; return the exit code."""
    return _Plain(source, talk).run()


class _Plain(Questions):
    def __init__(self, source: Source, talk: Talk) -> None:
        super().__init__(talk)
        self._source = source
        self._facts: list[Event] = []
        self._work = Work(source, self._facts.append)
        self._state, effects = begin(source.changes, _CELLS, draft=source.draft, is_settling=source.is_settling)
        self._follow(effects)

    # The state

    def _send(self, event: Event) -> None:
        self._state, effects = update(self._state, event)
        self._follow(effects)
        if self._state.word:
            self.say(f"({self._state.word})")

    def _follow(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case Load():
                    names = tuple(words.name(key, self._source.roots) for key in self._table[effect.key].requires)
                    self._state, _ = update(self._state, DiffShown(self._work.document(effect, names)))
                case Settle() | Apply():
                    self._work.do(effect)
                case Finish():
                    pass
                case _:
                    raise NotImplementedError(effect)  # nothing here sends what would ask for it
        facts, self._facts[:] = [*self._facts], []
        for fact in facts:
            self._learn(fact)

    def _learn(self, fact: Event) -> None:
        self._state, more = update(self._state, fact)
        self._follow(more)

    @property
    def _table(self) -> dict[Key, Change]:
        return dict(self._state.changes.by_key())

    # The walk

    def run(self) -> int:
        """Ask about all, then merge."""
        try:
            for number, key in enumerate(list(self._keys()), 1):
                self._change(key, number)
            self._folded()
        except Enough as enough:
            if enough.is_gone:
                self.say("nothing was merged")
                self._keep()
                return self._state.code
        return self._apply()

    def _keys(self) -> Iterator[Key]:
        for row in self._state.listing.rows:
            if isinstance(row, ChangeRow):
                yield row.key

    def _change(self, key: Key, number: int) -> None:
        self._send(MovedTo(self._state.listing.row_of(key), Pane.LIST))
        document = self._state.diff.document
        self.say("")
        self.say(f"{number} of {len(self._state.listing.group_of)}: {words.name(key, self._source.roots)}")
        for row in document.rows[: document.starts[0] if document.starts else len(document.rows)]:
            if row.text and row.kind is not RowKind.HUNK:
                self.say(f"  {row.text}")
        change = self._table[key]
        if document.conflicts >= 0 and not change.is_clean:
            self._conflict(document)
        elif not change.is_clean:
            return
        elif document.has_lines:
            self._parts(document)
            self._blocks(document)
        else:
            self._whole(key)

    def _whole(self, key: Key) -> None:
        is_wanted = self.answer("take it?", "yn", "y: take it; n: leave it") == "y"
        if is_wanted != (key in self._state.selection):
            self._send(Toggled(None, Pane.LIST))

    def _parts(self, document: Document) -> None:
        for at, row in enumerate(document.rows):
            if row.part is Part.MODE:
                self._take(at, is_wanted=self.answer(f"{row.text}: take it?", "yn", "y: take it; n: leave it") == "y")

    def _blocks(self, document: Document) -> None:
        for number, start in enumerate(document.starts, 1):
            self._show(document, start)
            question = f"take this block ({number} of {len(document.starts)})?"
            letter = self.answer(question, "ynlad", _BLOCK_HELP)
            if letter == "l":
                self._lines(document, start)
            elif letter in "yn":
                self._take(start, is_wanted=letter == "y")
            else:
                for one in document.starts[number - 1 :]:
                    self._take(one, is_wanted=letter == "a")
                return

    def _take(self, row: int, *, is_wanted: bool) -> None:
        """Take what a row stands for, or leave it, whatever is chosen of it now."""
        self._send(MovedTo(row, Pane.DIFF))
        if is_wanted and self._chosen(row) is not Chosen.ALL:
            self._send(Toggled())
        while not is_wanted and self._chosen(row) is not Chosen.NONE:
            self._send(Toggled())

    def _chosen(self, row: int) -> Chosen:
        document, is_lines = self._state.diff.document, self._state.looks.is_lines
        choice = picking.choice_of(self._state.selection, document)
        return picking.state_of(document.rows[row], choice, document, is_lines=is_lines)

    def _lines(self, document: Document, start: int) -> None:
        self._send(Switched(Switch.LINES))
        block = document.rows[start].block
        for at, row in enumerate(document.rows):
            if row.block == block and row.kind in (RowKind.OLD, RowKind.NEW):
                self._line(document, at)
                self._take(at, is_wanted=self.answer("take this line?", "yn", "y: take it; n: leave it") == "y")
        self._send(Switched(Switch.LINES))

    def _show(self, document: Document, start: int) -> None:
        """Print a block with the lines around it, as far as they are its own."""
        first = start
        while first > 0 and document.rows[first - 1].kind is RowKind.SAME and start - first < 3:
            first -= 1
        last = start
        while last < len(document.rows) and document.rows[last].block == document.rows[start].block:
            last += 1
        end = last
        while end < len(document.rows) and document.rows[end].kind is RowKind.SAME and end - last < 3:
            end += 1
        for at in range(first, end):
            self._line(document, at)

    def _line(self, document: Document, at: int) -> None:
        row = document.rows[at]
        if row.kind in _SIGNS:
            is_old = row.kind is RowKind.OLD
            line = document.old[row.old] if is_old else document.new[row.new]
            self.say(_SIGNS[row.kind] + _text(line))
        else:
            self.say(row.text)

    def _conflict(self, document: Document) -> None:
        if not document.conflicts:
            letters = "mgbn" if self._state.is_settling else "mgn"  # both: of two kinds of things, in commits
            letter = self.answer("keep yours, take the agent's?", letters, "m: yours; g: the agent's; n: leave it")
            if letter != "n":
                self._send(Settled(_SIDES[letter]))
            return
        for number, start in enumerate(document.starts, 1):
            self._show_sides(document, start, number - 1)
            question = f"conflict {number} of {len(document.starts)}: yours, the agent's, both?"
            letter = self.answer(question, "mgben", _CONFLICT_HELP)
            if letter == "e" and document.key is not None:
                self._learn(self._work.edit(document.key))
            if letter in "en":
                return
            self._send(MovedTo(start, Pane.DIFF))
            self._send(Settled(_SIDES[letter]))

    def _show_sides(self, document: Document, start: int, block: int) -> None:
        for label, column in (("yours", 0), ("the agent's", 2)):
            self.say(f"{label}:")
            for row in document.rows[start:]:
                if row.block == block and row.kind is RowKind.CONFLICT and row.cells[column] is not None:
                    self.say("  " + _text(row.cells[column] or b""))

    def _folded(self) -> None:
        for at, row in enumerate(self._state.listing.rows):
            if isinstance(row, HeadRow) and row.group in self._state.listing.closed:
                count = len(self._state.listing.groups[row.group].keys)
                self.say("")
                if self.answer(f"{count:,} ignored by git, or generated: take them?", "yn", "y: all of them; n: none") == "y":
                    self._send(Toggled(at, Pane.LIST))

    # The end

    def _apply(self) -> int:
        self.say("")
        if not self._state.is_settling:
            self._count()
            self.say("".join(sentence(self._state.chosen, self._state.whole, 200)).strip())
        if not self._state.selection.keys:
            self.say("nothing was merged")
            self._keep()
            return 0
        self._send(ApplyAsked())
        try:
            while self._state.face is Face.RISK:
                self._risk()
            if self._state.face is Face.SUMMARY:
                wanted = self.answer(self._last_question(), "yn", "y: do it; n: not now, the choice is kept") == "y"
                self._send(Answered(YES if wanted else NO))
        except Enough:
            self._send(GivenUp())
        if self._state.face not in (Face.RESULT, Face.CLASH):
            self.say("nothing was merged; the choice is kept")
            self._keep()
        return self._state.code

    def _count(self) -> None:
        """Count the lines of all, but of a flood: the numbers below would be of nothing."""
        every = sorted(self._state.changes.changes, key=lambda one: (one.key not in self._state.selection, one.ignored))
        self._learn(Counted(self._source.count([one.key for one in every[:_COUNTED]])))

    def _last_question(self) -> str:
        if self._state.is_settling:
            return "bring the commits home with this?"
        return question(self._state)[0].lower()

    def _risk(self) -> None:
        key = self._state.asked[0]
        self.say(f"risky: {words.name(key, self._source.roots)}")
        for risk in self._table[key].risks:
            self.say(f"  {risk.why} ({risk.rule})")
        self._send(Answered(YES if self.answer("take it nevertheless?", "yn", "y: take it; n: leave it out") == "y" else NO))

    def _keep(self) -> None:
        state = self._state
        self._source.save(Draft(state.selection, state.parts, state.reviewed, state.diff.key, state.answers))


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").decode("utf-8", "surrogateescape")
