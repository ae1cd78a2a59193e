"""The records of a journal, and the progress of an operation according to the disk, as pure functions."""

from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from itertools import chain
from typing import Any

import pytest

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git.updates import NO_ENTRY, GitUpdate, IndexUpdate, RefUpdate
from agent_dev.merge_engine import journal_codec
from agent_dev.merge_engine.journal import (
    EntryMark,
    Intent,
    Journal,
    MemberMarks,
    MergeHeader,
    MovedEntries,
    NextAction,
    Operation,
    OpKind,
    OpProgress,
    Phase,
    PhaseResult,
    ReplacedOp,
    Substitute,
    entry_mark,
    op_progress,
)
from agent_dev.merge_engine.journal_codec import (
    BACK,
    FINISHED,
    CorruptJournalError,
    adopt_records,
    back_record,
    begin_record,
    encode_line,
    inspect,
    intent_records,
    line_checksum,
    phase_record,
    reached_records,
)
from agent_dev.overlay.changes import Change, ChangeKind, Resolution

OLD, NEW, OTHER = (Entry(FileType.FILE, 0o644, 3, inode) for inode in (1, 2, 3))
KEY = Key(0, b"a/\xff\n")
OP = Operation(OpKind.EXCHANGE, KEY, "1", entry_mark(NEW), entry_mark(OLD), b"digest")
FOLDER = EntryMark(FileType.DIRECTORY, inode=9, attributes=(("user.x", b"\0\xff"),))
OPS = (
    OP,
    Operation(OpKind.ATTACH, Key(1, b"d"), "2", FOLDER, is_auxiliary=True),
    Operation(OpKind.PRUNE, Key(0, b"e"), "3", old=FOLDER),
)
BEGIN = MergeHeader("id", "session", (("/r", 1, 2),), ("/s",), 5)
FORWARD = Phase("merge", (0, 1, 2), is_forward=True, time=7)


def written(*records: Mapping[str, object]) -> bytes:
    data, chain = b"", 0
    for record in records:
        data += encode_line(record, chain)
        chain = line_checksum(data.splitlines()[-1])
    return data


def decode(data: bytes) -> Journal:
    return journal_codec.decode(BytesIO(data))


CHANGES = (
    Change(KEY, ChangeKind.EDITED, Entry(FileType.FILE), Entry(FileType.FILE), resolution=Resolution.BOTH),
    Change(Key(0, b"e"), ChangeKind.DELETED, Entry(FileType.DIRECTORY), None, is_from_commit=True),
    Change(Key(0, b"new"), ChangeKind.ADDED, None, Entry(FileType.FILE), renamed_from=Key(0, b"old")),
    Change(Key(0, b"mine"), ChangeKind.ADDED, None, Entry(FileType.FILE), resolution=Resolution.YOURS),
)
KEPT: Mapping[Key, Mapping[str, Any]] = {KEY: {"part": "7", "part_mode": 0o640}, Key(0, b"mine"): {"agent": "8"}}
INTENT = Intent(OPS, CHANGES, KEPT)
BEGUN = (begin_record(BEGIN), *adopt_records(((KEY, "1"),)), *intent_records(INTENT))
UNDER_WAY = (*BEGUN, phase_record(FORWARD))
REACHED = (*UNDER_WAY, *reached_records(PhaseResult({1: "why"}, {0: entry_mark(NEW), 2: None})))


def test_a_journal_round_trips() -> None:
    printed = decode(written(*REACHED))

    assert (printed.header, printed.ops, tuple(printed.adopted)) == (BEGIN, OPS, ((KEY, "1"),))
    assert (printed.changes, printed.kept) == (CHANGES, KEPT)
    assert printed.phases == (
        Phase("merge", (0, 1, 2), is_forward=True, time=7, result=PhaseResult({1: "why"}, {0: entry_mark(NEW), 2: None})),
    )
    assert (printed.applied_ops(), printed.known_marks()) == (frozenset((0, 2)), {0: entry_mark(NEW), 2: None})


def test_known_changes_are_used_if_they_are_equal() -> None:
    """Of a redo: the session has the same changes."""
    other = Change(KEY, ChangeKind.EDITED, Entry(FileType.FILE), Entry(FileType.FILE))  # not merged
    known = [other, *(replace(change) for change in CHANGES[1:])]
    decode(written(*BEGUN))  # else the journal that was decoded last may be the same
    printed = journal_codec.decode(BytesIO(written(*REACHED)), known)

    assert printed.changes == CHANGES
    assert [one is another for one, another in zip(printed.changes, known, strict=True)] == [False, True, True, True]
    assert [one.key is another.key for one, another in zip(printed.changes, known, strict=True)] == [True] * 4
    assert decode(written(*UNDER_WAY)).changes[1] is not known[1]


