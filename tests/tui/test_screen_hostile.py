"""Hostile names and contents on the review screen never reach the terminal raw."""

import time
import unicodedata
from typing import TYPE_CHECKING

import pytest
from textual.pilot import Pilot

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Risk
from tests.tui.screen_player import FILE, FakeSession, edited, run_keys, screen_rows, text_after_keys, wait_until_idle
from tui.app import ReviewApp
from tui.model.tabs import Tab
from tui.model.tabs import TabEntry as Row

if TYPE_CHECKING:
    from tui.source import ContentPair

NASTY = [
    b"\x1b]0;owned\x07",
    b"\x1b[2J\x1b[31mred",
    b"a\rb\nc\x08d",
    "\x9b31mcsi".encode(),
    b"\x9b31mraw",
    "\u202etxt.exe".encode(),
    "zero\u200b\u200dwidth\ufeff".encode(),
    b"[bold red]evil[/]",
    b"app/[...slug]/[/x].py",
    b"caf\xe9\xff",
    ("e" + "\u0301" * 300).encode(),
    "\u0301first".encode(),
    ("中" * 200).encode(),
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f3fd\U0001f1e9\U0001f1ea".encode(),
    b"n" * 4096,
    b"\x1b]52;c;aGVsbG8=\x07",
    b"\x1b]8;;http://evil\x1b\\x",
    b"tab\there",
    "\u0915\u093e\ue0b0".encode(),
]


def hostile() -> FakeSession:
    """Return changes in which every text is hostile."""
    some = []
    contents: dict[bytes, ContentPair] = {}
    for number, nasty in enumerate(NASTY):
        path = b"%02d" % number + nasty
        hostile_text = nasty.decode("utf-8", "surrogateescape")
        entry = Entry(FileType.SYMLINK, target=nasty) if number % 5 == 4 else FILE
        risks = (Risk(hostile_text, hostile_text),) if number % 3 == 0 else ()
        conflict = hostile_text if number % 7 == 6 else None
        some.append(Change(Key(0, path), ChangeKind.EDITED, entry, entry, risks=risks, conflict=conflict))
        contents[path] = (b"same\n" + nasty, b"same\n" + b"x" + nasty + b"\n" + nasty * 50)
    made = FakeSession(*some, contents=contents)
    title = NASTY[1].decode("latin-1")
    made.changes = ChangeSet(tuple(some), (title,))
    made.session, made.root, made.roots = title, title, (title,)
    made.command, made.tabs = (title,), {Tab.COMMITS: (Row(title, (title,), key=None),)}
    return made


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (140, 40)])
@pytest.mark.slow
def test_no_hostile_text_reaches_the_terminal_raw(size: tuple[int, int]) -> None:
    def check(app: ReviewApp) -> None:
        rows = screen_rows(app)
        for strip in rows:
            for segment in strip:
                assert segment.control is None
                bad = [one for one in segment.text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")]
                assert not bad, (segment.text, bad)
        assert [strip.cell_length for strip in rows] == [size[0]] * size[1]

    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        check(pilot.app)
        for _ in NASTY:
            await pilot.press("enter", "end")
            await wait_until_idle(pilot)
            check(pilot.app)
            await pilot.press("space", "escape", "n")
        for key in (
            "c",
            "end",
            "escape",
            "q",
            "escape",
            "question_mark",
            "escape",
            "s",
            "w",
            "z",
            "t",
            "2",
            "1",
            "slash",
            *"red",
        ):
            await pilot.press(key)
            await wait_until_idle(pilot)
            check(pilot.app)

    run_keys(hostile(), size, "home", scene=scene)


def test_a_hostile_name_is_visible() -> None:
    shown = text_after_keys(FakeSession(edited(b"\x1b[31mred\n"), edited("\u202etxt".encode())), (80, 24))
    assert "␛[31mred␊" in shown
    assert "<U+202E>txt" in shown


def test_a_line_as_long_as_a_file_is_cut_and_scrolls() -> None:
    line = b"0123456789" * 160_000
    made = FakeSession(edited(b"bundle.js"), contents={b"bundle.js": (line, line + b"end")})
    start = time.process_time()
    shown = text_after_keys(made, (120, 30), "enter", *["L"] * 3)
    assert "4567890123" in shown
    assert time.process_time() - start < 10  # reading the whole line at every key takes minutes
