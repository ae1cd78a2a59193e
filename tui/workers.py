"""What the screen lets others do: reading, counting, searching, merging on worker threads, which only say what they found."""

import gc
from collections.abc import Callable
from threading import Event as Flag
from threading import Lock
from time import monotonic, sleep

from agent_dev.errors import AgentDevError
from agent_dev.overlay.changes import Change, Key
from tui.effects import Apply, Bring, Load, ReadEntries, Seek, Settle
from tui.events import (
    Changed,
    Coloured,
    Counted,
    DiffShown,
    EntriesRead,
    Fact,
    Finished,
    Progressed,
    Refreshed,
    Said,
    Sought,
)
from tui.model import conflict, diff, outcome
from tui.model.document import Document, Look, Row
from tui.model.syntax import colours
from tui.source import Ended, Source
from tui.update.cursor import holds

_BATCH = 200  # changes that are counted between two looks whether a key was pressed
_REST = 0.15  # seconds without a key before counting goes on
_TICK = 0.05  # seconds between two words about progress


class Work:
    """Does what the state asked for, and tells facts. Of diffs whoever asks last is served next."""

    def __init__(self, source: Source, tell: Callable[[Fact], object]) -> None:
        self._source, self._tell = source, tell
        self._lock = Lock()
        self._wanted: tuple[Load, tuple[str, ...]] | None = None
        self._is_busy = False
        self._stopped = Flag()
        self._heard = Flag()
        self._pressed = 0.0
        self._changed: dict[Key, Change] = {}

    def stop(self) -> None:
        """Do nothing more that could be left out."""
        self._stopped.set()

    def wait_for_user(self) -> None:
        """Let what is not urgent wait: a key was pressed."""
        self._pressed = monotonic()

    def go_on(self) -> None:
        """Count more: what was counted last has been taken in."""
        self._heard.set()

    # Diffs

    def ask(self, wanted: Load, names: tuple[str, ...]) -> bool:
        """Want a diff; return whether `read` must be started for it. `names` are of what the change needs."""
        with self._lock:
            self._wanted = (wanted, names)
            was_busy, self._is_busy = self._is_busy, True
            return not was_busy

    def read(self) -> None:
        """Read until nothing is wanted; runs on a worker thread."""
        while (wanted := self._next()) is not None:
            document = self.document(*wanted)
            self._tell(DiffShown(document))
            if document.blocks and not self._stopped.is_set():
                found = colours(wanted[0].key.path, document.old, document.new)
                if found is not None:
                    self._tell(Coloured(wanted[0].key, found))

    def _next(self) -> tuple[Load, tuple[str, ...]] | None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
            self._is_busy = wanted is not None
            return wanted

    def _change(self, key: Key) -> Change:
        return self._changed.get(key) or self._source.changes.by_key()[key]

    def document(self, wanted: Load, names: tuple[str, ...]) -> Document:
        """Return the diff of a change."""
        change = self._change(wanted.key)
        top = diff.notes(
            change, names, wanted.look.columns, self._source.renamed.get(wanted.key, ""), self._outcome(change, wanted)
        )
        try:
            return self._made(change, top, wanted)
        except AgentDevError as error:
            return diff.failed(change, top, error.message)
        except OSError as error:  # one strange file is shown as such
            return diff.failed(change, top, error.strerror or str(error))

    def _outcome(self, change: Change, wanted: Load) -> str:
        return outcome.sentence(change, self._source.merged(change.key), wanted.answers) if change.has_yours else ""

    def _made(self, change: Change, top: tuple[Row, ...], wanted: Load) -> Document:
        look, merged = wanted.look, self._source.merged(change.key)
        if merged is not None and (merged.conflicts or look.has_base):
            return conflict.document(change, top, merged, wanted.answers, look)
        if change.conflict or (change.is_merged and merged is None and wanted.answers):
            agent = self._source.content(change.key)[1]
            return conflict.of_wholes(change, top, (self._source.mine(change.key), agent), wanted.answers, look)
        return diff.document(change, top, self._source.content(change.key), look)

    # Numbers

    def count(self) -> None:
        """Count all changes, a few at a time, while no key is pressed; runs on a worker thread.

        Each time it waits until the screen has taken them in: a key would stand in line behind all that was told.
        """
        keys = [change.key for change in self._source.changes.changes]
        for start in range(0, len(keys), _BATCH):
            while monotonic() - self._pressed < _REST and not self._stopped.wait(_REST):
                pass
            if self._stopped.is_set():
                return
            self._heard.clear()
            self._tell(Counted(self._source.count(keys[start : start + _BATCH])))
            while not self._heard.wait(_REST) and not self._stopped.is_set():
                pass
        gc.freeze()  # the numbers stay: no collection has to look at them again

    def refresh(self) -> None:
        """Look again at a session that still runs; runs on a worker thread."""
        try:
            changes = self._source.refreshed()
        except AgentDevError as error:
            self._tell(Said(error.message))
            return
        except OSError:
            return  # in this instant it could not be read: the next look may
        self._tell(Refreshed(changes))
        self._tell(Counted(self._source.count([change.key for change in changes.changes])))

    # What takes its time

    def do(self, effect: Settle | Seek | Apply | ReadEntries | Bring) -> None:
        """Settle, search, merge, bring home; runs on a worker thread."""
        match effect:
            case Settle(key, answers):
                self._tell(self._settled(key, self._source.settle(key, answers), "settled, and taken"))
            case Seek(text, keys):
                self._seek(text, keys)
            case Apply(selection):
                self._tell(_finished(self._source.merge(selection, self._progress())))
            case ReadEntries(tab):
                self._tell(EntriesRead(tab, self._source.commits()))
            case Bring(ids, way, name):
                self._tell(_finished(self._source.bring(ids, way, name)))

    def _settled(self, key: Key, change: Change | None, word: str, *, is_edited: bool = False) -> Fact:
        if change is None:
            return Said("that way means nothing here: < keeps yours, > takes the agent's")
        self._changed[key] = change
        return Changed(change, word, is_taken=True, is_edited=is_edited)

    def edit(self, key: Key) -> Fact:
        """Let the user edit a conflict; runs while the screen is put away."""
        try:
            text = self._source.edit(key)
        except AgentDevError as error:
            return Said(error.message)
        if text is None:
            return Said("there are no lines in conflict here")
        return self._settled(key, self._source.settle(key, text), "settled as you edited it, and taken", is_edited=True)

    def _progress(self) -> Callable[[int, int], object]:
        last = 0.0

        def tell(done: int, whole: int) -> None:
            nonlocal last
            if done == whole or monotonic() - last >= _TICK:
                last = monotonic()
                self._tell(Progressed(done, whole))

        return tell

    def _seek(self, text: str, keys: tuple[Key, ...]) -> None:
        for key in keys:
            if self._stopped.is_set():
                return
            document = self.document(Load(key, Look()), ())
            row = next((at for at in range(len(document.rows)) if holds(document, at, text)), -1)
            if row >= 0:
                self._tell(Sought(key, row))
                return
            sleep(0)
        self._tell(Sought(None))


def _finished(ended: Ended) -> Finished:
    return Finished(ended.lines, ended.code, ended.is_done, ended.conflicts)