def test_entries_moved_into_slots_are_listed() -> None:
    moves = [(Key(number % 2, b"a/\xff\n%d" % number), str(number)) for number in range(5)]
    journal = decode(written(begin_record(BEGIN), *adopt_records(tuple(moves[:3])), *adopt_records(tuple(moves[3:]))))

    assert list(journal.adopted) == moves
    assert not MovedEntries()
    assert not MovedEntries().add([])
    assert MovedEntries().add(moves) == journal.adopted != MovedEntries().add(moves[1:])


def test_long_records_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decode(written(*REACHED))
    monkeypatch.setattr(journal_codec, "PART", 1)
    intent, reached = (*intent_records(INTENT),), (*reached_records(PhaseResult({1: "why"}, {0: entry_mark(NEW), 2: None})),)
    assert (len(intent), len(reached)) == (len(OPS) + len(CHANGES), 2)

    lines = written(*BEGUN[:2], *intent, phase_record(FORWARD), *reached).splitlines(keepends=True)
    states = [decode(b"".join(lines[: number + 1])) for number in range(len(lines))]
    assert replace(states[-1], checksum=0) == replace(whole, checksum=0)
    actions = [state.next_action for state in states]
    assert actions == [NextAction.DISCARD] * (2 + len(intent)) + [NextAction.ROLL_BACK] * 2 + [NextAction.FINISH]
    rolled_back = decode(written(*BEGUN[:2], *intent, phase_record(FORWARD), reached[0], BACK))
    assert (rolled_back.next_action, rolled_back.found) == (NextAction.DISCARD, ())


def test_the_count_of_implied_changes_and_git_updates_end_an_intent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_codec, "PART", 1)
    git = GitUpdate("/r/.git", "git", (), (RefUpdate("refs/heads/x", "", "1" * 40),))
    folder = Operation(OpKind.ATTACH, Key(0, b"w"), "9", FOLDER, members=((b"in", entry_mark(NEW)),))
    printed = decode(written(begin_record(BEGIN), *intent_records(Intent((folder, *OPS), CHANGES, KEPT, 1, (git,)))))

    assert (printed.ops, printed.implying, printed.git_updates) == ((folder, *OPS), (folder,), (git,))
    assert [*printed.implied_files()] == [(Key(0, b"w/in"), FileType.FILE)]


MEMBERS = tuple((b"in/%d" % number, entry_mark(NEW).with_values(inode=number)) for number in range(5))
WHOLE = Operation(OpKind.ATTACH, Key(0, b"w"), "9", FOLDER, members=MEMBERS)
INDEX = tuple(IndexUpdate(b"%d" % number, NO_ENTRY, (0o100644, "2" * 40)) for number in range(5))
GIT = tuple(
    GitUpdate(
        f"/{name}/.git",
        "git",
        (),
        (RefUpdate("refs/heads/x", "", "1" * 40),),
        4,
        INDEX,
        ("x", "3" * 40),
        1,
        ("4" * 40,),
        ("5" * 40,),
    )
    for name in ("r", "s")
)


