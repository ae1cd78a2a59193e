"""Run the screen's work on threads: reading, counting, searching, merging. Workers only report results."""

import gc
from collections.abc import Callable
from threading import Event as Flag
from threading import Lock
from time import monotonic, sleep

from agent_dev.diff.merge3 import Resolutions
from agent_dev.errors import AgentDevError
from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change
from agent_dev.overlay.labels import display_path, format_count
from tui.effects import (
    Apply,
    AssessRisks,
    CountDeletions,
    DeclineCommits,
    ImportCommits,
    LoadDiff,
    LoadEntries,
    Resolve,
    Search,
    SlowEffect,
)
from tui.events import (
    ChangesRefreshed,
    ChangeUpdated,
    CommitsFound,
    DeletionsCounted,
    DiffLoaded,
    EntriesLoaded,
    Highlighted,
    LinesCounted,
    MessageReported,
    OperationFinished,
    ProgressReported,
    ResolutionFailed,
    Result,
    RisksAssessed,
    SearchFinished,
)
from tui.model import conflict, diff, outcome
from tui.model.document import DiffRow, Document
from tui.model.note_rows import with_notes
from tui.model.syntax import highlight
from tui.source import OperationResult, ReviewedSession
from tui.update.cursor import row_contains

_BATCH = 200  # changes counted between two checks for input
_REST = 0.15  # seconds without a key before counting continues
_TICK = 0.05  # seconds between progress reports


