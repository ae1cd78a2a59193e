"""The plain dialogue: the answers decide what is merged, and nothing raw is printed."""

from dataclasses import replace

import pytest

from agent_dev.diff.merge3 import ConflictSide, LineMerge
from agent_dev.diff.partial_selection import LineSelection
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Risk
from agent_dev.overlay.selection import Selection
from tests.harness.sample_session import Sample
from tests.harness.typist import Typist
from tui.model.tabs import ImportMode
from tui.plain import commits, review
from tui.source import ContentPair, Ending, OperationResult, ProgressCallback

FILE = Entry(FileType.FILE, size=10)
BEFORE = b"".join(b"line %d\n" % number for number in range(20))
AFTER = BEFORE.replace(b"line 3\n", b"three\n").replace(b"line 12\n", b"twelve\n")


class Session(Sample):
    """Some changes, all with the same contents."""

    roots = ("/src",)

    def __init__(self, *changes: Change, content: ContentPair = (BEFORE, AFTER)) -> None:
        super().__init__()
        self.changes = ChangeSet(changes)
        self._content = content

    def read_content(self, _key: Key) -> ContentPair:
        return self._content

    def edited_text(self, _key: Key) -> bytes | None:
        return None

    def line_merge(self, _key: Key) -> LineMerge | None:
        return None


def edited(path: bytes = b"f", **more: object) -> Change:
    return Change(Key(0, path), ChangeKind.EDITED, FILE, FILE, **more)  # type: ignore[arg-type]


def play(source: Session, *answers: str) -> tuple[list[Selection], str]:
    """Answer questions; return the merged selections and the output."""
    typist = Typist(*answers)
    review.ask_changes(source, typist)
    return source.merges, "\n".join(typist.lines)


def only(choice: LineSelection) -> list[Selection]:
    return [Selection(frozenset((Key(0, b"f"),)), {Key(0, b"f"): choice})]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("y", "n", "y"), only(LineSelection(frozenset((0,))))),
        (("n", "y", "y"), only(LineSelection(frozenset((1,))))),
        (("a", "y"), [Selection(frozenset((Key(0, b"f"),)))]),
        (("n", "l", "y", "n", "y"), only(LineSelection(old_lines=frozenset((12,))))),
        (("y", "d", "y"), only(LineSelection(frozenset((0,))))),
        (("y", "q"), []),
        (("d",), []),
        (("y", "n", "n"), []),
        (("y", "n"), []),
        ((), []),
        (("what", "?", "Y", "n", "yes"), only(LineSelection(frozenset((0,))))),
    ],
)
def test_answers_decide_what_is_merged(answers: tuple[str, ...], expected: list[Selection]) -> None:
    assert play(Session(edited()), *answers)[0] == expected


def test_quit_still_asks_about_the_merge() -> None:
    merges, output = play(Session(edited(), edited(b"g")), "a", "q", "y")
    assert merges == [Selection(frozenset((Key(0, b"f"),)))]
    assert "apply 1 change? " in output


def test_the_final_totals_count_all_changes() -> None:
    source = Session(edited(insertions=2, deletions=2), edited(b"g", insertions=3, deletions=0))
    output = play(source, "y", "d", "d", "n")[1]
    assert "selected 1 of 2 changes · hunks 1/2 · lines 2/7 " in output


def test_a_risky_change_is_asked_about_twice() -> None:
    source = Session(edited(risks=(Risk("hook", "runs at the next commit"),)))
    assert play(source, "a", "n")[0] == []
    assert len(play(source, "a", "y", "y")[0]) == 1


def test_changes_with_the_same_risks_are_one_question_or_asked_one_by_one() -> None:
    risks = (Risk("ci", "It runs in CI."),)
    some = [edited(name, risks=risks) for name in (b"a", b"b")]
    merged, output = play(Session(*some), "a", "a", "y", "y")
    assert "apply all 2 anyway?" in output
    assert [one.keys for one in merged] == [{one.key for one in some}]
    merged, _ = play(Session(*some), "a", "a", "o", "n", "y", "y")
    assert [one.keys for one in merged] == [{some[1].key}]


