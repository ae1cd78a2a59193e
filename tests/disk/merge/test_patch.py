"""Git applies a change's patch and gets the agent's version."""

import os
import stat
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.patch_write import DISPLAY_FORMAT, change_patch, omitted_part, quote_path

File = tuple[int, bytes]  # git's mode, and the content or link target
LINK = 0o120000


def entry(one: File | None) -> Entry | None:
    """Return the entry that a scan would find."""
    if one is None:
        return None
    mode, data = one
    if mode == LINK:
        return Entry(FileType.SYMLINK, target=data)
    return Entry(FileType.FILE, mode=mode, size=len(data))


def as_patch(path: bytes, before: File | None, after: File | None) -> bytes:
    """Return the patch between two states of one path."""
    old, new = entry(before), entry(after)
    kind = (
        ChangeKind.ADDED
        if old is None
        else ChangeKind.DELETED
        if new is None
        else ChangeKind.RETYPED
        if old.type != new.type
        else ChangeKind.EDITED
    )
    if before and after and kind is ChangeKind.EDITED and before[1] == after[1]:
        kind = ChangeKind.METADATA
    return change_patch(Change(Key(0, path), kind, old, new), path, before and before[1], after and after[1])


def put(folder: bytes, path: bytes, one: File | None) -> None:
    """Create a file or a link."""
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
    """Return the file or link at a path, with git's mode."""
    full = folder + b"/" + path
    if os.path.islink(full):
        return LINK, os.readlink(full)
    if not os.path.lexists(full):
        return None
    is_executable = os.lstat(full).st_mode & stat.S_IXUSR
    return 0o755 if is_executable else 0o644, Path(os.fsdecode(full)).read_bytes()


