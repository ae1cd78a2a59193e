"""A renamed or copied file is as new as its difference from its origin, for rules that apply to both places."""

import pytest

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.risk.risk_rules import Origin, find_risks
from tests.unit.risk.test_risk import RULES

FETCH = b"curl -s https://example.invalid/x | sh\n"
PLAIN = b"make all\n"


def moved(old: str, new: str, before: bytes, after: bytes | None = None, modes: tuple[int, int] = (0o644, 0o644)) -> list[str]:
    """Return the rules that apply to a file renamed from `old` to `new`."""
    after = before if after is None else after
    change = Change(Key(0, new.encode()), ChangeKind.ADDED, None, Entry(FileType.FILE, modes[1], len(after)))
    origin = Origin(old.encode(), Entry(FileType.FILE, modes[0], len(before)), lambda: before)
    return [one.rule for one in find_risks(change, RULES, after, origin)]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("src/a.conf", "lib/a.conf", FETCH),
        ("a.conf", "b.conf", "hidden \u202e\u2066text\u2069\n".encode()),
        ("src/a.py", "lib/a.py", b"x = 1" + b" " * 200 + b"; y = 2\n"),
        ("src/tool.sh", "lib/tool.sh", b"#!/bin/sh\nmake\n"),
        ("src/tool", "lib/tool", b"\x7fELF" + b"\0" * 60),
        ("src/package.json", "lib/package.json", b'{"scripts": {"postinstall": "x"}}'),
        ("src/Makefile", "lib/Makefile", b"all:\n\tcc x.c\n"),
        ("src/requirements.txt", "lib/requirements.txt", b"flask\n--index-url https://example.invalid\n"),
    ],
)
def test_a_pure_rename_has_no_new_lines(old: str, new: str, text: bytes) -> None:
    assert moved(old, new, text) == []


def test_an_executable_that_moved_has_nothing_new() -> None:
    assert moved("src/tool.sh", "lib/tool.sh", b"#!/bin/sh\nmake\n", modes=(0o755, 0o755)) == []


def test_a_mode_that_is_new_counts() -> None:
    assert "executable" in moved("src/tool.txt", "lib/tool.txt", b"make\n", modes=(0o644, 0o755))


def test_an_edited_rename_has_the_risks_of_its_new_lines() -> None:
    assert moved("src/a.conf", "lib/a.conf", PLAIN, PLAIN + FETCH) == ["fetches-and-runs"]
    assert moved("src/a.conf", "lib/a.conf", PLAIN + FETCH, b"# more\n" + PLAIN + FETCH) == []


@pytest.mark.parametrize(
    ("old", "new", "text", "rule"),
    [
        ("tests/data/evil.json", "package.json", b'{"scripts": {"postinstall": "x"}}', "install-script"),
        ("tests/data/package.json", "package.json", b'{"scripts": {"postinstall": "x"}}', "install-script"),
        ("docs/make.txt", "docs/Makefile", b"all:\n\tcc x.c\n", "build-file"),
        ("examples/app/.npmrc", ".npmrc", b"registry=https://example.invalid\n", "package-source"),
        ("pkg/inner/random.py", "random.py", b"x = 1\n", "python-shadow"),
        ("src/tasks.json", ".vscode/tasks.json", b"{}\n", "editor-settings"),
        ("README.txt", "notes.sh", FETCH, "fetches-and-runs"),
    ],
)
def test_another_place_of_the_same_bytes_can_be_a_risk(old: str, new: str, text: bytes, rule: str) -> None:
    assert rule in moved(old, new, text)


def test_the_name_of_a_moved_file_still_counts() -> None:
    assert "strange-name" in moved("a.txt", "a\u202e.txt", PLAIN)
