"""Patterns of `.backupignore` in a table; tests/disk/backup/test_backups.py compares random ones with git."""

import pytest

from agent_dev.backup import ignore


@pytest.mark.parametrize(
    ("text", "out", "kept"),
    [
        ("*.o", ["a.o", "x/y.o"], ["a.c", "o"]),
        ("/build", ["build"], ["x/build"]),
        ("x/build", ["x/build"], ["y/x/build", "build"]),
        ("build/", ["build/"], ["build"]),
        ("*.log\n!keep.log", ["a.log"], ["keep.log", "x/keep.log"]),
        ("!a\na", ["a"], []),
        ("# a\n\n\\#b", ["#b"], ["a", "# a", "b"]),
        ("\\!a", ["!a"], ["a"]),
        ("a/**", ["a/b", "a/b/c"], ["a/", "b/a"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["ab"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["b", "a/bb"]),
        ("[a-c]x[!0-9]", ["axy", "cx-"], ["dxy", "ax1"]),
        ("x[]]", ["x]"], ["x"]),
        ("[[:digit:]]?", ["1a"], ["a1", "1"]),
        ("a[", [], ["a[", "a"]),
        ("a\\*", ["a*"], ["ab"]),
        ("end  \nkept\\ ", ["end", "kept "], ["end  ", "kept"]),
        ("\ufeffa\r\nb\r", ["a", "b"], []),
        ("*a*a*a*a*a*a*a*a*b", [], ["a" * 255]),
    ],
)
def test_patterns_exclude_or_keep_a_path(text: str, out: list[str], kept: list[str]) -> None:
    rules = ignore.parse_rules(text.encode())

    def is_out(path: str) -> bool:
        return ignore.is_excluded(path.rstrip("/").encode(), rules, is_folder=path.endswith("/"))

    assert [path for path in out if not is_out(path)] == []
    assert [path for path in kept if is_out(path)] == []


def test_names_that_are_not_utf_8_are_matched_too() -> None:
    rules = ignore.parse_rules(b"*.\xff\n")
    assert ignore.is_excluded(b"dir/a.\xff", rules, is_folder=False)
    assert not ignore.is_excluded(b"a.\xfe", rules, is_folder=False)
