"""A change as a patch: real git applies it, and then the tree is the agent's."""

import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent_dev.diff.hunks import patch
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind

File = tuple[int, bytes]  # git's mode and the bytes; a link's target
LINK = 0o120000


def entry(one: File | None) -> Entry | None:
    """Return what a scan would find."""
    if one is None:
        return None
    mode, data = one
    if mode == LINK:
        return Entry(FileType.SYMLINK, target=data)
    return Entry(FileType.FILE, mode=mode, size=len(data))


def as_patch(path: bytes, before: File | None, after: File | None) -> bytes:
    """Return the patch between two states of one path."""
    old, new = entry(before), entry(after)
    kind = Kind.ADDED if old is None else Kind.DELETED if new is None else Kind.RETYPED if old.type != new.type else Kind.EDITED
    if before and after and kind is Kind.EDITED and before[1] == after[1]:
        kind = Kind.METADATA
    return patch(Change(Key(0, path), kind, old, new), path, before and before[1], after and after[1])


def put(folder: bytes, path: bytes, one: File | None) -> None:
    """Make a file or a link."""
    if one is None:
        return
    full = folder + b"/" + path
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if one[0] == LINK:
        os.symlink(one[1], full)
        return
    Path(os.fsdecode(full)).write_bytes(one[1])
    os.chmod(full, one[0])


def got(folder: bytes, path: bytes) -> File | None:
    """Return what stands at a path, as git sees it."""
    full = folder + b"/" + path
    if os.path.islink(full):
        return LINK, os.readlink(full)
    if not os.path.lexists(full):
        return None
    is_executable = os.lstat(full).st_mode & stat.S_IXUSR
    return 0o755 if is_executable else 0o644, Path(os.fsdecode(full)).read_bytes()