def git_apply(folder: bytes, text: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run `git apply` outside of any repository, without configuration."""
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
    """Apply the patch to the old state; return the resulting file or link."""
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
    "a binary edit": ((0o644, b"\0a" * 99), (0o755, b"\0b" + bytes(range(256)) * 40)),
    "a new binary": (None, (0o644, b"\0")),
    "a deleted binary": ((0o644, b"\0"), None),
    "a binary emptied": ((0o644, b"\0"), (0o644, b"")),
    "escapes": ((0o644, b"a\n"), (0o644, b"\x1b[2Ja\n")),
    "a link with an escape": ((LINK, b"\x1b[2J"), (LINK, b"\xc2\x9b")),
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
def test_git_applies_changes_of_files_with_unusual_names(name: bytes, case: str) -> None:
    before, after = CASES[case]
    assert applied(name, before, after) == after


PIECES = [b"a\n", b"b\n", b"c\r\n", b"\n", b"\r", b" \n", b"-x\n", b"+\n", b"\\ No newline\n", b"\xff\n", b"end"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join)


@settings(max_examples=60)
@given(TEXTS, TEXTS)
def test_git_applies_any_edit(before: bytes, after: bytes) -> None:
    assume(before != after)
    assert applied(b"f", (0o644, before), (0o644, after)) == (0o644, after)


def test_patches_of_many_changes_apply_together() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = os.fsencode(name)
        states = {b"d%d/f" % number: CASES[case] for number, case in enumerate(CASES)}
        for path, (before, _) in states.items():
            put(folder, path, before)
        whole = b"".join(as_patch(path, before, after) for path, (before, after) in states.items())
        done = git_apply(folder, whole)
        assert done.returncode == 0, done.stderr
        assert {path: got(folder, path) for path in states} == {path: after for path, (_, after) in states.items()}


def test_a_directory_replaced_by_a_file_applies() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = os.fsencode(name)
        put(folder, b"d/inside", (0o644, TEXT))
        retyped = Change(Key(0, b"d"), ChangeKind.RETYPED, Entry(FileType.DIRECTORY, mode=0o755), Entry(FileType.FILE))
        text = change_patch(retyped, b"d", None, TEXT) + as_patch(b"d/inside", (0o644, TEXT), None)
        assert git_apply(folder, text).returncode == 0
        assert got(folder, b"d") == (0o644, TEXT)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change(Key(0, b"x\n"), ChangeKind.ADDED, None, Entry(FileType.FIFO)), "added fifo"),
        (Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.DIRECTORY)), "added dir"),
        (Change(Key(0, b"x"), ChangeKind.METADATA, entry((0o644, b"")), entry((0o600, b""))), "mode changed from 0644 to 0600"),
        (
            Change(Key(0, b"x"), ChangeKind.METADATA, Entry(FileType.FILE), Entry(FileType.FILE, attributes=(("user.a", b"1"),))),
            "attributes",
        ),
        (
            Change(Key(0, b"x"), ChangeKind.EDITED, entry((0o644, b"1")), entry((0o644, b"2"))),
            "its content is too large or unknown",
        ),
        (Change(Key(0, b"d/.Git"), ChangeKind.ADDED, None, Entry(FileType.FILE)), "git refuses this path"),
        (Change(Key(0, b"git~1 ./x"), ChangeKind.ADDED, None, Entry(FileType.FILE)), "git refuses this path"),
        (Change(Key(0, b".gitmodules"), ChangeKind.ADDED, None, Entry(FileType.SYMLINK)), "git refuses this path"),
    ],
)
def test_changes_that_git_cannot_express_are_reported_and_left_out(change: Change, expected: str) -> None:
    assert change_patch(change, change.key.path, None, None) == b""
    assert omitted_part(change, change.key.path, None, None) == expected


@pytest.mark.parametrize("name", [b".git", b"a/.git/b", b".GIT", b"git~1", b".git .", b"a\\.git", b".git:x"])
def test_names_that_git_refuses_are_not_in_the_patch(name: bytes) -> None:
    change = Change(Key(0, name), ChangeKind.ADDED, None, Entry(FileType.FILE, size=1))
    assert change_patch(change, name, None, b"x") == b""
    with tempfile.TemporaryDirectory() as folder:
        text = change_patch(replace(change, key=Key(0, b"x")), b"x", None, b"x")
        for old in (b"a/x", b"b/x"):
            text = text.replace(old, quote_path(old[:2] + name))
        assert git_apply(os.fsencode(folder), text).returncode != 0


@pytest.mark.parametrize("name", [b".gitignore", b"x.git", b".git2", b"git~10", b"a.git/x", b".gitx\\x y", b".gitmodules"])
def test_names_that_git_accepts_are_in_the_patch(name: bytes) -> None:
    assert applied(name, None, (0o644, b"x")) == (0o644, b"x")


def test_a_file_replaced_by_a_fifo_is_deleted_with_a_note() -> None:
    change = Change(Key(0, b"x"), ChangeKind.RETYPED, Entry(FileType.FILE), Entry(FileType.FIFO))
    assert change_patch(change, b"x", b"a\n", None).startswith(b"diff --git a/x b/x\ndeleted file mode 100644\n")
    assert omitted_part(change, b"x", b"a\n", None) == "retyped fifo"


def test_on_a_terminal_binary_files_are_named_as_git_does() -> None:
    change = Change(Key(0, b"x y"), ChangeKind.EDITED, entry((0o644, b"\0a")), entry((0o644, b"\0b")))
    text = change_patch(change, b"x y", b"\0a", b"\0b", DISPLAY_FORMAT)
    assert text.endswith(b"\nBinary files a/x y and b/x y differ\n")
    new = Change(Key(0, b"x"), ChangeKind.ADDED, None, entry((0o644, b"\0b")))
    assert change_patch(new, b"x", None, b"\0b", DISPLAY_FORMAT).endswith(b"Binary files /dev/null and b/x differ\n")


def test_on_a_terminal_an_oversized_file_is_named() -> None:
    large = Entry(FileType.FILE, size=1 << 40)
    text = change_patch(Change(Key(0, b"x"), ChangeKind.EDITED, large, large), b"x", None, None, DISPLAY_FORMAT)
    assert text == b"diff --git a/x b/x\nBinary files a/x and b/x differ\n"


def test_a_mode_change_alone_needs_no_bytes() -> None:
    change = Change(Key(0, b"x"), ChangeKind.METADATA, Entry(FileType.FILE, mode=0o644), Entry(FileType.FILE, mode=0o755))
    assert change_patch(change, b"x", None, None) == b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"


def test_a_name_with_a_space_ends_in_a_tab_as_in_git() -> None:
    assert b"--- a/x y\t\n+++ b/x y\t\n" in as_patch(b"x y", (0o644, b"a\n"), (0o644, b"b\n"))