@pytest.mark.parametrize("part", [1, 2, 4, 5, 1000])
def test_members_and_index_updates_come_in_parts(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(journal_codec, "PART", part)
    records = (*intent_records(Intent((WHOLE, *OPS), CHANGES, KEPT, 5, GIT)),)
    printed = decode(written(begin_record(BEGIN), *records))

    assert (printed.ops, printed.implying, printed.git_updates) == ((WHOLE, *OPS), (WHOLE,), GIT)
    assert all(len(one.get("members", ())) <= part for one in records)
    assert all(len(git["entries"]) <= part for one in records for git in one.get("git", ()))
    assert sum(len(git["commits"]) + len(git["declined"]) for one in records for git in one.get("git", ())) == 4


def test_members_without_a_whole_directory_are_damage() -> None:
    more = {"record": "members", "op": 0, "members": MEMBERS}
    with pytest.raises(CorruptJournalError, match="not a whole directory"):
        decode(written(*BEGUN, more))
    with pytest.raises(CorruptJournalError, match="misplaced"):
        decode(
            written(begin_record(BEGIN), *intent_records(Intent((WHOLE,))), phase_record(replace(FORWARD, numbers=(0,))), more)
        )


def test_the_git_updates_of_an_applied_merge_are_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """After any line, and after a cut in the middle of any line, they are those of the whole journal."""
    monkeypatch.setattr(journal_codec, "PART", 2)
    intent = intent_records(Intent((WHOLE, *OPS), CHANGES, KEPT, 5, GIT))
    ended = reached_records(PhaseResult({1: "why"}, {0: entry_mark(NEW), 2: None}))
    undo = (phase_record(UNDO), *reached_records(PhaseResult({}, {})), FINISHED)
    data = written(begin_record(BEGIN), *intent, phase_record(FORWARD), *ended, FINISHED, *undo, phase_record(FORWARD), BACK)
    seen = set()
    for end in {*range(0, len(data), 37), *(at + 1 for at, byte in enumerate(data) if byte == ord("\n"))}:
        journal = decode(data[:end])
        updates = tuple(replace(one, index_updates=()) for one in journal.git_updates) if journal.is_applied else ()
        assert journal_codec.read_applied_updates(BytesIO(data[:end])) == updates
        seen.add(updates)
    assert len(seen) == 2
    with pytest.raises(CorruptJournalError):
        journal_codec.read_applied_updates(BytesIO(data.replace(b'"forward":true', b'"forward":null', 1)))
    with pytest.raises(CorruptJournalError, match="invalid"):
        journal_codec.read_applied_updates(BytesIO(written(begin_record(BEGIN), {"record": "back"})))


def test_a_member_of_a_whole_directory_is_found_by_its_key() -> None:
    marks = MemberMarks((WHOLE, *OPS, replace(WHOLE, key=Key(1, b"a/b"))))
    assert [marks.get(Key(0, b"w/" + path)) for path, _ in MEMBERS] == [mark for _, mark in MEMBERS]
    assert marks.get(Key(1, b"a/b/in/3")) == MEMBERS[3][1]
    for key in (WHOLE.key, Key(0, b"w/in"), Key(1, b"w/in/3"), Key(0, b"a/b/in/3"), Key(0, b"in/3"), Key(0, b"ww/in/3"), KEY):
        assert marks.get(key) is None, key
    assert MemberMarks(OPS).get(KEY) is None


def test_entries_restored_by_reverting_a_phase_are_known() -> None:
    moved = EntryMark(FileType.FILE, inode=2, size=3, ctime=99)
    printed = decode(written(*REACHED, FINISHED, phase_record(UNDO), back_record({0: moved})))

    assert printed.known_marks() == {0: moved, 2: None}
    assert (printed.next_action, printed.applied_ops()) == (NextAction.NONE, frozenset((0, 2)))


UNDO = Phase("undo", (0, 2), is_forward=False, time=8)
USERS, WITHOUT = EntryMark(FileType.FILE, inode=4, size=5, ctime=6), EntryMark(FileType.FILE, inode=5, size=5)
OTHER_OP = replace(OP, slot="1.apart", new=USERS, old=WITHOUT, digest=b"")
APART = replace(UNDO, substitutes=(Substitute(0, OTHER_OP, "1"),))
UNDONE_APART = (*REACHED, FINISHED, phase_record(APART), *reached_records(PhaseResult({}, {0: WITHOUT, 2: None})), FINISHED)
REDO = Phase("redo", (0, 2), is_forward=True, time=9)


def test_an_undo_may_replace_an_operation() -> None:
    printed = decode(written(*UNDONE_APART))

    assert printed.ops == (OTHER_OP, *OPS[1:])
    assert printed.replaced == {0: ReplacedOp(OP, entry_mark(NEW), "1")}
    assert (printed.applied_ops(), printed.known_marks()) == (frozenset(), {0: WITHOUT, 2: None})


def test_after_a_redo_the_replacement_is_gone() -> None:
    again = reached_records(PhaseResult({}, {0: USERS, 2: None}))
    printed = decode(written(*UNDONE_APART, phase_record(REDO), *again, FINISHED))

    assert (printed.ops, printed.replaced, printed.applied_ops()) == (OPS, {}, frozenset((0, 2)))
    assert printed.known_marks()[0] == entry_mark(NEW)


def test_an_interrupted_redo_keeps_the_replacement() -> None:
    printed = decode(written(*UNDONE_APART, phase_record(REDO), *reached_records(PhaseResult({0: "why"}, {2: None}))))

    assert (printed.ops[0], printed.known_marks()[0]) == (OTHER_OP, WITHOUT)


@pytest.mark.parametrize("end", [BACK, *reached_records(PhaseResult({0: "why"}, {2: None}))], ids=["back", "stopped"])
def test_an_operation_that_was_not_undone_is_kept(end: Mapping[str, object]) -> None:
    printed = decode(written(*REACHED, FINISHED, phase_record(APART), end))

    assert (printed.ops, printed.replaced, printed.known_marks()[0]) == (OPS, {}, entry_mark(NEW))


@pytest.mark.parametrize(
    ("records", "verdict", "done"),
    [
        ((), NextAction.DISCARD, ()),
        (BEGUN, NextAction.DISCARD, ()),
        (UNDER_WAY, NextAction.ROLL_BACK, ()),
        ((*UNDER_WAY, BACK), NextAction.DISCARD, ()),
        (REACHED, NextAction.FINISH, (0, 2)),
        ((*REACHED, FINISHED), NextAction.NONE, (0, 2)),
        ((*REACHED, FINISHED, phase_record(UNDO)), NextAction.ROLL_BACK, (0, 2)),
        ((*REACHED, FINISHED, phase_record(UNDO), BACK), NextAction.NONE, (0, 2)),
        ((*REACHED, FINISHED, phase_record(UNDO), *reached_records(PhaseResult())), NextAction.FINISH, ()),
    ],
)
def test_the_records_determine_the_next_action(
    records: tuple[Mapping[str, object], ...], verdict: NextAction, done: tuple[int, ...]
) -> None:
    printed = decode(written(*records))

    assert (printed.next_action, printed.applied_ops()) == (verdict, frozenset(done))


def test_a_partial_last_line_counts_as_not_written() -> None:
    data = written(*REACHED)
    start = data[:-1].rfind(b"\n") + 1
    for cut in range(start, len(data) - 1):
        assert decode(data[:cut]).next_action is NextAction.ROLL_BACK
        assert inspect(BytesIO(data[:cut]))[:2] == (start, False)
    assert decode(data[:-1]).next_action is NextAction.FINISH
    assert inspect(BytesIO(data[:-1]))[:2] == (len(data) - 1, True)


def test_a_flipped_bit_anywhere_is_damage() -> None:
    data = written(*REACHED, FINISHED)
    for at in range(len(data)):
        for bit in (1, 0x20, 0x80):
            with pytest.raises(CorruptJournalError):
                decode(data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :])