def git_apply(folder: bytes, text: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run `git apply` outside any repository and any configuration."""
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CEILING_DIRECTORIES": "/",
    }
    return subprocess.run(
        ["git", "apply", "--whitespace=nowarn"], cwd=folder, input=text, env=environ, capture_output=True, check=False
    )


def applied(path: bytes, before: File | None, after: File | None) -> File | None:
    """Apply the patch to the old state and return what then stands there."""
    with tempfile.TemporaryDirectory() as name:
        folder = os.fsencode(name)
        put(folder, path, before)
        done = git_apply(folder, as_patch(path, before, after))
        assert done.returncode == 0, (done.stderr, as_patch(path, before, after))
        return got(folder, path)


TEXT = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"
CASES = {
    "an edit": ((0o644, TEXT), (0o644, TEXT.replace(b"five", b"FIVE"))),
    "two hunks": ((0o644, TEXT * 3), (0o644, b"zero\n" + TEXT * 3 + b"ten\n")),
    "a new file": (None, (0o644, TEXT)),
    "a new executable": (None, (0o755, b"#!/bin/sh\n")),
    "a new empty file": (None, (0o644, b"")),
    "a deleted file": ((0o644, TEXT), None),
    "a deleted empty file": ((0o644, b""), None),
    "a deleted executable": ((0o755, b"x"), None),
    "made executable": ((0o644, TEXT), (0o755, TEXT)),
    "no longer executable, and edited": ((0o755, TEXT), (0o644, TEXT + b"ten\n")),
    "last newline lost": ((0o644, TEXT), (0o644, TEXT[:-1])),
    "last newline gained": ((0o644, TEXT[:-1]), (0o644, TEXT)),
    "no newline on both sides": ((0o644, b"a"), (0o644, b"b")),
    "emptied": ((0o644, TEXT), (0o644, b"")),
    "CRLF": ((0o644, b"a\r\nb\r\n"), (0o644, b"a\r\nB\r\n")),
    "not UTF-8": ((0o644, b"\xff\xfe\n"), (0o644, b"\xfe\xff\n\x0c\x85\n")),
    "lines that look like a patch": ((0o644, b"-- a\n++ b\n"), (0o644, b"@@ -1 +1 @@\ndiff --git a/x b/x\n")),
    "a new link": (None, (LINK, b"../there")),
    "a link elsewhere": ((LINK, b"here"), (LINK, b"there")),
    "a deleted link": ((LINK, b"here"), None),
    "a file became a link": ((0o644, TEXT), (LINK, b"/etc/passwd")),
    "a link became a file": ((LINK, b"here"), (0o755, TEXT)),
}


@pytest.mark.parametrize("case", CASES)
def test_git_applies_every_kind_of_change(case: str) -> None:
    before, after = CASES[case]
    assert applied(b"dir/file.txt", before, after) == after


NAMES = [
    b"a b.txt", b" x", b'a"b', b"a\\b", b"a\nb", b"a\tb c", "é/ü".encode(), b"\xff", b"\x1b[31m", b"a b/b a", b"x ", b"-p",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", ["an edit", "a new file", "a new empty file", "a deleted file", "made executable", "a new link"])
def test_git_applies_changes_of_strangely_named_files(name: bytes, case: str) -> None:
    before, after = CASES[case]
    assert applied(name, before, after) == after


PIECES = [b"a\n", b"b\n", b"c\r\n", b"\n", b"\r", b" \n", b"-x\n", b"+\n", b"\\ No newline\n", b"\xff\n", b"end"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join)


@settings(max_examples=60)
@given(TEXTS, TEXTS)
def test_git_applies_any_edit(before: bytes, after: bytes) -> None:
    assume(before != after)
    assert applied(b"f", (0o644, before), (0o644, after)) == (0o644, after)


def test_patches_of_many_changes_apply_as_one() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = os.fsencode(name)
        states = {b"d%d/f" % number: CASES[case] for number, case in enumerate(CASES)}
        for path, (before, _) in states.items():
            put(folder, path, before)
        whole = b"".join(as_patch(path, before, after) for path, (before, after) in states.items())
        done = git_apply(folder, whole)
        assert done.returncode == 0, done.stderr
        assert {path: got(folder, path) for path in states} == {path: after for path, (_, after) in states.items()}


def test_a_directory_that_became_a_file_applies() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = os.fsencode(name)
        put(folder, b"d/inside", (0o644, TEXT))
        retyped = Change(Key(0, b"d"), Kind.RETYPED, Entry(FileType.DIRECTORY, mode=0o755), Entry(FileType.FILE))
        text = patch(retyped, b"d", None, TEXT) + as_patch(b"d/inside", (0o644, TEXT), None)
        assert git_apply(folder, text).returncode == 0
        assert got(folder, b"d") == (0o644, TEXT)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change(Key(0, b"x\n"), Kind.ADDED, None, Entry(FileType.FIFO)), b'# "x\\n": added fifo; git has no words for it\n'),
        (Change(Key(0, b"x"), Kind.ADDED, None, Entry(FileType.DIRECTORY)), b"# x: added dir; git has no words for it\n"),
        (
            Change(Key(0, b"x"), Kind.METADATA, Entry(FileType.FILE, mode=0o644), Entry(FileType.FILE, mode=0o600)),
            b"# x: mode 0644 becomes 0600; git has no words for it\n",
        ),
        (
            Change(Key(0, b"x"), Kind.METADATA, Entry(FileType.FILE), Entry(FileType.FILE, attributes=(("user.a", b"1"),))),
            b"# x: attributes; git has no words for it\n",
        ),
    ],
)
def test_what_git_cannot_express_is_a_comment(change: Change, expected: bytes) -> None:
    assert patch(change, change.key.path, None, None) == expected


def test_git_skips_the_comments_between_patches() -> None:
    fifo = patch(Change(Key(0, b"p"), Kind.ADDED, None, Entry(FileType.FIFO)), b"p", None, None)
    with tempfile.TemporaryDirectory() as name:
        folder = os.fsencode(name)
        text = fifo + as_patch(b"a", None, (0o644, TEXT)) + fifo + as_patch(b"b", None, (0o644, b"x")) + fifo
        assert git_apply(folder, text).returncode == 0
        assert got(folder, b"a") == (0o644, TEXT)
        assert got(folder, b"b") == (0o644, b"x")


def test_a_file_that_became_a_fifo_is_deleted_and_says_so() -> None:
    change = Change(Key(0, b"x"), Kind.RETYPED, Entry(FileType.FILE), Entry(FileType.FIFO))
    text = patch(change, b"x", b"a\n", None)
    assert text.startswith(b"# x: retyped fifo; git has no words for it\ndiff --git a/x b/x\ndeleted file mode 100644\n")


def test_binary_files_are_named_as_git_names_them() -> None:
    assert as_patch(b"x y", (0o644, b"\0a"), (0o644, b"\0b")) == b"diff --git a/x y b/x y\nBinary files a/x y and b/x y differ\n"
    assert as_patch(b"x", None, (0o644, b"\0b")).endswith(b"Binary files /dev/null and b/x differ\n")


def test_a_file_too_large_to_read_is_only_named() -> None:
    large = Entry(FileType.FILE, size=1 << 30)
    text = patch(Change(Key(0, b"x"), Kind.EDITED, large, large), b"x", None, None)
    assert text == b"diff --git a/x b/x\nBinary files a/x and b/x differ\n"


def test_a_mode_alone_needs_no_bytes() -> None:
    change = Change(Key(0, b"x"), Kind.METADATA, Entry(FileType.FILE, mode=0o644), Entry(FileType.FILE, mode=0o755))
    assert patch(change, b"x", None, None) == b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"


def test_a_name_with_a_blank_ends_in_a_tab_as_git_writes_it() -> None:
    assert b"--- a/x y\t\n+++ b/x y\t\n" in as_patch(b"x y", (0o644, b"a\n"), (0o644, b"b\n"))
