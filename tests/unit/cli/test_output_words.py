"""The lines of lists, tables and help."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_dev.cli import help_text, main, tx
from agent_dev.cli.commands.dispatch import find_verb
from agent_dev.cli.render import merge
from agent_dev.cli.render.format import change_rows, format_names, format_table, print_json, print_wrapped
from agent_dev.config.options import RunOptions
from agent_dev.diff.merge3 import merge_lines
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.merge.merge import MergeResult
from agent_dev.merge.reconcile import Reconciliation
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Resolution, Risk
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext

FILE = Entry(FileType.FILE, 0o644)
RISK = Risk("hook", "it runs")


def added(name: str, **more: object) -> Change:
    return Change(Key(0, name.encode()), ChangeKind.ADDED, None, FILE, **more)  # type: ignore[arg-type]


def many(count: int, **more: object) -> tuple[Change, ...]:
    return tuple(added(f"{number:04}", **more) for number in range(count))


def test_few_ignored_changes_are_listed_and_many_are_summarized() -> None:
    assert [*change_rows(ChangeSet(many(3, is_ignored=True)), ["/r"])] == [f"+ added    {n:04} [ignored]" for n in range(3)]
    rows = [
        *change_rows(ChangeSet((*many(4, is_ignored=True), added("risky", is_ignored=True, risks=(RISK,)), added("x"))), ["/r"])
    ]
    assert rows[:2] == ["+ added    risky [ignored] ! hook", "+ added    x"]
    assert rows[2:] == ["4 more, ignored by git (agent-dev status --json lists them)"]


def test_a_shortened_list_starts_with_risks_and_conflicts_and_ends_in_a_count() -> None:
    changes = (*many(10), added("hook", risks=(RISK,)), added("mine", conflict="both made it"), added("z"))
    assert [*change_rows(ChangeSet(changes), ["/r"], 4)] == [
        "+ added    hook ! hook",
        "+ added    mine ✗ both made it",
        *(f"+ added    {n:04}" for n in range(4)),
        "7 more (agent-dev status)",
    ]
    risky = [*change_rows(ChangeSet(many(9, risks=(RISK,))), ["/r"], 4)]
    assert risky[-1] == "5 more of these (agent-dev status)"
    assert len(risky) == 5
    assert [*change_rows(ChangeSet(many(4)), ["/r"], 4)] == [f"+ added    {n:04}" for n in range(4)]


def test_a_json_document_is_the_same_from_lists_and_iterators(capsys: pytest.CaptureFixture[str]) -> None:
    items: list[object] = [{"a": 1}, "é", [2, []], []]
    for rows in (items, []):
        print_json({"version": 1, "rows": rows, "more": {}})
        listed = capsys.readouterr().out
        print_json({"version": 1, "rows": iter(rows), "more": {}})
        assert capsys.readouterr().out == listed
        assert json.loads(listed) == {"version": 1, "rows": rows, "more": {}}
        assert len(listed.splitlines()) == 5 + (len(rows) + 1 if rows else 0)


def test_many_names_are_shortened_to_the_first() -> None:
    assert format_names(["a", "b", "c"]) == "a, b, c"
    assert format_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_listing_changes_does_not_compare_them_pairwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(_one: object, _other: object) -> bool:
        raise AssertionError("16,000 of them took a minute")

    monkeypatch.setattr(Change, "__eq__", compared)
    assert len([*change_rows(ChangeSet((*many(50), *many(50, is_ignored=True))), ["/r"])]) == 51


@pytest.mark.parametrize(
    ("names", "sides"),
    [
        (("o",), "yours|agent"),
        (("x",), "yours|agent|both|edit"),
        (("o", "x"), "yours|agent|both|edit (whole files: yours|agent)"),
    ],
)
def test_conflicts_are_printed_with_the_sides_that_resolve_them(
    names: tuple[str, ...], sides: str, capsys: pytest.CaptureFixture[str]
) -> None:
    merged = {"o": None, "x": merge_lines(b"", b"mine", b"theirs")}
    found = {Key(0, name.encode()): Reconciliation(None, merged=merged[name]) for name in names}
    done = MergeResult("", (), (), tuple(SkippedChange(key, "both changed it") for key in found), is_session_empty=False)
    review = SimpleNamespace(record={**store.BLANK, "roots": ["/r"], "name": "p"}, changes=ChangeSet(()), reconciliations=found)
    merge.print_merge(done, review, is_dry=False, as_json=False)  # type: ignore[arg-type]
    assert f"resolve conflicts: agent-dev merge p --resolve PATH={sides}" in capsys.readouterr().out.splitlines()


def test_a_conflict_resolved_to_the_agents_side_is_not_called_merged() -> None:
    changes = (
        added("a", resolution=Resolution.BOTH),
        added("b", resolution=Resolution.AGENT),
        added("c", resolution=Resolution.TIMES),
    )
    assert [*change_rows(ChangeSet(changes), ["/r"])] == [
        "+ added    a (merges both)",
        "+ added    b (replaces yours)",
        "+ added    c",
    ]


TEXT = "261122-090054  stands  12 added, 3 edited, 130 deleted  /home/ada/src/the-longest-name-of-all-repositories"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_rows_are_wrapped_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.setenv("COLUMNS", "40")
    print_wrapped(TEXT)
    rows = shown.getvalue().splitlines()
    if not is_terminal:
        assert rows == [TEXT]
        return
    assert " ".join(rows).split() == TEXT.split()
    assert max(len(row) for row in rows if "/" not in row) <= 40
    assert all(row.startswith("      ") for row in rows[1:])


def test_table_columns_are_aligned_and_empty_ones_omitted() -> None:
    rows = [("a", "waiting", "", "/one"), ("bcd", "merged", "", "/two")]
    assert [*format_table(rows)] == ["a    waiting  /one", "bcd  merged   /two"]
    assert [*format_table([("a", "", "/one"), ("b", "name", "/two")])] == ["a        /one", "b  name  /two"]
    assert [*format_table([])] == []


def test_no_help_line_is_wider_than_a_terminal() -> None:
    for text in (help_text.HELP, help_text.ALL, help_text.RUN, tx.HELP, tx.HELP_SEVERAL):
        assert [row for row in text.splitlines() if len(row) > 80] == []


def test_help_fits_on_a_screen() -> None:
    for text in (help_text.HELP, help_text.RUN, tx.HELP, tx.HELP_SEVERAL):
        assert len(text.splitlines()) < 24


def test_help_all_lists_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["help", "--all"], {}) == 0
    listed = {word for row in capsys.readouterr().out.splitlines() if row.startswith("  ") for word in row.split()}
    assert {word for words in main.VERB_GROUPS.values() for word in words} <= listed


@pytest.mark.parametrize("word", [word for words in main.VERB_GROUPS.values() for word in words])
def test_the_help_of_a_verb_is_wrapped_between_words(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    where = CommandContext(store.Store(str(tmp_path)), str(tmp_path), str(tmp_path), {"HOME": str(tmp_path)})
    with pytest.raises(SystemExit):
        find_verb(next(area for area, words in main.VERB_GROUPS.items() if word in words), word)(["--help"], where, RunOptions())
    rows = capsys.readouterr().out.splitlines()
    assert [row for row in rows if len(row) > 80] == []
    assert rows[0].startswith(f"usage: agent-dev {word}")


def test_a_merge_reports_unreadable_entries_of_the_session(capsys: pytest.CaptureFixture[str]) -> None:
    record = {**store.BLANK, "roots": ["/r"], "name": "one"}
    review = SimpleNamespace(record=record, session=store.Session("one", "/s"), changes=ChangeSet((), ("d: Permission denied",)))
    for as_json in (False, True):
        merge.print_merge(MergeResult("", (), (), (), is_session_empty=False), review, is_dry=False, as_json=as_json)  # type: ignore[arg-type]
    text, _, document = capsys.readouterr().out.partition("{")
    assert text == "unreadable: d: Permission denied\nnothing was merged\n"
    assert json.loads("{" + document)["problems"] == ["d: Permission denied"]