@pytest.mark.parametrize("number", range(len(REACHED)))
def test_a_missing_duplicate_or_misplaced_line_is_damage(number: int) -> None:
    lines = written(*REACHED, FINISHED).splitlines(keepends=True)
    rest = lines[:number] + lines[number + 1 :]
    for some in (rest, [*lines[: number + 1], *lines[number:]], [*rest, lines[number]]):
        with pytest.raises(CorruptJournalError):
            decode(b"".join(some))


@pytest.mark.parametrize(
    "records",
    [
        (phase_record(FORWARD),),
        (begin_record(BEGIN), FINISHED),
        (*BEGUN, *BEGUN),
        (*BEGUN, *reached_records(PhaseResult())),
        (*UNDER_WAY, phase_record(FORWARD)),
        (*REACHED, BACK),
        (*UNDER_WAY, back_record({0: entry_mark(NEW)})),
        (*UNDER_WAY, *adopt_records(((KEY, "1"),))),
        (*UNDER_WAY, *intent_records(INTENT)),
        (*BEGUN, {"record": "found", "found": []}),
        (*REACHED, {"record": "found", "found": []}),
        (*UNDER_WAY, {"record": "found", "found": [[3, None]]}),
        (*BEGUN, phase_record(Phase("merge", (3,), is_forward=True))),
        ({**begin_record(BEGIN), "version": 2},),
        (*BEGUN, {"record": "unheard of"}),
        (*REACHED, FINISHED, phase_record(replace(APART, is_forward=True))),
        (*REACHED, FINISHED, phase_record(replace(APART, numbers=(2,)))),
        (*REACHED, FINISHED, phase_record(replace(APART, substitutes=(Substitute(2, OTHER_OP),)))),
        (*REACHED, FINISHED, phase_record(replace(APART, substitutes=(Substitute(0, replace(OTHER_OP, slot="../1")),)))),
        (*REACHED, FINISHED, phase_record(replace(APART, substitutes=(Substitute(0, OTHER_OP, "../1"),)))),
        (*REACHED, FINISHED, phase_record(replace(APART, substitutes=(Substitute(0, replace(OTHER_OP, old=None)),)))),
        (*UNDONE_APART, phase_record(APART)),
    ],
)
def test_records_that_no_merge_writes_are_damage(records: tuple[Mapping[str, object], ...]) -> None:
    with pytest.raises(CorruptJournalError):
        decode(written(*records))


