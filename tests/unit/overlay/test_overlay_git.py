"""The changes of `.git` in an upper: one row that cannot be merged, and nothing of it is ever applied."""

import pytest

from agent_dev.fs.entry import Entry, Key, WalkedEntry
from agent_dev.overlay.interpret import GIT_FILE_REASON, UNDER_GIT_REASON, interpret
from agent_dev.paths import is_under_git
from tests.unit.overlay.overlay_entries import DIR, FILE, OPAQUE, WHITEOUT, entry_of, found, read


def rows(upper: list[WalkedEntry], base: dict[bytes, Entry]) -> dict[bytes, str | None]:
    return {change.key.path: change.obstacle for change in interpret(0, upper, base, frozenset())}


def test_a_new_git_directory_is_one_unmergeable_row() -> None:
    upper = [
        found(b"sub", DIR),
        found(b"sub/.git", DIR),
        found(b"sub/.git/hooks", DIR),
        found(b"sub/.git/hooks/pre-commit", FILE),
        found(b"sub/code", FILE),
    ]

    assert rows(upper, {}) == {b"sub/.git": UNDER_GIT_REASON, b"sub/code": None}


def test_only_for_a_new_git_file_the_import_of_commits_is_suggested() -> None:
    assert rows([found(b".git", FILE)], {}) == {b".git": GIT_FILE_REASON}
    assert "commits" in GIT_FILE_REASON
    assert "commits" not in UNDER_GIT_REASON


@pytest.mark.parametrize("name", [b".GIT", b".Git", b".giT"])
def test_a_name_that_some_file_systems_fold_to_git_is_treated_alike(name: bytes) -> None:
    upper = [found(name, DIR), found(name + b"/config", FILE)]

    assert rows(upper, {}) == {name: UNDER_GIT_REASON}


@pytest.mark.parametrize("name", [b".gitignore", b".gitattributes", b".github/workflows/x.yml", b"x.git/y", b".git2", b"git"])
def test_a_name_that_only_resembles_git_is_ordinary(name: bytes) -> None:
    assert is_under_git(name) is None
    assert rows([found(name, FILE)], {}) == {name: None}


def test_a_git_directory_created_in_the_root_is_one_unmergeable_row() -> None:
    upper = [found(b".git", DIR), found(b".git/HEAD", FILE), found(b".git/hooks", DIR), found(b".git/hooks/x", FILE)]

    assert rows(upper, {}) == {b".git": UNDER_GIT_REASON}


NESTED = {
    b"sub": entry_of(DIR),
    b"sub/.git": entry_of(DIR),
    b"sub/.git/HEAD": entry_of(FILE),
    b"sub/code": entry_of(FILE),
}


def test_a_changed_nested_git_directory_is_one_unmergeable_row() -> None:
    upper = [found(b"sub", DIR), found(b"sub/.git", DIR), found(b"sub/.git/HEAD", FILE)]

    assert rows(upper, NESTED) == {b"sub/.git": UNDER_GIT_REASON}


def test_a_removed_nested_git_directory_is_one_unmergeable_row() -> None:
    assert rows([found(b"sub", DIR), found(b"sub/.git", WHITEOUT)], NESTED) == {b"sub/.git": UNDER_GIT_REASON}


@pytest.mark.parametrize("mark", [WHITEOUT, OPAQUE])
def test_a_removed_nested_repository_is_its_files_and_one_git_row(mark: str) -> None:
    assert rows([found(b"sub", mark)], NESTED) == {b"sub/.git": UNDER_GIT_REASON, b"sub/code": None}


def test_a_nested_git_directory_only_copied_up_is_no_row() -> None:
    upper = [found(b"sub", DIR), found(b"sub/.git", DIR), found(b"sub/.git/HEAD", FILE)]

    assert read(upper, NESTED, frozenset((b"sub/.git/HEAD",))) == {}


def test_a_nested_repository_that_became_a_file_cannot_be_merged() -> None:
    by_path = {one.key.path: one for one in interpret(0, [found(b"sub", FILE)], NESTED, frozenset())}

    assert set(by_path) == {b"sub", b"sub/.git", b"sub/code"}
    assert set(by_path[b"sub"].requires) == {Key(0, b"sub/.git"), Key(0, b"sub/code")}