def test_many_deletions_are_one_question() -> None:
    gone = [Change(Key(0, b"%02d" % number), ChangeKind.DELETED, FILE, None) for number in range(12)]
    source = Session(*gone, content=(b"one\n", None))
    source.most_deletions = 11
    merged, output = play(source, *["y"] * 12, "n")
    assert merged == []
    assert "delete 12 files, a large share of the tree?" in output
    merged, _ = play(source, *["y"] * 12, "y", "y")
    assert [len(one) for one in merged] == [12]


def test_a_mode_is_a_separate_question() -> None:
    script = replace(edited(), after=FILE.with_values(mode=0o755))
    assert play(Session(script), "y", "d", "y")[0] == only(LineSelection())
    assert play(Session(script), "n", "y", "n", "y")[0] == only(LineSelection(frozenset((0,)), mode=False))


def test_a_change_without_lines_is_selected_as_a_whole() -> None:
    link = Change(Key(0, b"f"), ChangeKind.ADDED, None, Entry(FileType.SYMLINK, target=b"x"))
    merges, output = play(Session(link, content=(None, b"x")), "y", "y")
    assert len(merges) == 1
    assert "create the symlink → x" in output


def test_ignored_files_are_one_question() -> None:
    many = tuple(edited(b"node_modules/%d" % number, is_ignored=True) for number in range(50))
    merges, output = play(Session(*many), "y", "y")
    assert len(merges[0]) == 50
    assert output.count("select 50 ignored or generated files?") == 1


def test_unmergeable_changes_are_reported_without_a_question() -> None:
    merges, output = play(Session(replace(edited(), obstacle="a socket cannot be merged")))
    assert (merges, "a socket cannot be merged" in output, "select this" in output) == ([], True, False)


def test_an_unmerged_selection_is_saved() -> None:
    source = Session(edited())
    play(source, "y", "n", "n")
    assert source.draft.selection == only(LineSelection(frozenset((0,))))[0]
    assert play(source, "n", "y", "y")[0] == only(LineSelection(frozenset((1,))))


def test_a_conflict_is_resolved_by_a_letter() -> None:
    source = Sample()
    source.changes = ChangeSet(tuple(one for one in source.changes.changes if one.conflict))
    typist = Typist("a", "y", "y")
    review.ask_changes(source, typist)
    assert [len(one) for one in source.merges] == [1]
    assert "apply this edit?" in "\n".join(typist.lines)


def test_a_conflict_names_no_key_of_the_screen() -> None:
    source = Sample()
    source.changes = ChangeSet(tuple(one for one in source.changes.changes if one.conflict))
    typist = Typist("a", "y", "y")
    review.ask_changes(source, typist)
    assert "< yours" not in "\n".join(typist.lines)


def test_an_edit_next_to_a_conflict_is_left_out_by_a_letter() -> None:
    source = Sample()
    source.changes = ChangeSet(tuple(one for one in source.changes.changes if one.conflict))
    typist = Typist("b", "n", "n")
    review.ask_changes(source, typist)
    assert list((source.draft.resolutions or {}).values()) == [(ConflictSide.BOTH, ConflictSide.YOURS)]


def test_nothing_hostile_is_printed_raw() -> None:
    nasty = b"\x1b]0;owned\x07\x1b[31m\x9b\r"
    _, output = play(Session(edited(b"f" + nasty), content=(b"a\n", nasty + b"\n")), "y", "n")
    assert not [one for one in output if one < " " and one != "\n"]
    assert "␛]0;owned␇" in output


# --- commits ---


def run_import(source: Sample, *answers: str) -> tuple[list[tuple[tuple[str, ...], ImportMode, str]], str]:
    """Answer questions about commits; return the requested imports and the output."""
    typist = Typist(*answers)
    commits.ask_commits(source, typist)
    return source.imports, "\n".join(typist.lines)


