"""What the screen's workers promise it: numbers a few at a time, each taken in before the next, and nothing after the end."""

from collections.abc import Iterable
from queue import SimpleQueue
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.merge3 import Merged, merge
from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind
from tests.harness.program import PATIENCE
from tests.harness.sample_session import Sample
from tui.effects import Load
from tui.events import Counted, Fact
from tui.model.document import Look
from tui.model.totals import Count, Tally
from tui.workers import Work

_KEYS = st.integers(0, 40).map(lambda number: Key(0, b"%d" % number))
_COUNTS = st.dictionaries(_KEYS, st.builds(Count, st.integers(0, 9)), max_size=12)


class Many(Sample):
    """More changes than are counted at a time."""

    def __init__(self, count: int) -> None:
        super().__init__()
        file = Entry(FileType.FILE, size=10)
        keys = (Key(0, b"%05d" % number) for number in range(count))
        self.changes = ChangeSet(tuple(Change(key, Kind.EDITED, file, file) for key in keys))
        self.asked: list[int] = []

    def count(self, keys: Iterable[Key]) -> dict[Key, Count]:
        """Count each as one line."""
        found = {key: Count(1, 1, 1) for key in keys}
        self.asked.append(len(found))
        return found


def started(source: Many) -> tuple[Work, SimpleQueue[Fact], Thread]:
    told: SimpleQueue[Fact] = SimpleQueue()
    work = Work(source, told.put)
    thread = Thread(target=work.count, daemon=True)
    thread.start()
    return work, told, thread


def test_numbers_wait_until_the_last_ones_were_taken_in() -> None:
    source = Many(1000)
    work, told, thread = started(source)
    found: dict[Key, Count] = {}
    while len(found) < 1000:
        fact = told.get(timeout=PATIENCE)
        assert isinstance(fact, Counted)
        found.update(fact.counts)
        assert told.empty(), "more was told before this was taken in: a key would wait behind it"
        assert sum(source.asked) == len(found)
        work.go_on()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert len(source.asked) > 1


def test_counting_ends_with_the_screen_also_when_nobody_takes_the_numbers_in() -> None:
    source = Many(1000)
    work, told, thread = started(source)
    told.get(timeout=PATIENCE)
    work.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert sum(source.asked) < 1000


@given(st.lists(_COUNTS, max_size=20))
def test_a_tally_is_the_dictionary_that_all_updates_would_make(some: list[dict[Key, Count]]) -> None:
    tally, expected = Tally(), dict[Key, Count]()
    for counts in some:
        before, known = tally, dict(tally)
        tally = tally.plus(counts)
        expected.update(counts)
        assert dict(tally) == expected
        assert len(tally) == len(expected)
        assert dict(before) == known, "what was there before was changed"


def test_a_tally_of_many_small_sums_has_few_layers() -> None:
    tally = Tally()
    for start in range(0, 10_000, 10):
        tally = tally.plus({Key(0, b"%d" % number): Count(1) for number in range(start, start + 10)})
    assert len(tally) == 10_000
    assert len(tally.layers) <= 11


class Fitting(Sample):
    """A file that both changed, in different places."""

    def __init__(self) -> None:
        super().__init__()
        file = Entry(FileType.FILE, size=10)
        self.changes = ChangeSet((Change(Key(0, b"both.txt"), Kind.EDITED, file, file, mine=file),))

    def content(self, _key: Key) -> tuple[bytes, bytes]:
        """Return what is there, and what would land."""
        return b"mine\nb\nc\nd\n", b"mine\nb\nc\nagent\n"

    def merged(self, _key: Key) -> Merged:
        """Return a merge without conflicts."""
        return merge(b"a\nb\nc\nd\n", b"mine\nb\nc\nd\n", b"a\nb\nc\nagent\n")


@pytest.mark.parametrize("is_split", [False, True])
def test_of_what_both_changed_and_fits_blocks_can_be_chosen(*, is_split: bool) -> None:
    work = Work(Fitting(), lambda _fact: None)
    found = work.document(Load(Key(0, b"both.txt"), Look(is_split=is_split)), ())
    assert len(found.blocks) == len(found.starts) == 1
    assert found.conflicts < 0


def test_what_fits_is_shown_beside_yours_and_the_agents_on_demand() -> None:
    work = Work(Fitting(), lambda _fact: None)
    found = work.document(Load(Key(0, b"both.txt"), Look(has_base=True)), ())
    assert (b"mine\n", b"mine\n", None) in [row.cells for row in found.rows]
    assert (None, b"agent\n", b"agent\n") in [row.cells for row in found.rows]
    assert found.conflicts < 0, "the keys that settle a conflict were offered"
    assert not any("takes yours" in row.text for row in found.rows)
