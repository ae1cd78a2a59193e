"""What a journal's records say, and what the disk says of an operation: pure."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from agent_dev.merge_engine.journal import (
    Act,
    Begin,
    Instead,
    Journal,
    Mark,
    Op,
    Phase,
    Place,
    Reached,
    Replaced,
    Verdict,
    mark,
    place,
)
from agent_dev.merge_engine.journal_codec import (
    BACK,
    SETTLED,
    CorruptJournalError,
    adopt_record,
    back_record,
    begin_record,
    chain_of,
    intent_record,
    line,
    phase_record,
    reached_record,
    read,
    torn,
)
from agent_dev.overlay.changes import Entry, FileType, Key

OLD, NEW, OTHER = (Entry(FileType.FILE, 0o644, 3, inode) for inode in (1, 2, 3))
KEY = Key(0, b"a/\xff\n")
OP = Op(Act.EXCHANGE, KEY, "1", mark(NEW), mark(OLD), "digest")
FOLDER = Mark(FileType.DIRECTORY, 9, attributes=(("user.x", b"\0\xff"),))
OPS = (OP, Op(Act.ATTACH, Key(1, b"d"), "2", FOLDER, is_loose=True), Op(Act.PRUNE, Key(0, b"e"), "3", old=FOLDER))
BEGIN = Begin("id", "session", (("/r", 1, 2),), ("/s",), 5)
FORWARD = Phase("merge", (0, 1, 2), is_forward=True, time=7)


def written(*records: Mapping[str, object]) -> bytes:
    data, chain = b"", 0
    for record in records:
        data += line(record, chain)
        chain = chain_of(data.splitlines()[-1])
    return data


BEGUN = (begin_record(BEGIN), adopt_record(((KEY, "1"),)), intent_record(OPS, ({"path": "x"},)))
UNDER_WAY = (*BEGUN, phase_record(FORWARD))
REACHED = (*UNDER_WAY, reached_record(Reached({1: "why"}, {0: mark(NEW), 2: None})))


def test_what_is_written_is_read() -> None:
    said = read(written(*REACHED))

    assert (said.begin, said.ops, said.rows, said.adopted) == (BEGIN, OPS, ({"path": "x"},), ((KEY, "1"),))
    assert said.phases == (
        Phase("merge", (0, 1, 2), is_forward=True, time=7, reached=Reached({1: "why"}, {0: mark(NEW), 2: None})),
    )
    assert (said.done(), said.found()) == (frozenset((0, 2)), {0: mark(NEW), 2: None})


def test_what_stands_again_after_a_phase_was_driven_back_is_known() -> None:
    moved = Mark(FileType.FILE, 2, 3, ctime=99)
    said = read(written(*REACHED, SETTLED, phase_record(UNDO), back_record({0: moved})))

    assert said.found() == {0: moved, 2: None}
    assert (said.verdict, said.done()) == (Verdict.CLEAN, frozenset((0, 2)))


UNDO = Phase("undo", (0, 2), is_forward=False, time=8)
USERS, WITHOUT = Mark(FileType.FILE, 4, 5, ctime=6), Mark(FileType.FILE, 5, 5)
OTHER_OP = replace(OP, slot="1.apart", new=USERS, old=WITHOUT, digest="")
APART = replace(UNDO, instead=(Instead(0, OTHER_OP, "1"),))
UNDONE_APART = (*REACHED, SETTLED, phase_record(APART), reached_record(Reached({}, {0: WITHOUT, 2: None})), SETTLED)
REDO = Phase("redo", (0, 2), is_forward=True, time=9)


def test_an_undo_may_drive_another_operation_instead() -> None:
    said = read(written(*UNDONE_APART))

    assert said.ops == (OTHER_OP, *OPS[1:])
    assert said.replaced == {0: Replaced(OP, mark(NEW), "1")}
    assert (said.done(), said.found()) == (frozenset(), {0: WITHOUT, 2: None})


def test_after_a_redo_all_is_as_before_that() -> None:
    again = reached_record(Reached({}, {0: USERS, 2: None}))
    said = read(written(*UNDONE_APART, phase_record(REDO), again, SETTLED))

    assert (said.ops, said.replaced, said.done()) == (OPS, {}, frozenset((0, 2)))
    assert said.found()[0] == mark(NEW)


def test_a_redo_that_was_stopped_there_leaves_the_other_operation() -> None:
    said = read(written(*UNDONE_APART, phase_record(REDO), reached_record(Reached({0: "why"}, {2: None}))))

    assert (said.ops[0], said.found()[0]) == (OTHER_OP, WITHOUT)


@pytest.mark.parametrize("end", [BACK, reached_record(Reached({0: "why"}, {2: None}))], ids=["back", "stopped"])
def test_what_was_not_undone_keeps_its_operation(end: Mapping[str, object]) -> None:
    said = read(written(*REACHED, SETTLED, phase_record(APART), end))

    assert (said.ops, said.replaced, said.found()[0]) == (OPS, {}, mark(NEW))


@pytest.mark.parametrize(
    ("records", "verdict", "done"),
    [
        ((), Verdict.FORGET, ()),
        (BEGUN, Verdict.FORGET, ()),
        (UNDER_WAY, Verdict.ROLL_BACK, ()),
        ((*UNDER_WAY, BACK), Verdict.FORGET, ()),
        (REACHED, Verdict.FINISH, (0, 2)),
        ((*REACHED, SETTLED), Verdict.CLEAN, (0, 2)),
        ((*REACHED, SETTLED, phase_record(UNDO)), Verdict.ROLL_BACK, (0, 2)),
        ((*REACHED, SETTLED, phase_record(UNDO), BACK), Verdict.CLEAN, (0, 2)),
        ((*REACHED, SETTLED, phase_record(UNDO), reached_record(Reached())), Verdict.FINISH, ()),
    ],
)
def test_the_records_say_what_must_happen_next(
    records: tuple[Mapping[str, object], ...], verdict: Verdict, done: tuple[int, ...]
) -> None:
    said = read(written(*records))

    assert (said.verdict, said.done()) == (verdict, frozenset(done))


def test_what_a_crash_leaves_of_a_last_line_counts_as_not_written() -> None:
    data = written(*REACHED)
    start = data[:-1].rfind(b"\n") + 1
    for cut in range(start, len(data) - 1):
        assert read(data[:cut]).verdict is Verdict.ROLL_BACK
        assert torn(data[:cut]) == (start, False)
    assert read(data[:-1]).verdict is Verdict.FINISH
    assert torn(data[:-1]) == (len(data) - 1, True)


def test_a_flipped_bit_anywhere_is_damage() -> None:
    data = written(*REACHED, SETTLED)
    for at in range(len(data)):
        for bit in (1, 0x20, 0x80):
            with pytest.raises(CorruptJournalError):
                read(data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :])


@pytest.mark.parametrize("number", range(len(REACHED)))
def test_a_line_that_is_missing_doubled_or_out_of_place_is_damage(number: int) -> None:
    lines = written(*REACHED, SETTLED).splitlines(keepends=True)
    rest = lines[:number] + lines[number + 1 :]
    for some in (rest, [*lines[: number + 1], *lines[number:]], [*rest, lines[number]]):
        with pytest.raises(CorruptJournalError):
            read(b"".join(some))


@pytest.mark.parametrize(
    "records",
    [
        (phase_record(FORWARD),),
        (begin_record(BEGIN), SETTLED),
        (*BEGUN, *BEGUN),
        (*BEGUN, reached_record(Reached())),
        (*UNDER_WAY, phase_record(FORWARD)),
        (*REACHED, BACK),
        (*UNDER_WAY, back_record({0: mark(NEW)})),
        (*BEGUN, phase_record(Phase("merge", (3,), is_forward=True))),
        ({**begin_record(BEGIN), "version": 2},),
        (*BEGUN, {"record": "unheard of"}),
        (*REACHED, SETTLED, phase_record(replace(APART, is_forward=True))),
        (*REACHED, SETTLED, phase_record(replace(APART, numbers=(2,)))),
        (*REACHED, SETTLED, phase_record(replace(APART, instead=(Instead(2, OTHER_OP),)))),
        (*REACHED, SETTLED, phase_record(replace(APART, instead=(Instead(0, replace(OTHER_OP, slot="../1")),)))),
        (*REACHED, SETTLED, phase_record(replace(APART, instead=(Instead(0, OTHER_OP, "../1"),)))),
        (*REACHED, SETTLED, phase_record(replace(APART, instead=(Instead(0, replace(OTHER_OP, old=None)),)))),
        (*UNDONE_APART, phase_record(APART)),
    ],
)
def test_records_that_no_merge_writes_are_damage(records: tuple[Mapping[str, object], ...]) -> None:
    with pytest.raises(CorruptJournalError):
        read(written(*records))


@pytest.mark.parametrize("path", [b"..", b"a/../b", b"/abs", b"a//b", b"a/", b"./a", b"a\0b"])
def test_a_path_that_leads_elsewhere_is_damage(path: bytes) -> None:
    key = Key(0, path)
    whole = Op(Act.ATTACH, KEY, "1", FOLDER, whole=((path, mark(NEW)),))
    for record in (adopt_record(((key, "1"),)), *(intent_record((op,), ()) for op in (replace(OP, key=key), whole))):
        with pytest.raises(CorruptJournalError, match="no path below a root"):
            read(written(begin_record(BEGIN), record))


@pytest.mark.parametrize("slot", ["..", ".", "a/b", "/abs", "1\0"])
def test_a_slot_that_is_no_name_is_damage(slot: str) -> None:
    for record in (adopt_record(((KEY, slot),)), intent_record((replace(OP, slot=slot),), ())):
        with pytest.raises(CorruptJournalError, match="no slot"):
            read(written(begin_record(BEGIN), record))


ATTACH, DETACH = Op(Act.ATTACH, KEY, "1", mark(NEW)), Op(Act.DETACH, KEY, "1", None, mark(OLD))


@pytest.mark.parametrize(
    ("op", "at", "in_slot", "forward", "back"),
    [
        (OP, OLD, NEW, Place.STILL, Place.DRIVEN),
        (OP, NEW, OLD, Place.DRIVEN, Place.STILL),
        (OP, OTHER, NEW, Place.STILL, Place.STRANGE),  # the user saved before it came to that
        (OP, NEW, OTHER, Place.DRIVEN, Place.STILL),  # in the last instant: that goes back
        (OP, OTHER, OLD, Place.STRANGE, Place.STILL),  # the user saved since
        (OP, None, OLD, Place.STRANGE, Place.STILL),
        (ATTACH, None, NEW, Place.STILL, Place.DRIVEN),
        (ATTACH, NEW, None, Place.DRIVEN, Place.STILL),
        (ATTACH, OTHER, NEW, Place.STILL, Place.STRANGE),
        (ATTACH, OTHER, None, Place.STRANGE, Place.STILL),
        (ATTACH, None, None, Place.STILL, Place.STILL),
        (DETACH, OLD, None, Place.STILL, Place.DRIVEN),
        (DETACH, None, OLD, Place.DRIVEN, Place.STILL),
        (DETACH, OTHER, OLD, Place.STRANGE, Place.STILL),
    ],
)
def test_the_inodes_tell_how_far_a_drive_got(
    op: Op, at: Entry | None, in_slot: Entry | None, forward: Place, back: Place
) -> None:
    assert place(op, at, in_slot, is_forward=True) is forward
    assert place(op, at, in_slot, is_forward=False) is back


def test_an_empty_journal_asks_for_nothing() -> None:
    assert read(b"") == Journal()


@pytest.mark.parametrize(
    ("device", "inode", "boot", "is_it"),
    [(1, 2, "this", True), (9, 2, "this", False), (9, 2, "next", True), (1, 3, "this", False), (1, 3, "next", False)],
)
def test_a_root_is_known_by_its_inode_and_by_its_device_until_the_machine_starts_again(
    device: int,
    inode: int,
    boot: str,
    is_it: bool,  # noqa: FBT001  a column
) -> None:
    assert replace(BEGIN, boot="this").is_root(0, device, inode, boot) is is_it