BOTH = ("2f8c1d0e6b", "9ab03e77c1")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("a", "y", "y"), [(BOTH, ImportMode.ONTO_BRANCH, "")]),
        (("a", "y", "s"), [(BOTH, ImportMode.SQUASHED, "")]),
        (("a", "y", "b", "", "theirs"), [(BOTH, ImportMode.NEW_BRANCH, "theirs")]),
        (("a", "n", "y"), [(BOTH[1:], ImportMode.ONTO_BRANCH, "")]),
        (("o", "y", "n", "y"), [(BOTH[1:], ImportMode.ONTO_BRANCH, "")]),
        (("o", "n", "y", "y", "y"), [(BOTH[:1], ImportMode.ONTO_BRANCH, "")]),
        (("o", "n", "n"), []),
        (("o", "n", "y", "n"), []),
        (("n",), []),
        (("a", "y", "n"), []),
        (("a", "q"), []),
        (("a", "y", "b", ""), []),
        ((), []),
    ],
)
def test_answers_decide_which_commits_are_imported(answers: tuple[str, ...], expected: list[object]) -> None:
    assert run_import(Sample(), *answers)[0] == expected


def test_all_commits_can_be_declined() -> None:
    source = Sample()
    assert run_import(source, "d")[0] == []
    assert source.declined == [BOTH]


def test_a_risky_path_of_commits_is_shown_before_its_question() -> None:
    output = run_import(Sample(), "a", "y", "y")[1]
    assert "risky: package.json" in output
    assert output.index("(") < output.index("import it anyway?") < output.index("how to import")


NOTED = ["m", "use a constant", "n", "n"]  # a note about the first hunk; neither hunk is selected


@pytest.mark.parametrize(("answer", "ending"), [("y", Ending.SEND_BACK), ("n", Ending.KEEP), ("q", Ending.KEEP)])
def test_notes_about_hunks_can_be_sent_back(answer: str, ending: Ending) -> None:
    source = Session(edited())
    typist = Typist(*NOTED, answer)
    assert review.ask_changes(source, typist) == (0, ending)
    assert [(note.path, note.line, note.quote, note.text) for note in source.draft.notes] == [
        (b"f", 4, "line 3", "use a constant") if note.is_old else (b"f", 4, "three", "use a constant")
        for note in source.draft.notes
    ]
    assert len(source.draft.notes) == 1
    assert "send 1 note back to the agent?" in "\n".join(typist.lines)


class WithRest(Session):
    """A session that holds more changes after every merge."""

    def merge(self, selection: Selection, progress: ProgressCallback) -> OperationResult:
        return replace(super().merge(selection, progress), has_rest=True)


@pytest.mark.parametrize(
    ("answers", "ending"),
    [
        (["y", "n", "y", "k"], Ending.KEEP),
        (["y", "n", "y", "d"], Ending.DISCARD),
        (["y", "n", "y"], Ending.KEEP),  # the end of the input
        (["m", "why?", "y", "n", "y", "s"], Ending.SEND_BACK),
        (["m", "why?", "y", "n", "y", "d"], Ending.DISCARD),
    ],
)
def test_after_a_merge_the_rest_is_kept_discarded_or_sent_back(answers: list[str], ending: Ending) -> None:
    source = WithRest(edited())
    typist = Typist(*answers)
    assert review.ask_changes(source, typist) == (0, ending)
    assert [len(one) for one in source.merges] == [1]
    assert "1 changes merged" in typist.lines
    assert [note.text for note in source.draft.notes] == (["why?"] if "m" in answers else [])


def test_without_a_rest_nothing_is_asked_after_a_merge() -> None:
    source = Session(edited())
    typist = Typist("a", "y")
    assert review.ask_changes(source, typist) == (0, Ending.KEEP)
    assert not any("the rest" in line for line in typist.lines)


def test_notes_of_an_earlier_review_stay_when_a_plain_one_is_quit() -> None:
    source = Session(edited())
    play(source, *NOTED, "n")
    play(source, "q")
    assert [note.text for note in source.draft.notes] == ["use a constant"]
