"""The review as questions in plain lines: what is answered is what is merged, and nothing raw is printed."""

from dataclasses import replace

import pytest

from agent_dev.diff.merge3 import Merged
from agent_dev.diff.partial import Choice
from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk
from agent_dev.overlay.selection import Selection
from tests.harness.sample_session import Sample
from tui.model.tabs import Way
from tui.plain import commits as plain_commits
from tui.plain import review as plain
from tui.source import Content

FILE = Entry(FileType.FILE, size=10)
BEFORE = b"".join(b"line %d\n" % number for number in range(20))
AFTER = BEFORE.replace(b"line 3\n", b"three\n").replace(b"line 12\n", b"twelve\n")


class Session(Sample):
    """Some changes, each with these bytes."""

    roots = ("/src",)

    def __init__(self, *changes: Change, content: Content = (BEFORE, AFTER)) -> None:
        super().__init__()
        self.changes = ChangeSet(changes)
        self._content = content

    def content(self, _key: Key) -> Content:
        return self._content

    def merged(self, _key: Key) -> Merged | None:
        return None


class Typist:
    """Answers in order; then nobody is there any more."""

    def __init__(self, *answers: str) -> None:
        self._answers = [*answers]
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def ask(self, question: str) -> str | None:
        self.lines.append(question)
        return self._answers.pop(0) if self._answers else None


def edited(path: bytes = b"f", **more: object) -> Change:
    return Change(Key(0, path), Kind.EDITED, FILE, FILE, **more)  # type: ignore[arg-type]


def play(source: Session, *answers: str) -> tuple[list[Selection], str]:
    """Answer questions; return what was merged, and all that was printed."""
    typist = Typist(*answers)
    plain.review(source, typist)
    return source.merges, "\n".join(typist.lines)


def only(choice: Choice) -> list[Selection]:
    return [Selection(frozenset((Key(0, b"f"),)), {Key(0, b"f"): choice})]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("y", "n", "y"), only(Choice(frozenset((0,))))),
        (("n", "y", "y"), only(Choice(frozenset((1,))))),
        (("a", "y"), [Selection(frozenset((Key(0, b"f"),)))]),
        (("n", "l", "y", "n", "y"), only(Choice(old=frozenset((12,))))),
        (("y", "d", "y"), only(Choice(frozenset((0,))))),
        (("y", "q"), []),
        (("d",), []),
        (("y", "n", "n"), []),
        (("y", "n"), []),
        ((), []),
        (("what", "?", "Y", "n", "yes"), only(Choice(frozenset((0,))))),
    ],
)
def test_what_is_answered_is_merged(answers: tuple[str, ...], expected: list[Selection]) -> None:
    assert play(Session(edited()), *answers)[0] == expected


def test_no_more_questions_still_asks_about_the_merge() -> None:
    merges, said = play(Session(edited(), edited(b"g")), "a", "q", "y")
    assert merges == [Selection(frozenset((Key(0, b"f"),)))]
    assert "merge 1 change? " in said


def test_the_last_numbers_are_of_all_that_there_is() -> None:
    source = Session(edited(insertions=2, deletions=2), edited(b"g", insertions=3, deletions=0))
    said = play(source, "y", "d", "d", "n")[1]
    assert "chosen 1 of 2 changes · blocks 1/2 · lines 2/7 " in said


def test_a_risky_change_is_asked_about_twice() -> None:
    source = Session(edited(risks=(Risk("hook", "runs at the next commit"),)))
    assert play(source, "a", "n")[0] == []
    assert len(play(source, "a", "y", "y")[0]) == 1


def test_a_mode_is_a_question_of_its_own() -> None:
    script = replace(edited(), after=replace(FILE, mode=0o755))
    assert play(Session(script), "y", "d", "y")[0] == only(Choice())
    assert play(Session(script), "n", "y", "n", "y")[0] == only(Choice(frozenset((0,)), mode=False))


def test_what_has_no_lines_is_taken_whole() -> None:
    link = Change(Key(0, b"f"), Kind.ADDED, None, Entry(FileType.SYMLINK, target=b"x"))
    merges, said = play(Session(link, content=(None, b"x")), "y", "y")
    assert len(merges) == 1
    assert "create the link → x" in said


def test_what_git_ignores_is_one_question() -> None:
    many = tuple(edited(b"node_modules/%d" % number, ignored=True) for number in range(50))
    merges, said = play(Session(*many), "y", "y")
    assert len(merges[0]) == 50
    assert said.count("take them?") == 1


def test_what_cannot_be_merged_is_said_and_not_asked_about() -> None:
    merges, said = play(Session(replace(edited(), obstacle="a socket cannot be merged")))
    assert (merges, "a socket cannot be merged" in said, "take" in said) == ([], True, False)


def test_the_choice_waits_when_it_is_not_merged() -> None:
    source = Session(edited())
    play(source, "y", "n", "n")
    assert source.draft.selection == only(Choice(frozenset((0,))))[0]
    assert play(source, "n", "y", "y")[0] == only(Choice(frozenset((1,))))


def test_a_conflict_is_settled_by_a_letter() -> None:
    source = Sample()
    source.changes = ChangeSet(tuple(one for one in source.changes.changes if one.conflict))
    typist = Typist("g", "y")
    plain.review(source, typist)
    assert [len(one) for one in source.merges] == [1]


def test_nothing_hostile_is_printed_raw() -> None:
    nasty = b"\x1b]0;owned\x07\x1b[31m\x9b\r"
    _, said = play(Session(edited(b"f" + nasty), content=(b"a\n", nasty + b"\n")), "y", "n")
    assert not [one for one in said if one < " " and one != "\n"]
    assert "␛]0;owned␇" in said


# --- commits ---


def bring(source: Sample, *answers: str) -> tuple[list[tuple[tuple[str, ...], Way, str]], str]:
    """Answer questions about commits; return what came home how, and all that was printed."""
    typist = Typist(*answers)
    plain_commits.review(source, typist)
    return source.brought, "\n".join(typist.lines)


BOTH = ("2f8c1d0e6b", "9ab03e77c1")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("a", "y", "y"), [(BOTH, Way.YOURS, "")]),
        (("a", "y", "s"), [(BOTH, Way.ONE, "")]),
        (("a", "y", "b", "", "theirs"), [(BOTH, Way.BRANCH, "theirs")]),
        (("a", "n", "y"), [(BOTH[1:], Way.YOURS, "")]),
        (("o", "y", "n", "y"), [(BOTH[1:], Way.YOURS, "")]),
        (("o", "n", "y", "y", "y"), [(BOTH[:1], Way.YOURS, "")]),
        (("o", "n", "n"), []),
        (("o", "n", "y", "n"), []),
        (("n",), []),
        (("a", "y", "n"), []),
        (("a", "q"), []),
        (("a", "y", "b", ""), []),
        ((), []),
    ],
)
def test_commits_that_are_answered_for_come_home(answers: tuple[str, ...], expected: list[object]) -> None:
    assert bring(Sample(), *answers)[0] == expected


def test_a_risky_path_of_commits_is_told_before_it_is_asked_about() -> None:
    said = bring(Sample(), "a", "y", "y")[1]
    assert "risky: package.json" in said
    assert said.index("(") < said.index("bring it nevertheless?") < said.index("how?")
