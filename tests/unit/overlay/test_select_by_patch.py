"""Patches are parsed and their hunks located in the agent's change; laws over random parts of random changes."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.hunks import BareHunk, find_context_hunks, find_hunks, split_lines
from agent_dev.diff.partial_selection import (
    NOTHING_SELECTED,
    DiffSide,
    LineSelection,
    apply_selection,
    is_line_selected,
    select_all,
)
from agent_dev.diff.patch_parser import FilePatch, InvalidPatch, PatchHunk, parse_patch, unquote
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.patch_write import DISPLAY_FORMAT, change_patch, quote_path
from agent_dev.overlay.select_by_patch import PatchDoesNotApply, select_hunks

PIECES = [b"a\n", b"b\n", b"c\r\n", b"\n", b"\r", b"\x0c", b"\xff\n", b"x"]
LIKE_A_PATCH = [b"-- \n", b"-- a\n", b"++ b\n", b"@@ -1 +1 @@\n", b"\\ x\n"]
LISTS = st.lists(st.sampled_from(PIECES + LIKE_A_PATCH), max_size=24)
TEXTS = LISTS.map(b"".join) | st.binary(max_size=30).filter(lambda one: b"\0" not in one)
ODD_NAMES = st.sampled_from([b"a b", b"x b/x", b" ", b'"', b"\xe9"])
NAMES = ODD_NAMES | st.binary(min_size=1, max_size=12).filter(lambda one: b"\0" not in one)
FILE = Entry(FileType.FILE)
NO_NEWLINE = b"\\ No newline at end of file\n"


def written(path: bytes, before: bytes | None, after: bytes | None) -> bytes:
    """Return the patch that `agent-dev diff` writes."""
    kind = ChangeKind.ADDED if before is None else ChangeKind.DELETED if after is None else ChangeKind.EDITED
    entries = (None if before is None else FILE, None if after is None else FILE)
    return change_patch(Change(Key(0, path), kind, *entries), path, before, after, DISPLAY_FORMAT)


def one(text: bytes) -> FilePatch:
    (found,) = parse_patch(text)
    return found


def selected_lines(
    choice: LineSelection, found: tuple[BareHunk, ...], before: bytes, after: bytes
) -> tuple[list[bytes], list[bytes]]:
    """Return the selected old and new lines, in order."""
    old = [
        n for block in found for n in range(block.old_start, block.old_end) if is_line_selected(choice, found, DiffSide.OLD, n)
    ]
    new = [
        n for block in found for n in range(block.new_start, block.new_end) if is_line_selected(choice, found, DiffSide.NEW, n)
    ]
    return [split_lines(before)[n] for n in old], [split_lines(after)[n] for n in new]


# --- a patch of a part of a change, as edited by hand ---


def signed(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n" + NO_NEWLINE


def part_of(
    block: BareHunk, choice: LineSelection, before: list[bytes], after: list[bytes], *, by_hand: bool
) -> list[tuple[bytes, bytes]]:
    """Return the signed lines of one hunk: unselected old lines are context, unselected new lines are omitted.

    With `by_hand`, all old lines come first, as in git; otherwise the k-th new line follows the k-th old one.
    """
    old = [(b"-" if n in choice.old_lines else b" ", before[n]) for n in range(block.old_start, block.old_end)]
    new = [(b"+", after[n]) if n in choice.new_lines else None for n in range(block.new_start, block.new_end)]
    if by_hand:
        return old + [line for line in new if line]
    found: list[tuple[bytes, bytes]] = []
    for step in range(max(len(old), len(new))):
        found += old[step : step + 1]
        found += [line for line in new[step : step + 1] if line]
    return found


def part_patch(before: bytes, after: bytes, choice: LineSelection, *, by_hand: bool, context: int = 3, shift: int = 0) -> bytes:
    """Write the lines selected one by one as a patch, hunk by hunk, with line numbers off by `shift`."""
    old, new = split_lines(before), split_lines(after)
    text = b"--- a/f\n+++ b/f\n"
    for hunk in find_context_hunks(before, after, context):
        body: list[tuple[bytes, bytes]] = []
        at = hunk.old_start
        for block in hunk.hunks:
            body += [(b" ", line) for line in old[at : block.old_start]]
            body += part_of(block, choice, old, new, by_hand=by_hand)
            at = block.old_end
        body += [(b" ", line) for line in old[at : hunk.old_start + hunk.old_lines]]
        if any(sign != b" " for sign, _ in body):
            counts = (sum(sign != b"+" for sign, _ in body), sum(sign != b"-" for sign, _ in body))
            start = hunk.old_start + shift + (counts[0] > 0)
            text += b"@@ -%d,%d +%d,%d @@\n" % (start, counts[0], start, counts[1])
            text += b"".join(signed(sign, line) for sign, line in body)
    return text


@st.composite
def parts(draw: st.DrawFn) -> tuple[bytes, bytes, LineSelection]:
    """Draw a change and a selection of single lines."""
    before, after = draw(TEXTS), draw(TEXTS)
    found = find_hunks(before, after)
    old = [n for block in found for n in range(block.old_start, block.old_end) if draw(st.booleans())]
    new = [n for block in found for n in range(block.new_start, block.new_end) if draw(st.booleans())]
    return before, after, LineSelection(old_lines=frozenset(old), new_lines=frozenset(new))


@given(parts(), st.integers(0, 3))
def test_a_patch_of_any_lines_selects_exactly_these(part: tuple[bytes, bytes, LineSelection], context: int) -> None:
    before, after, choice = part
    text = part_patch(before, after, choice, by_hand=False, context=context)
    got = select_hunks(one(text), before, after)
    found = find_hunks(before, after)
    assert selected_lines(got, found, before, after) == selected_lines(choice, found, before, after)
    assert apply_selection(before, after, got) == apply_selection(before, after, choice)


@given(parts(), st.integers(0, 3))
def test_a_patch_edited_by_hand_selects_exactly_its_lines(part: tuple[bytes, bytes, LineSelection], context: int) -> None:
    before, after, choice = part
    got = select_hunks(one(part_patch(before, after, choice, by_hand=True, context=context)), before, after)
    found = find_hunks(before, after)
    assert selected_lines(got, found, before, after) == selected_lines(choice, found, before, after)


@given(TEXTS, TEXTS)
def test_the_whole_patch_selects_the_whole_change(before: bytes, after: bytes) -> None:
    for read in parse_patch(written(b"f", before, after)):
        assert read.path == b"f"
        assert select_hunks(read, before, after) == select_all(find_hunks(before, after))


@given(TEXTS, TEXTS, st.data())
def test_any_hunks_of_a_patch_select_their_lines(before: bytes, after: bytes, data: st.DataObject) -> None:
    for read in parse_patch(written(b"f", before, after)):
        hunks = list(find_context_hunks(before, after))
        picks = [data.draw(st.booleans()) for _ in hunks]
        some = replace(read, hunks=tuple(hunk for hunk, pick in zip(read.hunks, picks, strict=True) if pick))
        expected = {block for hunk, pick in zip(hunks, picks, strict=True) if pick for block in hunk.hunks}
        found = find_hunks(before, after)
        assert select_hunks(some, before, after) == LineSelection(
            frozenset(n for n, block in enumerate(found) if block in expected)
        )


@given(TEXTS, TEXTS, TEXTS)
def test_a_line_that_is_not_the_agents_is_never_selected(before: bytes, after: bytes, other: bytes) -> None:
    """A patch to another text is refused, or selects only lines of the change, and every line that it adds."""
    for read in parse_patch(written(b"f", before, other)):
        try:
            choice = select_hunks(read, before, after)
        except PatchDoesNotApply:
            continue
        got = selected_lines(choice, find_hunks(before, after), before, after)
        named = [line for hunk in read.hunks for sign, line in hunk.lines if sign == b"+"]
        assert [line.rstrip(b"\r\n") for line in got[1]] == [line.rstrip(b"\r\n") for line in named]


@given(NAMES, TEXTS, TEXTS)
def test_any_name_round_trips(path: bytes, before: bytes, after: bytes) -> None:
    for sides in ((before, after), (None, after), (before, None)):
        text = written(path, *sides)
        assert all(
            (read.path, read.is_new, read.is_deleted) == (path, sides[0] is None, sides[1] is None) for read in parse_patch(text)
        )
        assert bool(parse_patch(text)) == bool(text)


@given(st.binary(min_size=1))
def test_quoted_names_are_unquoted(path: bytes) -> None:
    assert unquote(b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"') == path
    if quote_path(path) != path:
        assert unquote(quote_path(path)) == path


HEADS = [b"diff --git a/f b/f\n", b"--- a/f\n", b"+++ b/f\n", b'--- "a/\\', b"old mode 100644\n", b"rename from f\n"]
BODY = [b"@@ -1 +1 @@\n", b"@@ -0,0 +1,2 @@\n", b"-a\n", b"+b\n", b" c\n", b"\n", b"\\ No\n"]


@given(st.lists(st.sampled_from(HEADS + BODY), max_size=12).map(b"".join) | st.binary())
def test_hostile_patches_are_parsed_or_refused(text: bytes) -> None:
    with suppress(InvalidPatch):
        assert all(isinstance(read.path, bytes) for read in parse_patch(text))


# --- parsing: examples ---

GIT = b"""\
From 0123456789 Mon Sep 17 00:00:00 2001
Subject: [PATCH] Two things

