"""The changed lines that count: comments in plain words do not; everything that a tool reads or runs does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.risk.harmless_lines import LINE_FILTERS, differs_in_other_lines

EVERY = tuple(LINE_FILTERS)
TEXT = "first:\n\tmake one\nlast\n"
HARMLESS = (
    "# run all of it",
    "#",
    "   # indented, and more",
    "# don't repeat this",
    '\t@echo "  build   build it (all of it)"',
    "\t@echo 'usage: make [target]'",
    "*.log",
    "__pycache__/",
)
COUNTS = (
    "#!/bin/sh",
    "# -*- coding: utf-7 -*-",
    "# coding=utf-7",
    "# vim: set exrc:",
    "# /// script",
    '#   "evil",',
    "#   'evil',",
    "# syntax=evil/image",
    "# shellcheck source=/dev/null",
    "# words \\",
    "#include <evil.h>",
    "# include <evil.h>",
    "#cgo LDFLAGS",
    "# `id`",
    "# $(id)",
    '\t@echo "$(shell id)"',
    "\t@echo `id`",
    "\t@echo 'a' | sh",
    '\t@echo "a" > b',
    '\t@echo "a"; id',
    "\t@echo 'a\\",
    "\techo a b",
    "!secret.log",
    "*",
    "/src/",
    "id",
    "id  ## words",
)


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_can_be_added_and_removed(line: str) -> None:
    more = TEXT.replace("last", f"{line}\nlast")

    assert not differs_in_other_lines(more.encode(), TEXT.encode, EVERY)
    assert not differs_in_other_lines(TEXT.encode(), more.encode, EVERY)


@pytest.mark.parametrize("line", COUNTS)
def test_lines_that_a_tool_reads_or_runs_count(line: str) -> None:
    more = TEXT.replace("last", f"{line}\nlast")

    assert differs_in_other_lines(more.encode(), TEXT.encode, EVERY)
    assert differs_in_other_lines(TEXT.encode(), more.encode, EVERY)


def test_a_comment_after_a_continued_line_is_part_of_it() -> None:
    before = "a:\n\trm -rf build \\\n\t  dist\n"

    assert differs_in_other_lines(before.replace("\t  dist", "# x\n\t  dist").encode(), before.encode, EVERY)


def test_help_text_after_a_make_target_does_not_count() -> None:
    assert not differs_in_other_lines(b"build: a  ## Build it\n", lambda: b"build: a\n", EVERY)
    assert differs_in_other_lines(b"build: b  ## Build it\n", lambda: b"build: a\n", EVERY)


def test_rules_determine_which_lines_do_not_count() -> None:
    assert differs_in_other_lines(b"*.log\n", bytes, ("comments",))
    assert differs_in_other_lines(b"# words\n", bytes, ("ignored-logs",))


LINES = st.lists(st.sampled_from(["# x", "#!/bin/sh", "a", "b", "c \\", "", "*.log", "\techo a"]), max_size=7)


def all_that_counts(text: str, words: tuple[str, ...]) -> list[bytes]:
    """Return the lines that count, by applying the filters to each line with the one before it."""
    found, before = [], ""
    for number, line in enumerate(text.split("\n")):
        rest: bytes | None = line.encode()
        if not before.endswith("\\") and not line.endswith("\\") and not (number < 2 and line.startswith("#!")):
            for word in words:
                rest = LINE_FILTERS[word](rest) if rest is not None else None
        found += [rest] if rest is not None else []
        before = line
    return found


@given(before=LINES, after=LINES, start=LINES, end=LINES)
def test_skipping_equal_ends_changes_no_verdict(before: list[str], after: list[str], start: list[str], end: list[str]) -> None:
    one, other = "\n".join(start + before + end), "\n".join(start + after + end)
    expected = all_that_counts(one, EVERY) != all_that_counts(other, EVERY)
    assert differs_in_other_lines(other.encode(), one.encode, EVERY) == expected


def test_a_change_in_a_long_file_inspects_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[bytes] = []

    def counts(line: bytes) -> bytes:
        looked_at.append(line)
        return line

    monkeypatch.setitem(LINE_FILTERS, "comments", counts)
    text = b"".join(b"line %d\n" % number for number in range(2000))
    assert differs_in_other_lines(text.replace(b"line 1000\n", b"other\n"), lambda: text, ("comments",))
    assert len(looked_at) <= 8
