"""A patch read, and its hunks found again in what the agent changed; the laws on random parts of random changes."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff.hunks import Block, blocks, lines, patch, quoted, unified
from agent_dev.diff.partial import NOTHING, Choice, Side, apply, everything, is_chosen
from agent_dev.diff.patch_parser import BadPatch, FilePatch, PatchDoesNotFit, PatchHunk, choose, parse, unquoted
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind

PIECES = [b"a\n", b"b\n", b"c\r\n", b"\n", b"\r", b"\x0c", b"\xff\n", b"x"]
LIKE_A_PATCH = [b"-- \n", b"-- a\n", b"++ b\n", b"@@ -1 +1 @@\n", b"\\ x\n"]
LISTS = st.lists(st.sampled_from(PIECES + LIKE_A_PATCH), max_size=24)
TEXTS = LISTS.map(b"".join) | st.binary(max_size=30).filter(lambda one: b"\0" not in one)
ODD_NAMES = st.sampled_from([b"a b", b"x b/x", b" ", b'"', b"\xe9"])
NAMES = ODD_NAMES | st.binary(min_size=1, max_size=12).filter(lambda one: b"\0" not in one)
FILE = Entry(FileType.FILE)
NO_NEWLINE = b"\\ No newline at end of file\n"


def written(path: bytes, before: bytes | None, after: bytes | None) -> bytes:
    """Return what `agent-dev diff` writes."""
    kind = Kind.ADDED if before is None else Kind.DELETED if after is None else Kind.EDITED
    entries = (None if before is None else FILE, None if after is None else FILE)
    return patch(Change(Key(0, path), kind, *entries), path, before, after)


def one(text: bytes) -> FilePatch:
    (found,) = parse(text)
    return found


def chosen_lines(choice: Choice, found: tuple[Block, ...], before: bytes, after: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the texts of the old and of the new lines that are chosen, in order."""
    old = [n for block in found for n in range(block.old_start, block.old_end) if is_chosen(choice, found, Side.OLD, n)]
    new = [n for block in found for n in range(block.new_start, block.new_end) if is_chosen(choice, found, Side.NEW, n)]
    return [lines(before)[n] for n in old], [lines(after)[n] for n in new]


# --- a patch of part of a change, written as a person would leave it ---