@pytest.mark.parametrize("path", [b"..", b"a/../b", b"/abs", b"a//b", b"a/", b"./a", b"a\0b"])
def test_a_path_out_of_the_root_is_damage(path: bytes) -> None:
    key = Key(0, path)
    whole = Operation(OpKind.ATTACH, KEY, "1", FOLDER, members=((path, entry_mark(NEW)),))
    intents = (intent_records(Intent((op,))) for op in (replace(OP, key=key), whole))
    for record in (*adopt_records(((key, "1"),)), *chain.from_iterable(intents)):
        with pytest.raises(CorruptJournalError, match="not a path below a root"):
            decode(written(begin_record(BEGIN), record))


@pytest.mark.parametrize("slot", ["..", ".", "a/b", "/abs", "1\0"])
def test_an_invalid_slot_name_is_damage(slot: str) -> None:
    for record in (*adopt_records(((KEY, slot),)), *intent_records(Intent((replace(OP, slot=slot),)))):
        with pytest.raises(CorruptJournalError, match="not a slot name"):
            decode(written(begin_record(BEGIN), record))


ATTACH, DETACH = Operation(OpKind.ATTACH, KEY, "1", entry_mark(NEW)), Operation(OpKind.DETACH, KEY, "1", None, entry_mark(OLD))


@pytest.mark.parametrize(
    ("op", "at", "in_slot", "forward", "back"),
    [
        (OP, OLD, NEW, OpProgress.NOT_RUN, OpProgress.DONE),
        (OP, NEW, OLD, OpProgress.DONE, OpProgress.NOT_RUN),
        (OP, OTHER, NEW, OpProgress.NOT_RUN, OpProgress.UNEXPECTED),  # the user saved before the operation
        (OP, NEW, OTHER, OpProgress.DONE, OpProgress.NOT_RUN),  # the user saved in the last instant: restored
        (OP, OTHER, OLD, OpProgress.UNEXPECTED, OpProgress.NOT_RUN),  # the user saved after the operation
        (OP, None, OLD, OpProgress.UNEXPECTED, OpProgress.NOT_RUN),
        (ATTACH, None, NEW, OpProgress.NOT_RUN, OpProgress.DONE),
        (ATTACH, NEW, None, OpProgress.DONE, OpProgress.NOT_RUN),
        (ATTACH, OTHER, NEW, OpProgress.NOT_RUN, OpProgress.UNEXPECTED),
        (ATTACH, OTHER, None, OpProgress.UNEXPECTED, OpProgress.NOT_RUN),
        (ATTACH, None, None, OpProgress.NOT_RUN, OpProgress.NOT_RUN),
        (DETACH, OLD, None, OpProgress.NOT_RUN, OpProgress.DONE),
        (DETACH, None, OLD, OpProgress.DONE, OpProgress.NOT_RUN),
        (DETACH, OTHER, OLD, OpProgress.UNEXPECTED, OpProgress.NOT_RUN),
    ],
)
def test_the_inodes_show_how_far_an_operation_got(
    op: Operation, at: Entry | None, in_slot: Entry | None, forward: OpProgress, back: OpProgress
) -> None:
    assert op_progress(op, at, in_slot, is_forward=True) is forward
    assert op_progress(op, at, in_slot, is_forward=False) is back


def test_an_empty_journal_requires_nothing() -> None:
    assert decode(b"") == Journal()


@pytest.mark.parametrize(
    ("device", "inode", "boot", "is_it"),
    [(1, 2, "this", True), (9, 2, "this", False), (9, 2, "next", True), (1, 3, "this", False), (1, 3, "next", False)],
)
def test_a_root_is_identified_by_its_inode_and_until_a_reboot_its_device(
    device: int,
    inode: int,
    boot: str,
    is_it: bool,  # noqa: FBT001  a column
) -> None:
    assert replace(BEGIN, boot_id="this").is_root(0, device, inode, boot) is is_it
