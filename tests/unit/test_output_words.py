"""How lists and help are told in lines."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_dev.cli import help as usage
from agent_dev.cli import main as cli
from agent_dev.cli import tx as transaction
from agent_dev.cli.commands.dispatch import _verb
from agent_dev.cli.render import merge as merging
from agent_dev.cli.render.format import fitted, rows_of, table
from agent_dev.merge.merge import Merged
from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk
from agent_dev.run.prepare import Options
from agent_dev.session import store
from agent_dev.session.sessions import Here

FILE = Entry(FileType.FILE, 0o644)
RISK = Risk("hook", "it runs")


def added(name: str, **more: object) -> Change:
    return Change(Key(0, name.encode()), Kind.ADDED, None, FILE, **more)  # type: ignore[arg-type]


def many(count: int, **more: object) -> tuple[Change, ...]:
    return tuple(added(f"{number:04}", **more) for number in range(count))


def test_few_ignored_ones_are_shown_and_many_are_one_line() -> None:
    assert [*rows_of(ChangeSet(many(3, ignored=True)), ["/r"])] == [f"+ added    {n:04} [ignored]" for n in range(3)]
    rows = [*rows_of(ChangeSet((*many(4, ignored=True), added("risky", ignored=True, risks=(RISK,)), added("x"))), ["/r"])]
    assert rows[:2] == ["+ added    risky [ignored] ! hook", "+ added    x"]
    assert rows[2:] == ["4 more, ignored by git (agent-dev status --json lists them)"]


def test_of_a_shortened_list_what_stands_out_comes_first_and_a_number_stands_for_the_rest() -> None:
    changes = (*many(10), added("hook", risks=(RISK,)), added("mine", conflict="both made it"), added("z"))
    assert [*rows_of(ChangeSet(changes), ["/r"], 4)] == [
        "+ added    hook ! hook",
        "+ added    mine ✗ both made it",
        *(f"+ added    {n:04}" for n in range(4)),
        "7 more (agent-dev status)",
    ]
    risky = [*rows_of(ChangeSet(many(9, risks=(RISK,))), ["/r"], 4)]
    assert risky[-1] == "5 more of these (agent-dev status)"
    assert len(risky) == 5
    assert [*rows_of(ChangeSet(many(4)), ["/r"], 4)] == [f"+ added    {n:04}" for n in range(4)]


def test_no_change_is_compared_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(_one: object, _other: object) -> bool:
        raise AssertionError("16,000 of them took a minute")

    monkeypatch.setattr(Change, "__eq__", compared)
    assert len([*rows_of(ChangeSet((*many(50), *many(50, ignored=True))), ["/r"])]) == 51


def test_a_conflict_that_was_settled_for_the_agent_is_not_said_to_have_both() -> None:
    changes = (
        added("a", is_merged=True),
        added("b", is_merged=True, is_instead=True),
        added("c", is_merged=True, is_touched=True),
    )
    assert [*rows_of(ChangeSet(changes), ["/r"])] == [
        "+ added    a (with what you changed)",
        "+ added    b (the agent's where both changed it)",
        "+ added    c",
    ]


TEXT = "261122-090054  stands  12 added, 3 edited, 130 deleted  /home/ada/src/the-longest-name-of-all-repositories"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_row_is_wrapped_at_words_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.setenv("COLUMNS", "40")
    fitted(TEXT)
    rows = shown.getvalue().splitlines()
    if not is_terminal:
        assert rows == [TEXT]
        return
    assert " ".join(rows).split() == TEXT.split()
    assert max(len(row) for row in rows if "/" not in row) <= 40
    assert all(row.startswith("      ") for row in rows[1:])


def test_the_columns_of_a_table_line_up_and_one_without_text_is_none() -> None:
    rows = [("a", "waiting", "", "/one"), ("bcd", "merged", "", "/two")]
    assert [*table(rows)] == ["a    waiting  /one", "bcd  merged   /two"]
    assert [*table([("a", "", "/one"), ("b", "name", "/two")])] == ["a        /one", "b  name  /two"]
    assert [*table([])] == []


def test_no_line_of_help_is_wider_than_a_terminal() -> None:
    for text in (usage.HELP, usage.RUN, transaction.HELP):
        assert [row for row in text.splitlines() if len(row) > 80] == []


@pytest.mark.parametrize("word", [word for words in cli.AREAS.values() for word in words])
def test_help_of_a_word_is_wrapped_at_words(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    where = Here(store.Store(str(tmp_path)), str(tmp_path), str(tmp_path), {"HOME": str(tmp_path)})
    with pytest.raises(SystemExit):
        _verb(next(area for area, words in cli.AREAS.items() if word in words), word)(["--help"], where, Options())
    rows = capsys.readouterr().out.splitlines()
    assert [row for row in rows if len(row) > 80] == []
    assert rows[0].startswith(f"usage: agent-dev {word}")


def test_a_merge_says_what_of_the_session_could_not_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    record = {**store.BLANK, "roots": ["/r"], "name": "one"}
    review = SimpleNamespace(record=record, session=store.Session("one", "/s"), changes=ChangeSet((), ("d: Permission denied",)))
    for as_json in (False, True):
        merging.merged(Merged("", (), (), (), is_all=False), review, is_dry=False, as_json=as_json)  # type: ignore[arg-type]
    text, _, document = capsys.readouterr().out.partition("{")
    assert text == "not read: d: Permission denied\nnothing was merged\n"
    assert json.loads("{" + document)["problems"] == ["d: Permission denied"]
