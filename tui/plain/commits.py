"""The plain dialogue about commits: which to import, how, and how to resolve conflicts."""

from agent_dev.overlay.labels import RISK_SIGN, display_path, format_count
from tui.model.tabs import ImportMode, TabEntry
from tui.page_text import commits
from tui.plain import review as plain
from tui.plain.prompt import LineIO, Questioner, QuestionsQuit
from tui.source import OperationResult, ReviewedSession
from tui.text import labels

_MODES = {"y": ImportMode.ONTO_BRANCH, "s": ImportMode.SQUASHED, "b": ImportMode.NEW_BRANCH}
_IMPORT_HELP = (
    "y: onto your branch; s: squashed, as one commit whose message lists them; b: as a new branch, without a change of your files"
)


def ask_commits(source: ReviewedSession, line_io: LineIO) -> OperationResult | None:
    """Ask about the commits, and import the selected ones or decline them; return the result, None if nothing was done."""
    return _Commits(source, line_io).run()


class _Commits(Questioner):
    def __init__(self, source: ReviewedSession, line_io: LineIO) -> None:
        super().__init__(line_io)
        self._source = source

    def run(self) -> OperationResult | None:
        """Ask and import."""
        rows = self._source.read_commits()
        every = tuple(row for row in rows if row.id)
        if not every:
            return None
        self.print_line(f"{format_count(len(every), 'commit')}, newest first:")
        for row in rows:
            self.print_line(f"  {RISK_SIGN if row.risky_paths else ' '} {row.title}")
        try:
            letter = self.ask_without_typeahead("import them?", "aodn", "a: all; o: one by one; d: decline all of them; n: none")
            if letter == "n":
                return None
            if letter == "d":
                return self._source.decline_commits(_ids(every))
            selected = self._confirm_risks(every if letter == "a" else self._ask_each(every))
            return self._import(selected) if selected else None
        except QuestionsQuit:
            self.print_line("no commit was imported; they stay in the session")
            return None

    def _ask_each(self, every: tuple[TabEntry, ...]) -> tuple[TabEntry, ...]:
        ids = set()
        for number, row in enumerate(reversed(every), 1):
            self.print_line("")
            self.print_line(f"{number} of {len(every)}: {row.title}")
            for line in row.details[1:]:
                self.print_line(f"  {line}")
            if self.ask_letter("import this commit?", "yn", "y: import it; n: do not import it") == "y":
                ids.add(row.id)
        return tuple(row for row in every if row.id in ids)

    def _confirm_risks(self, selected: tuple[TabEntry, ...]) -> tuple[TabEntry, ...]:
        """Ask about each risky path; "no" deselects the commits that change it."""
        for key, one in commits.risky_paths(selected).items():
            affected = [row for row in selected if any(risky.path == one.path for risky in row.risky_paths)]
            if not affected:
                continue
            self.print_line(f"risky: {display_path(key, self._source.roots)}")
            for each in one.risks:
                self.print_line(f"  {each.why} ({each.rule}); check: {labels.risk_check(each)}")
            for line in one.details:
                self.print_line(f"  {line}")
            if self.ask_without_typeahead("import it anyway?", "yn", "y: import it; n: skip the commits that change it") == "n":
                selected = tuple(row for row in selected if row not in affected)
        return selected

    def _import(self, selected: tuple[TabEntry, ...]) -> OperationResult | None:
        letter = self.ask_without_typeahead(
            f"how to import {format_count(len(selected), 'commit')}?", "ysbn", f"{_IMPORT_HELP}; n: cancel"
        )
        if letter == "n":
            return None
        mode, name = _MODES[letter], ""
        while mode is ImportMode.NEW_BRANCH and not name:
            name = self.ask_line("name of the new branch: ")
        ended = self._source.import_commits(_ids(selected), mode, name)
        if ended.may_have_changed:
            return ended
        for line in ended.lines:
            self.print_line(line)
        if (
            not ended.conflicts
            or self.ask_letter("resolve conflicts now?", "yn", "y: resolve them one by one; n: import nothing") == "n"
        ):
            return None
        return self._resolve()

    def _resolve(self) -> OperationResult | None:
        """Ask for the resolution of conflicts, then of those of later commits."""
        source, ended = self._source.next_conflicts(), None
        while source is not None and ended is None:
            self.print_line("")
            self.print_line(f"conflicts of: {' '.join(source.command)}")
            plain.ask_changes(source, self._talk)
            ended, source = source.result, source.next_conflicts()
        return ended


def _ids(rows: tuple[TabEntry, ...]) -> tuple[str, ...]:
    return tuple(row.id for row in rows)