def signed(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n" + NO_NEWLINE


def part_of(block: Block, choice: Choice, before: list[bytes], after: list[bytes], *, by_hand: bool) -> list[tuple[bytes, bytes]]:
    """Write one block: old lines that stay as context, new lines that are not taken left out.

    `by_hand` is git's order, all old lines first; else the k-th new line stands behind the k-th old one.
    """
    old = [(b"-" if n in choice.old else b" ", before[n]) for n in range(block.old_start, block.old_end)]
    new = [(b"+", after[n]) if n in choice.new else None for n in range(block.new_start, block.new_end)]
    if by_hand:
        return old + [line for line in new if line]
    found: list[tuple[bytes, bytes]] = []
    for step in range(max(len(old), len(new))):
        found += old[step : step + 1]
        found += [line for line in new[step : step + 1] if line]
    return found


def part_patch(before: bytes, after: bytes, choice: Choice, *, by_hand: bool, context: int = 3, shift: int = 0) -> bytes:
    """Write the lone lines of a choice as a patch, hunk by hunk, `shift` lines off."""
    old, new = lines(before), lines(after)
    text = b"--- a/f\n+++ b/f\n"
    for hunk in unified(before, after, context):
        body: list[tuple[bytes, bytes]] = []
        at = hunk.old_start
        for block in hunk.blocks:
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
def parts(draw: st.DrawFn) -> tuple[bytes, bytes, Choice]:
    """Draw a change and lone lines of it."""
    before, after = draw(TEXTS), draw(TEXTS)
    found = blocks(before, after)
    old = [n for block in found for n in range(block.old_start, block.old_end) if draw(st.booleans())]
    new = [n for block in found for n in range(block.new_start, block.new_end) if draw(st.booleans())]
    return before, after, Choice(old=frozenset(old), new=frozenset(new))


@given(parts(), st.integers(0, 3))
def test_a_patch_of_any_lines_takes_exactly_these(part: tuple[bytes, bytes, Choice], context: int) -> None:
    before, after, choice = part
    text = part_patch(before, after, choice, by_hand=False, context=context)
    got = choose(one(text), before, after)
    found = blocks(before, after)
    assert chosen_lines(got, found, before, after) == chosen_lines(choice, found, before, after)
    assert apply(before, after, got) == apply(before, after, choice)


@given(parts(), st.integers(0, 3))
def test_a_patch_edited_by_hand_takes_exactly_its_lines(part: tuple[bytes, bytes, Choice], context: int) -> None:
    before, after, choice = part
    got = choose(one(part_patch(before, after, choice, by_hand=True, context=context)), before, after)
    found = blocks(before, after)
    assert chosen_lines(got, found, before, after) == chosen_lines(choice, found, before, after)


@given(TEXTS, TEXTS)
def test_the_whole_patch_takes_the_whole_change(before: bytes, after: bytes) -> None:
    for read in parse(written(b"f", before, after)):
        assert read.path == b"f"
        assert choose(read, before, after) == everything(blocks(before, after))


@given(TEXTS, TEXTS, st.data())
def test_any_hunks_of_a_patch_take_their_blocks(before: bytes, after: bytes, data: st.DataObject) -> None:
    for read in parse(written(b"f", before, after)):
        hunks = list(unified(before, after))
        picks = [data.draw(st.booleans()) for _ in hunks]
        some = replace(read, hunks=tuple(hunk for hunk, pick in zip(read.hunks, picks, strict=True) if pick))
        expected = {block for hunk, pick in zip(hunks, picks, strict=True) if pick for block in hunk.blocks}
        found = blocks(before, after)
        assert choose(some, before, after) == Choice(frozenset(n for n, block in enumerate(found) if block in expected))


@given(TEXTS, TEXTS, TEXTS)
def test_a_line_that_is_not_the_agents_is_never_taken(before: bytes, after: bytes, other: bytes) -> None:
    """A patch to some other text is refused, or takes nothing but lines of the change, and every line it names."""
    for read in parse(written(b"f", before, other)):
        try:
            choice = choose(read, before, after)
        except PatchDoesNotFit:
            continue
        got = chosen_lines(choice, blocks(before, after), before, after)
        named = [line for hunk in read.hunks for sign, line in hunk.lines if sign == b"+"]
        assert [line.rstrip(b"\r\n") for line in got[1]] == [line.rstrip(b"\r\n") for line in named]


@given(NAMES, TEXTS, TEXTS)
def test_any_name_is_read_back(path: bytes, before: bytes, after: bytes) -> None:
    for sides in ((before, after), (None, after), (before, None)):
        text = written(path, *sides)
        assert all(
            (read.path, read.is_new, read.is_deleted) == (path, sides[0] is None, sides[1] is None) for read in parse(text)
        )
        assert bool(parse(text)) == bool(text)


@given(st.binary(min_size=1))
def test_quoting_is_undone(path: bytes) -> None:
    assert unquoted(b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"') == path
    if quoted(path) != path:
        assert unquoted(quoted(path)) == path


HEADS = [b"diff --git a/f b/f\n", b"--- a/f\n", b"+++ b/f\n", b'--- "a/\\', b"old mode 100644\n", b"rename from f\n"]
BODY = [b"@@ -1 +1 @@\n", b"@@ -0,0 +1,2 @@\n", b"-a\n", b"+b\n", b" c\n", b"\n", b"\\ No\n"]


@given(st.lists(st.sampled_from(HEADS + BODY), max_size=12).map(b"".join) | st.binary())
def test_hostile_patches_are_read_or_refused(text: bytes) -> None:
    with suppress(BadPatch):
        assert all(isinstance(read.path, bytes) for read in parse(text))


# --- reading, by hand ---

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


def test_a_mail_of_gits_is_read() -> None:
    assert parse(GIT) == (
        FilePatch(b"f", (PatchHunk(0, ((b" ", b"a\n"), (b"-", b"b\n"), (b"+", b"B\n"), (b" ", b"c\n"))),)),
        FilePatch(b"run.sh", (), 0o100644, 0o100755),
        FilePatch("é".encode(), (PatchHunk(0, ((b"+", b"new"),)),), None, 0o100644, is_new=True),
        FilePatch(b"gone", (PatchHunk(0, ((b"-", b"-- a comment\n"),)),), 0o100644, None, is_deleted=True),
        FilePatch(b"pic ture.png", is_binary=True),
        FilePatch(b"empty", (), None, 0o100644, is_new=True),
    )


@pytest.mark.parametrize("text", [b"", b"nothing here\n", b"--- \n", b"\0\xff"])
def test_text_without_a_patch_has_none(text: bytes) -> None:
    assert parse(text) == ()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b"@@ -1 +1 @@\n-a\n+b\n", 1, "a hunk without a file"),
        (b"diff --cc f\n--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n", 4, "a hunk without a file"),
        (b"--- a/f\n+++ b/g\n", 2, "two paths, or none, in one patch of a file"),
        (b"diff --git a/f b/f\n--- a/g\n+++ b/g\n", 3, "two paths, or none, in one patch of a file"),
        (b"--- /dev/null\n+++ /dev/null\n", 2, "two paths, or none, in one patch of a file"),
        (b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\n", 3, "renames and copies are not read"),
        (b"diff --git a/f b/f\nold mode 10x644\n", 2, "not a mode"),
        (b"--- f\n+++ f\n", 1, "not a name as git writes it"),
        (b'--- "a/\\9"\n+++ b/f\n', 1, "not a name as git writes it"),
        (b"--- a/f\n+++ b/f\n@@ -1 1 @@\n", 3, "not the first line of a hunk"),
        (b"--- a/f\n+++ b/f\n@@ -1,x +1 @@\n", 3, "not the first line of a hunk"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n", 5, "it ends inside a hunk"),
        (b"--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n+b\ndiff --git a/g b/g\n", 6, "there are fewer than its header says"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n-b\n", 5, "the hunk has other lines than its header says"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n+c\n", 6, "the hunk has more lines than its header says"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: bytes, line: int, reason: str) -> None:
    with pytest.raises(BadPatch, match=f"at line {line}: .*{reason}"):
        parse(text)


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
def test_names_as_git_and_diff_write_them(text: bytes, path: bytes) -> None:
    assert one(text).path == path


def test_a_context_line_that_lost_its_space_is_an_empty_line() -> None:
    read = one(b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n\n-a\n+b\n")
    assert read.hunks[0].lines == ((b" ", b"\n"), (b"-", b"a\n"), (b"+", b"b\n"))


@pytest.mark.parametrize(
    ("header", "start"), [(b"@@ -5,0 +6 @@\n+a\n", 5), (b"@@ -0,0 +1 @@\n+a\n", 0), (b"@@ -5 +4,0 @@ def f():\n-a\n", 4)]
)
def test_a_hunk_without_old_lines_names_the_line_before_it(header: bytes, start: int) -> None:
    assert one(b"--- a/f\n+++ b/f\n" + header).hunks[0].old_start == start


# --- finding hunks, by hand ---

BEFORE = b"".join(b"%d\n" % n for n in range(40))
AFTER = BEFORE.replace(b"\n5\n", b"\nfive\n").replace(b"\n25\n", b"\ntwenty\nfive\n").replace(b"\n35\n", b"\n")


def hunk_at(start: int, *body: bytes) -> FilePatch:
    return FilePatch(b"f", (PatchHunk(start, tuple((line[:1], line[1:] + b"\n") for line in body)),))


@pytest.mark.parametrize("start", [24, 0, 30, 39, 4_000_000_000])
def test_a_hunk_is_found_although_its_line_is_off(start: int) -> None:
    read = hunk_at(start, b" 24", b"-25", b"+twenty", b"+five", b" 26")
    assert choose(read, BEFORE, AFTER) == Choice(frozenset((1,)))


def test_of_two_places_the_nearest_is_taken() -> None:
    before, after = b"a\nb\n" * 6, b"a\nB\n" * 6
    body = ((b" ", b"a\n"), (b"-", b"b\n"), (b"+", b"B\n"))
    assert choose(FilePatch(b"f", (PatchHunk(5, body),)), before, after) == Choice(frozenset((3,)))  # git looks ahead first


def test_the_next_hunk_is_looked_for_as_far_off_as_the_one_before() -> None:
    before, after = b"u\n" + b"a\nb\n" * 6, b"U\n" + b"a\nB\n" * 6
    first = PatchHunk(4, ((b"-", b"u\n"), (b"+", b"U\n")))  # it stands at 0
    second = PatchHunk(9, ((b" ", b"a\n"), (b"-", b"b\n"), (b"+", b"B\n")))
    assert choose(FilePatch(b"f", (first, second)), before, after) == Choice(frozenset((0, 3)))


def test_a_hunk_is_not_found_before_the_one_before_it() -> None:
    five, twenty = (hunk_at(0, b"-5", b"+five").hunks[0], hunk_at(0, b"-25", b"+twenty").hunks[0])
    assert choose(FilePatch(b"f", (five, twenty)), BEFORE, AFTER) == Choice(
        frozenset((0,)), old=frozenset((25,)), new=frozenset((25,))
    )
    with pytest.raises(PatchDoesNotFit, match="f, hunk 2 of the patch: its old lines are not in the file"):
        choose(FilePatch(b"f", (twenty, five)), BEFORE, AFTER)


def test_two_hunks_may_take_parts_of_one_block() -> None:
    before, after = b"1\n2\n3\n", b"one\ntwo\nthree\n"
    read = one(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+one\n@@ -3 +3 @@\n-3\n+three\n")
    assert apply(before, after, choose(read, before, after)) == b"one\n2\nthree\n"


def test_two_hunks_in_one_block_never_take_the_same_line() -> None:
    before, after = b"1\n2\n", b"y\nx\nx\n"
    read = one(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+x\n@@ -2 +2 @@\n-2\n+x\n")
    assert apply(before, after, choose(read, before, after)) == b"x\nx\n"


def test_of_equal_new_lines_the_one_in_this_place_is_taken() -> None:
    before, after = b"1\n2\n", b"x\ny\nx\nz\n"
    first, last = hunk_at(0, b" 1", b"+x", b" 2"), hunk_at(0, b" 1", b" 2", b"+x")
    assert apply(before, after, choose(first, before, after)) == b"1\nx\n2\n"
    assert apply(before, after, choose(last, before, after)) == b"1\n2\nx\n"


def test_a_line_that_had_to_get_an_end_is_still_the_agents() -> None:
    before, after = b"a", b"a\nb"
    read = one(b"--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n a\n+b\n")
    assert apply(before, after, choose(read, before, after)) == b"a\nb"


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (hunk_at(5, b"-5", b"+5.0"), "not every line of it is a line that the agent changed there"),
        (hunk_at(5, b"-5", b"+five", b"+five"), "not every line of it is a line that the agent changed there"),
        (hunk_at(5, b"-5", b"+twenty"), "not every line of it is a line that the agent changed there"),
        (hunk_at(6, b"-6"), "not every line of it is a line that the agent changed there"),
        (hunk_at(6, b" 6", b"+five"), "not every line of it is a line that the agent changed there"),
        (hunk_at(25, b"-25", b"+five", b"+twenty"), "not every line of it is a line that the agent changed there"),
        (hunk_at(5, b"-six"), "its old lines are not in the file, or not in this order"),
        (hunk_at(5, b" 7", b"-5"), "its old lines are not in the file, or not in this order"),
        (FilePatch(b"f", is_binary=True), "the file is binary or too large for lines; take it whole"),
    ],
)
def test_what_is_not_the_agents_is_refused_with_path_and_hunk(read: FilePatch, reason: str) -> None:
    with pytest.raises(PatchDoesNotFit, match=f"^f, hunk 1 of the patch: {reason}$"):
        choose(read, BEFORE, AFTER)


def test_a_patch_of_the_mode_alone_chooses_no_lines() -> None:
    assert choose(FilePatch(b"f", (), 0o100644, 0o100755), BEFORE, AFTER) == NOTHING
