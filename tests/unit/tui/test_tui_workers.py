"""The screen's workers: lines are counted in batches, each received before the next, and nothing is counted after the end."""

from collections.abc import Iterable
from queue import SimpleQueue
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.merge3 import LineMerge, merge_lines
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet
from tests.harness.program import PATIENCE
from tests.harness.sample_session import Sample
from tui.effects import LoadDiff
from tui.events import LinesCounted, Result
from tui.model.document import DiffOptions
from tui.model.totals import LayeredCounts, LineCount
from tui.workers import Worker

_KEYS = st.integers(0, 40).map(lambda number: Key(0, b"%d" % number))
_COUNTS = st.dictionaries(_KEYS, st.builds(LineCount, st.integers(0, 9)), max_size=12)


class Many(Sample):
    """A source with more changes than one batch counts."""

    def __init__(self, count: int) -> None:
        super().__init__()
        file = Entry(FileType.FILE, size=10)
        keys = (Key(0, b"%05d" % number) for number in range(count))
        self.changes = ChangeSet(tuple(Change(key, ChangeKind.EDITED, file, file) for key in keys))
        self.asked: list[int] = []

    def count_lines(self, keys: Iterable[Key]) -> dict[Key, LineCount]:
        """Count each change as one line."""
        found = {key: LineCount(1, 1, 1) for key in keys}
        self.asked.append(len(found))
        return found


def started(source: Many) -> tuple[Worker, SimpleQueue[Result], Thread]:
    reported: SimpleQueue[Result] = SimpleQueue()
    work = Worker(source, reported.put)
    thread = Thread(target=work.count_lines, daemon=True)
    thread.start()
    return work, reported, thread


def test_counts_wait_until_the_last_ones_were_received() -> None:
    source = Many(1000)
    work, reported, thread = started(source)
    found: dict[Key, LineCount] = {}
    while len(found) < 1000:
        fact = reported.get(timeout=PATIENCE)
        assert isinstance(fact, LinesCounted)
        found.update(fact.counts)
        assert reported.empty(), "more was told before this was taken in: a key would wait behind it"
        assert sum(source.asked) == len(found)
        work.continue_counting()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert len(source.asked) > 1


def test_counting_ends_with_the_screen_even_without_a_receiver() -> None:
    source = Many(1000)
    work, reported, thread = started(source)
    reported.get(timeout=PATIENCE)
    work.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert sum(source.asked) < 1000


@given(st.lists(_COUNTS, max_size=20))
def test_a_tally_equals_a_dictionary_of_all_updates(some: list[dict[Key, LineCount]]) -> None:
    tally, expected = LayeredCounts(), dict[Key, LineCount]()
    for counts in some:
        before, known = tally, dict(tally)
        tally = tally.with_counts(counts)
        expected.update(counts)
        assert dict(tally) == expected
        assert len(tally) == len(expected)
        assert dict(before) == known, "what was there before was changed"


def test_a_tally_of_many_small_updates_has_few_layers() -> None:
    tally = LayeredCounts()
    for start in range(0, 10_000, 10):
        tally = tally.with_counts({Key(0, b"%d" % number): LineCount(1) for number in range(start, start + 10)})
    assert len(tally) == 10_000
    assert len(tally.layers) <= 11


class Fitting(Sample):
    """A source with one file that both sides changed, in different places."""

    def __init__(self) -> None:
        super().__init__()
        file = Entry(FileType.FILE, size=10)
        self.changes = ChangeSet((Change(Key(0, b"both.txt"), ChangeKind.EDITED, file, file, yours=file),))

    def read_content(self, _key: Key) -> tuple[bytes, bytes]:
        """Return the current content and the merged content."""
        return b"mine\nb\nc\nd\n", b"mine\nb\nc\nagent\n"

    def edited_text(self, _key: Key) -> bytes | None:
        return None

    def line_merge(self, _key: Key) -> LineMerge:
        """Return a merge without conflicts."""
        return merge_lines(b"a\nb\nc\nd\n", b"mine\nb\nc\nd\n", b"a\nb\nc\nagent\n")


@pytest.mark.parametrize("is_split", [False, True])
def test_hunks_of_a_cleanly_merged_file_can_be_selected(*, is_split: bool) -> None:
    work = Worker(Fitting(), lambda _fact: None)
    found = work.build_document(LoadDiff(Key(0, b"both.txt"), DiffOptions(is_split=is_split)), ())
    assert len(found.hunks) == len(found.hunk_rows) == 1
    assert found.conflict_count < 0


def test_a_clean_merge_is_shown_next_to_yours_and_the_agents_on_demand() -> None:
    work = Worker(Fitting(), lambda _fact: None)
    found = work.build_document(LoadDiff(Key(0, b"both.txt"), DiffOptions(shows_base=True)), ())
    assert (b"mine\n", b"mine\n", b"a\n") in [row.cells for row in found.rows]
    assert (b"d\n", b"agent\n", b"agent\n") in [row.cells for row in found.rows]
    assert found.conflict_count < 0, "the hint to resolve a conflict was shown"
    assert not any("< yours" in row.text for row in found.rows)