---
 f | 2 +-
diff --git a/f b/f
index 0123456..89abcde 100644
--- a/f
+++ b/f
@@ -1,3 +1,3 @@ a heading
 a
-b
+B
 c
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git "a/\\303\\251" "b/\\303\\251"
new file mode 100644
index 0000000..0123456
--- /dev/null
+++ "b/\\303\\251"
@@ -0,0 +1 @@
+new
\\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
index 0123456..0000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
--- a comment
diff --git a/pic ture.png b/pic ture.png
index 0123456..89abcde 100644
Binary files a/pic ture.png and b/pic ture.png differ
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
# a/b: added directory; git has no words for it
-- \n\
2.39.5
"""


def test_a_mail_from_git_format_patch_is_parsed() -> None:
    assert parse_patch(GIT) == (
        FilePatch(b"f", (PatchHunk(0, ((b" ", b"a\n"), (b"-", b"b\n"), (b"+", b"B\n"), (b" ", b"c\n"))),)),
        FilePatch(b"run.sh", (), 0o100644, 0o100755),
        FilePatch("é".encode(), (PatchHunk(0, ((b"+", b"new"),)),), None, 0o100644, is_new=True),
        FilePatch(b"gone", (PatchHunk(0, ((b"-", b"-- a comment\n"),)),), 0o100644, None, is_deleted=True),
        FilePatch(b"pic ture.png", is_binary=True),
        FilePatch(b"empty", (), None, 0o100644, is_new=True),
    )


@pytest.mark.parametrize("text", [b"", b"nothing here\n", b"--- \n", b"\0\xff"])
def test_text_without_a_patch_has_none(text: bytes) -> None:
    assert parse_patch(text) == ()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b"@@ -1 +1 @@\n-a\n+b\n", 1, "a hunk without a file"),
        (b"diff --cc f\n--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n", 4, "a hunk without a file"),
        (b"--- a/f\n+++ b/g\n", 2, "a file's patch must name exactly one path"),
        (b"diff --git a/f b/f\n--- a/g\n+++ b/g\n", 3, "a file's patch must name exactly one path"),
        (b"--- /dev/null\n+++ /dev/null\n", 2, "a file's patch must name exactly one path"),
        (
            b"diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n",
            6,
            "copies with edits are not supported",
        ),
        (b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\n", 3, "a file's patch must name exactly one path"),
        (b"diff --git a/f b/g\nrename from f\nrename to g\n--- a/f\n+++ b/h\n", 5, "a file's patch must name exactly one path"),
        (b'diff --git a/f b/g\nrename from "f\nrename to g\n', 2, "not a file name"),
        (b"diff --git a/f b/f\nold mode 10x644\n", 2, "not a mode"),
        (b"--- f\n+++ f\n", 1, "not a file name"),
        (b'--- "a/\\9"\n+++ b/f\n', 1, "not a file name"),
        (b"--- a/f\n+++ b/f\n@@ -1 1 @@\n", 3, "not a hunk header"),
        (b"--- a/f\n+++ b/f\n@@ -1,x +1 @@\n", 3, "not a hunk header"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n", 5, "the patch ends inside a hunk"),
        (b"--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n+b\ndiff --git a/g b/g\n", 6, "the hunk has fewer lines than its header says"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n-b\n", 5, "the hunk's lines do not match its header"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n+c\n", 6, "the hunk has more lines than its header says"),
    ],
)
def test_an_invalid_patch_is_refused_with_its_line(text: bytes, line: int, reason: str) -> None:
    with pytest.raises(InvalidPatch, match=f"line {line}: .*{reason}"):
        parse_patch(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b"--- a/a b\t\n+++ b/a b\t\n", b"a b"),
        (b'--- "a/\\001 "\t\n+++ "b/\\001 "\t\n', b"\x01 "),
        (b"--- a/f\t2024-01-01 00:00:00.000000000 +0000\n+++ b/f\t2024-01-01 00:00:00.000000000 +0000\n", b"f"),
        (b"diff --git i/f w/f\r\n--- i/f\r\n+++ w/f\r\n", b"f"),
        (b"diff --git a/x b/x b/x b/x\nold mode 100644\nnew mode 100755\n", b"x b/x"),
        (b'diff --git "a/\\"" "b/\\""\nold mode 100644\nnew mode 100755\n', b'"'),
    ],
)
def test_names_are_parsed_as_git_and_diff_write_them(text: bytes, path: bytes) -> None:
    assert one(text).path == path


def test_a_context_line_that_lost_its_space_is_an_empty_line() -> None:
    read = one(b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n\n-a\n+b\n")
    assert read.hunks[0].lines == ((b" ", b"\n"), (b"-", b"a\n"), (b"+", b"b\n"))


@pytest.mark.parametrize(
    ("header", "start"), [(b"@@ -5,0 +6 @@\n+a\n", 5), (b"@@ -0,0 +1 @@\n+a\n", 0), (b"@@ -5 +4,0 @@ def f():\n-a\n", 4)]
)
def test_a_hunk_without_old_lines_refers_to_the_line_before_it(header: bytes, start: int) -> None:
    assert one(b"--- a/f\n+++ b/f\n" + header).hunks[0].old_start == start


# --- locating hunks: examples ---

BEFORE = b"".join(b"%d\n" % n for n in range(40))
AFTER = BEFORE.replace(b"\n5\n", b"\nfive\n").replace(b"\n25\n", b"\ntwenty\nfive\n").replace(b"\n35\n", b"\n")


def hunk_at(start: int, *body: bytes) -> FilePatch:
    return FilePatch(b"f", (PatchHunk(start, tuple((line[:1], line[1:] + b"\n") for line in body)),))


@pytest.mark.parametrize("start", [24, 0, 30, 39, 4_000_000_000])
def test_a_hunk_with_a_wrong_line_number_is_found(start: int) -> None:
    read = hunk_at(start, b" 24", b"-25", b"+twenty", b"+five", b" 26")
    assert select_hunks(read, BEFORE, AFTER) == LineSelection(frozenset((1,)))


def test_the_nearest_of_two_positions_is_used() -> None:
    before, after = b"a\nb\n" * 6, b"a\nB\n" * 6
    body = ((b" ", b"a\n"), (b"-", b"b\n"), (b"+", b"B\n"))
    assert select_hunks(FilePatch(b"f", (PatchHunk(5, body),)), before, after) == LineSelection(
        frozenset((3,))
    )  # at equal distance, git uses the later position


def test_the_next_hunk_is_searched_with_the_offset_of_the_previous() -> None:
    before, after = b"u\n" + b"a\nb\n" * 6, b"U\n" + b"a\nB\n" * 6
    first = PatchHunk(4, ((b"-", b"u\n"), (b"+", b"U\n")))  # its position is 0
    second = PatchHunk(9, ((b" ", b"a\n"), (b"-", b"b\n"), (b"+", b"B\n")))
    assert select_hunks(FilePatch(b"f", (first, second)), before, after) == LineSelection(frozenset((0, 3)))


def test_a_hunk_is_not_found_before_the_previous_one() -> None:
    five, twenty = (hunk_at(0, b"-5", b"+five").hunks[0], hunk_at(0, b"-25", b"+twenty").hunks[0])
    assert select_hunks(FilePatch(b"f", (five, twenty)), BEFORE, AFTER) == LineSelection(
        frozenset((0,)), old_lines=frozenset((25,)), new_lines=frozenset((25,))
    )
    with pytest.raises(
        PatchDoesNotApply, match="f: hunk 2 of the patch does not apply: its context and deleted lines do not match the file"
    ):
        select_hunks(FilePatch(b"f", (twenty, five)), BEFORE, AFTER)


def test_two_hunks_may_select_parts_of_one_block_of_changes() -> None:
    before, after = b"1\n2\n3\n", b"one\ntwo\nthree\n"
    read = one(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+one\n@@ -3 +3 @@\n-3\n+three\n")
    assert apply_selection(before, after, select_hunks(read, before, after)) == b"one\n2\nthree\n"


def test_two_hunks_never_select_the_same_line() -> None:
    before, after = b"1\n2\n", b"y\nx\nx\n"
    read = one(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+x\n@@ -2 +2 @@\n-2\n+x\n")
    assert apply_selection(before, after, select_hunks(read, before, after)) == b"x\nx\n"


def test_the_equal_new_line_at_this_position_is_selected() -> None:
    before, after = b"1\n2\n", b"x\ny\nx\nz\n"
    first, last = hunk_at(0, b" 1", b"+x", b" 2"), hunk_at(0, b" 1", b" 2", b"+x")
    assert apply_selection(before, after, select_hunks(first, before, after)) == b"1\nx\n2\n"
    assert apply_selection(before, after, select_hunks(last, before, after)) == b"1\n2\nx\n"


def test_a_line_that_got_a_final_newline_still_matches_the_agents() -> None:
    before, after = b"a", b"a\nb"
    read = one(b"--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n a\n+b\n")
    assert apply_selection(before, after, select_hunks(read, before, after)) == b"a\nb"


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (hunk_at(5, b"-5", b"+5.0"), "it changes lines that the agent did not change"),
        (hunk_at(5, b"-5", b"+five", b"+five"), "it changes lines that the agent did not change"),
        (hunk_at(5, b"-5", b"+twenty"), "it changes lines that the agent did not change"),
        (hunk_at(6, b"-6"), "it changes lines that the agent did not change"),
        (hunk_at(6, b" 6", b"+five"), "it changes lines that the agent did not change"),
        (hunk_at(25, b"-25", b"+five", b"+twenty"), "it changes lines that the agent did not change"),
        (hunk_at(5, b"-six"), "its context and deleted lines do not match the file"),
        (hunk_at(5, b" 7", b"-5"), "its context and deleted lines do not match the file"),
        (FilePatch(b"f", is_binary=True), "the file is binary or too large; select the whole file"),
    ],
)
def test_a_line_that_is_not_the_agents_is_refused_with_path_and_hunk(read: FilePatch, reason: str) -> None:
    with pytest.raises(PatchDoesNotApply, match=f"^f: hunk 1 of the patch does not apply: {reason}$"):
        select_hunks(read, BEFORE, AFTER)


def test_a_patch_of_the_mode_alone_selects_no_lines() -> None:
    assert select_hunks(FilePatch(b"f", (), 0o100644, 0o100755), BEFORE, AFTER) == NOTHING_SELECTED
