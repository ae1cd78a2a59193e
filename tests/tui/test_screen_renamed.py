"""Renamed directories on the screen: one row with numbers, and rows that wait for the other half of a rename."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change, ChangeKind, Risk
from tests.tui.screen_player import FILE, FakeSession, edited, text_after_keys
from tui.model.totals import LineCount

RISK = (Risk("ci", "It runs."),)


class Counted(FakeSession):
    """A session of changes by one line each."""

    def count_lines(self, keys: Iterable[Key]) -> dict[Key, LineCount]:
        return dict.fromkeys(keys, LineCount(1, 1, 1))


def session(*more: Change, number: int = 3) -> FakeSession:
    source = Counted(*more, *(renamed(b"a%d" % count) for count in range(number)), edited(b"other"))
    source.changes = replace(source.changes, directory_renames={Key(0, b"lib"): Key(0, b"src")})
    return source


def renamed(name: bytes, **more: object) -> Change:
    key, old = Key(0, b"lib/" + name), Key(0, b"src/" + name)
    return Change(key, ChangeKind.RENAMED, FILE, FILE, renamed_from=old, **more)  # type: ignore[arg-type]


def row_with(text: str, screen: str) -> str:
    return next(line for line in screen.splitlines() if text in line)


def test_the_row_shows_names_and_numbers() -> None:
    assert "[ ] ▸ src/ → lib/" in row_with("src/", text_after_keys(session(), (80, 24)))
    assert "3 files +3 -3" in row_with("src/", text_after_keys(session(), (80, 24)))
    assert row_with("src/", text_after_keys(session(), (80, 24), "A")).startswith(" [x] ▸ src/ → lib/")


@pytest.mark.parametrize(("size", "text"), [((80, 24), "4 files +3 -3 ! 1 needs review"), ((100, 30), "4 files +3 -3 ! 1")])
def test_the_row_counts_the_files_that_need_review(size: tuple[int, int], text: str) -> None:
    source = session(renamed(b"a", risks=RISK))
    assert text in row_with("src/ →", text_after_keys(source, size))
    assert row_with("src/ →", text_after_keys(source, size, "A")).startswith(" [~] ▸ src/ → lib/")


def test_the_row_is_whole_when_its_risky_file_is_selected_too() -> None:
    assert " [x] ▸ src/ → lib/" in text_after_keys(session(renamed(b"a", risks=RISK)), (80, 24), "A", "space")


def test_half_of_a_rename_names_the_conflict_of_the_other_half() -> None:
    old = Change(Key(0, b"old"), ChangeKind.DELETED, FILE, None, conflict="you edited it")
    new = Change(Key(0, b"sub/new"), ChangeKind.ADDED, None, FILE, (old.key,))
    screen = text_after_keys(FakeSession(old, new), (80, 24), "A")
    assert "requires old, see there" in row_with("new", screen)
    assert " ✗    +  new" in row_with("new", screen)
