"""Counts in printed messages: singular for one, no size rounded to zero, and all remaining changes counted."""

import time
from types import SimpleNamespace

import pytest

from agent_dev.cli.render import bundle, commits, fleet, merge, undo
from agent_dev.commits.import_result import ImportedCommits, ImportResult
from agent_dev.fleet.task_table import Task, TaskState, TaskTable
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git.updates import RefUpdate
from agent_dev.merge.merge import MergeResult
from agent_dev.merge.reconcile import Reconciliation
from agent_dev.merge.undo import UndoResult
from agent_dev.merge_engine.merge_plan import SkippedChange
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet
from agent_dev.overlay.labels import format_count, format_size
from agent_dev.session import store
from agent_dev.transaction.result import MERGED, TransactionResult

KEYS = tuple(Key(0, name) for name in (b"a", b"b", b"c"))


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KiB"),
        (10 << 10, "10 KiB"),
        (1023 << 10, "1.0 MiB"),
        (5 << 20, "5.0 MiB"),
        (300 << 30, "300 GiB"),
        (5000 << 30, "5000 GiB"),
    ],
)
def test_only_an_empty_size_is_shown_as_zero(count: int, words: str) -> None:
    assert format_size(count) == words


def test_a_count_of_one_is_singular() -> None:
    assert [format_count(count, "file") for count in (0, 1, 2, 1234)] == ["0 files", "1 file", "2 files", "1,234 files"]


@pytest.mark.parametrize(("count", "words"), [(1, ", 1 file changed"), (2, ", 2 files changed")])
def test_imported_commits_report_the_number_of_changed_files(count: int, words: str) -> None:
    imported = ImportedCommits("/r", "refs/heads/main", "", "0" * 40)
    done = ImportResult("s", "m", ("/r",), (imported,), applied=KEYS[:count])
    assert words in "\n".join(commits.describe_import(done))


def test_a_conflict_counts_as_left(capsys: pytest.CaptureFixture[str]) -> None:
    added = Change(KEYS[0], ChangeKind.ADDED, None, Entry(FileType.FILE, 0o644))
    left = SkippedChange(KEYS[1], "it was not asked for")
    done = MergeResult("m", (added,), (left,), (SkippedChange(KEYS[2], "both changed it"),), is_session_empty=False)
    record = {**store.BLANK, "roots": ["/r"], "name": "p"}
    review = SimpleNamespace(record=record, changes=ChangeSet((added,)), reconciliations={KEYS[2]: Reconciliation(None)})
    merge.print_merge(done, review, is_dry=False, as_json=False)  # type: ignore[arg-type]
    assert capsys.readouterr().out.splitlines()[-1] == "merge m: 1 change merged in /r, 2 left in the session (agent-dev undo m)"


@pytest.mark.parametrize(
    ("merge_id", "reason", "hint"),
    [
        ("m", "ignored by git", "discard p moves them to the trash"),
        ("", "ignored by git", "merge shows them"),
        ("m", "risky: x", "merge shows them"),
    ],
)
def test_a_rest_that_git_ignores_can_be_discarded(
    merge_id: str, reason: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    added = Change(KEYS[0], ChangeKind.ADDED, None, Entry(FileType.FILE, 0o644))
    done = MergeResult(merge_id, (added,), (SkippedChange(KEYS[1], reason),), (), is_session_empty=False)
    record = {**store.BLANK, "roots": ["/r"], "name": "p"}
    review = SimpleNamespace(record=record, changes=ChangeSet((added,)), is_running=False)
    merge.print_merge(done, review, is_dry=not merge_id, as_json=False)  # type: ignore[arg-type]
    assert f"not merged: 1 {reason.partition(':')[0]} (agent-dev {hint})" in capsys.readouterr().out


def test_printing_an_undo_does_not_search_all_paths_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    class Unsearchable(tuple[Key, ...]):
        __slots__ = ()

        def __contains__(self, key: object) -> bool:
            raise AssertionError("30,000 of these searches took 12 s")

    renames = {KEYS[1]: KEYS[0]}
    undo.print_undo(UndoResult("m", ("/r",), Unsearchable(KEYS), (), renames=renames, name="p"), as_json=False, verb=undo.UNDONE)
    assert "2 changes undone" in capsys.readouterr().out


def test_a_redo_prints_no_unknown_counts(capsys: pytest.CaptureFixture[str]) -> None:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(0))
    undo.print_undo(UndoResult("m", ("/r",), KEYS[:1], (), name="p"), as_json=False, verb=undo.REDONE)
    rows = [f"session p, merged {when}: 1 change merged again", "to revert it: agent-dev undo m"]
    assert capsys.readouterr().out.splitlines()[1:] == rows
    skipped = (SkippedChange(KEYS[1], "it changed"),)
    undo.print_undo(UndoResult("m", ("/r",), KEYS[:1], skipped, name="p"), as_json=False, verb=undo.UNDONE)
    rows = [f"session p, merged {when}: 1 change undone, 1 skipped", "to apply it again: agent-dev redo m"]
    assert capsys.readouterr().out.splitlines()[2:] == rows


def test_a_branch_that_an_undo_reset_is_counted_too(capsys: pytest.CaptureFixture[str]) -> None:
    moved = (RefUpdate("refs/heads/main", "1" * 40, "0" * 40),)
    undo.print_undo(UndoResult("m", ("/r",), KEYS[:1], (), refs=moved, name="p"), as_json=False, verb=undo.UNDONE)
    assert ": branch main, 1 change undone\n" in capsys.readouterr().out


def test_the_entries_of_a_bundle_are_counted_by_type() -> None:
    rows = [{"type": kind} for kind in ("whiteout", "file", "dir", "file")]
    assert bundle.describe_entries(rows) == "1 directory, 2 files, 1 deletion"
    assert bundle.describe_entries([]) == "no changes"


def test_the_table_of_tasks_shows_commands_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    result = TransactionResult(MERGED, 0, (), merge="261126-153816-9072.1a21881ea6d", applied=("a", "b"))
    task = Task(0, "claude -p 'fix the login of the shop'", TaskState.DONE, "build1", 1, result)
    fleet.print_table(TaskTable((task,)), for_review=False)
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split("  ")[0] == "1"
    assert ("2 changes" in row, row.endswith("of the shop'"), len(row) <= 80) == (True, True, True)