class Worker:
    """Runs effects and reports results through a callback. Only the last of the requested diffs is read."""

    def __init__(self, source: ReviewedSession, report: Callable[[Result], object]) -> None:
        self._source, self._report = source, report
        self._lock = Lock()
        self._requested: tuple[LoadDiff, tuple[str, ...]] | None = None
        self._is_busy = False
        self._stopped = Flag()
        self._is_acknowledged = Flag()
        self._last_input = 0.0
        self._changed: dict[Key, Change] = {}

    def stop(self) -> None:
        """Stop reading, counting and searching."""
        self._stopped.set()

    def delay_counting(self) -> None:
        """Delay counting, because a key was pressed."""
        self._last_input = monotonic()

    def continue_counting(self) -> None:
        """Continue counting; the last batch has been processed."""
        self._is_acknowledged.set()

    # Diffs

    def request_diff(self, request: LoadDiff, names: tuple[str, ...]) -> bool:
        """Request a diff; return whether `read_diffs` must be started for it. `names` are the changes that it requires."""
        with self._lock:
            self._requested = (request, names)
            was_busy, self._is_busy = self._is_busy, True
            return not was_busy

    def read_diffs(self) -> None:
        """Read requested diffs until there are none; runs on a worker thread."""
        while (request := self._next_request()) is not None:
            document = self.build_document(*request)
            self._report(DiffLoaded(document))
            if document.hunks and not self._stopped.is_set():
                spans = highlight(request[0].key.path, document.old_lines, document.new_lines)
                if spans is not None:
                    self._report(Highlighted(request[0].key, spans))

    def _next_request(self) -> tuple[LoadDiff, tuple[str, ...]] | None:
        with self._lock:
            request, self._requested = self._requested, None
            self._is_busy = request is not None
            return request

    def _change(self, key: Key) -> Change:
        return self._changed.get(key) or self._source.changes.by_key()[key]

    def build_document(self, request: LoadDiff, names: tuple[str, ...]) -> Document:
        """Return the diff of a change, or the error if it cannot be read."""
        change = self._change(request.key)
        path = display_path(request.key, self._source.roots) if request.options.shows_keys else ""  # not on the screen: never cut
        header = diff.header_rows(change, names, request.options.columns, self._outcome(change, request), path)
        try:
            return with_notes(self._build(change, header, request), request.notes)
        except AgentDevError as error:
            return diff.error_document(change, header, error.message)
        except OSError as error:
            return diff.error_document(change, header, error.strerror or str(error))

    def _outcome(self, change: Change, request: LoadDiff) -> str:
        return (
            outcome.describe_outcome(change, self._source.line_merge(change.key), request.resolutions)
            if change.is_combined
            else ""
        )

    def _build(self, change: Change, header: tuple[DiffRow, ...], request: LoadDiff) -> Document:
        look, merged = request.options, self._source.line_merge(change.key)
        edited = self._source.edited_text(change.key) if change.is_clean else None
        if merged is not None and edited is not None:
            return conflict.edited_document(change, header, merged, edited, look)
        if merged is not None and (merged.conflicts or look.shows_base):
            return conflict.conflict_document(change, header, merged, request.resolutions, look)
        if change.conflict or (change.is_merged and merged is None and request.resolutions):
            agent = self._source.read_content(change.key)[1]
            return conflict.whole_file_document(
                change, header, (self._source.yours_content(change.key), agent), request.resolutions, look
            )
        return diff.diff_document(change, header, self._source.read_content(change.key), look)

    # Numbers

    def count_lines(self) -> None:
        """Count the lines of all changes in batches while no key is pressed; runs on a worker thread.

        After each batch wait until the screen has processed it, so that keys do not queue behind results.
        """
        keys = [change.key for change in self._source.changes.changes]
        for start in range(0, len(keys), _BATCH):
            while monotonic() - self._last_input < _REST and not self._stopped.wait(_REST):
                pass
            if self._stopped.is_set():
                return
            self._is_acknowledged.clear()
            self._report(LinesCounted(self._source.count_lines(keys[start : start + _BATCH])))
            while not self._is_acknowledged.wait(_REST) and not self._stopped.is_set():
                pass
        if commits := self._source.find_commits():
            self._report(CommitsFound(commits))
        gc.freeze()  # the counts live as long as the screen: exclude them from collections

    def refresh(self) -> None:
        """Read the changes of a running session again; runs on a worker thread."""
        try:
            changes = self._source.read_changes()
        except AgentDevError as error:
            self._report(MessageReported(error.message))
            return
        except OSError:
            return  # unreadable at this moment; the next refresh may succeed
        self._report(ChangesRefreshed(changes))
        self._report(LinesCounted(self._source.count_lines([change.key for change in changes.changes])))

    # Slow effects

    def run_effect(self, effect: SlowEffect) -> None:
        """Run a slow effect and report its result; runs on a worker thread."""
        match effect:
            case Resolve(key, answers):
                self._report(self._resolved(key, self._source.resolve(key, answers), self._describe_resolved(key, answers)))
            case Search():
                self._search(effect)
            case AssessRisks(keys):
                self._report(RisksAssessed(self._source.assess_risks(keys)))
            case CountDeletions(selection):
                self._report(DeletionsCounted(selection, self._source.count_deletions(selection)))
            case LoadEntries(tab):
                self._report(EntriesLoaded(tab, self._source.read_commits()))
            case Apply() | ImportCommits() | DeclineCommits():
                self._report(_finished(self._run_operation(effect)))

    def _run_operation(self, effect: Apply | ImportCommits | DeclineCommits) -> OperationResult:
        match effect:
            case Apply(selection):
                return self._source.merge(selection, self._progress_reporter())
            case ImportCommits(ids, mode, name):
                return self._source.import_commits(ids, mode, name)
            case DeclineCommits(ids):
                return self._source.decline_commits(ids)

    def _describe_resolved(self, key: Key, answers: Resolutions) -> str:
        merged = self._source.line_merge(key)
        left = merged.left_out(answers) if merged is not None else 0
        return "conflict resolved; change selected" + (f"; {format_count(left, 'edit')} left out" if left else "")

    def _resolved(self, key: Key, change: Change | None, message: str, *, is_edited: bool = False) -> Result:
        if change is None:
            return ResolutionFailed("the lines cannot be combined: < keeps yours, > uses the agent's")
        self._changed[key] = change
        return ChangeUpdated(change, message, is_selected=True, is_edited=is_edited)

    def edit_conflict(self, key: Key) -> Result:
        """Let the user edit a conflict; the screen must be suspended."""
        try:
            text = self._source.edit_conflict(key)
        except AgentDevError as error:
            return MessageReported(error.message)
        if text is None:
            return MessageReported("no conflicting lines here")
        return self._resolved(
            key, self._source.resolve(key, text), "conflict resolved as edited; change selected", is_edited=True
        )

    def view_file(self, key: Key, line: int) -> Result:
        """Show a copy of the agent's file in an editor; the screen must be suspended."""
        try:
            self._source.view_file(key, line)
        except AgentDevError as error:
            return MessageReported(error.message)
        except OSError as error:
            return MessageReported(error.strerror or str(error))
        return MessageReported("that was a copy: edits in it are not kept")

    def _progress_reporter(self) -> Callable[[int, int], object]:
        last = 0.0

        def report(done: int, total: int) -> None:
            nonlocal last
            if done == total or monotonic() - last >= _TICK:
                last = monotonic()
                self._report(ProgressReported(done, total))

        return report

    def _search(self, effect: Search) -> None:
        for key in effect.keys:
            if self._stopped.is_set():
                return
            document = self.build_document(LoadDiff(key, effect.options), ())
            row = next((at for at in range(len(document.rows)) if row_contains(document, at, effect.text)), -1)
            if row >= 0:
                self._report(SearchFinished(key, row))
                return
            sleep(0)
        self._report(SearchFinished(None))


def _finished(ended: OperationResult) -> OperationFinished:
    return OperationFinished(ended.lines, ended.code, ended.may_have_changed, ended.conflicts, ended.has_rest)
