"""Contents on the review screen: unreadable, slow, of every kind, and very many."""

import asyncio
import threading
import time

import pytest

from agent_dev.errors import CannotMerge
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from tests.tui.screen_player import FILE, FakeSession, edited, screen_text, text_after_keys, wait_until_idle
from tui.app import ReviewApp
from tui.model.tabs import Tab
from tui.model.tabs import TabEntry as Row
from tui.source import ContentPair

# Reading


def test_unreadable_content_is_reported_in_the_diff() -> None:
    class Broken(FakeSession):
        def read_content(self, key: Key) -> ContentPair:
            if key.path == b"a":
                raise CannotMerge(path="a", reason="it is gone")
            raise PermissionError(13, "Permission denied")

    assert "✗ cannot be read: a: it is gone" in text_after_keys(Broken(edited(b"a"), edited(b"b")), (120, 20))
    assert "✗ cannot be read: Permission denied" in text_after_keys(Broken(edited(b"a"), edited(b"b")), (120, 20), "j")


@pytest.mark.parametrize("path", [b"c.txt", b"sub/deep/c.txt"])
def test_a_long_reason_does_not_cut_a_name(path: bytes) -> None:
    reason = "the agent's commit brings it under this name, yours under another, and neither can be told from the other"
    first = text_after_keys(FakeSession(edited(path, conflict=reason), edited(b"else")), (80, 24)).splitlines()[3]
    assert path.decode() in first
    assert "the agent's commit brings" in first


def test_a_slow_read_blocks_no_key_and_only_the_last_is_shown() -> None:
    gate, asked = threading.Event(), list[bytes]()

    class Slow(FakeSession):
        def read_content(self, key: Key) -> ContentPair:
            asked.append(key.path)
            assert gate.wait(10)
            return b"old\n", key.path + b" is here\n"

    app = ReviewApp(Slow(*(edited(b"%02d" % number) for number in range(30))))

    async def run() -> None:
        async with app.run_test(size=(120, 40)) as pilot:
            while app.is_before_first_paint:
                await pilot.pause()
            await pilot.press(*["j"] * 20)
            assert app.state.cursor == 21
            gate.set()
            await wait_until_idle(pilot)
            assert "20 is here" in screen_text(app)

    asyncio.run(run())
    assert asked == [b"00", b"20"]


@pytest.mark.parametrize(
    ("change", "content", "expected"),
    [
        (
            Change(Key(0, b"x"), ChangeKind.METADATA, FILE, Entry(FileType.FILE, mode=0o755)),
            (b"a", b"a"),
            "100644 → 100755: made executable",
        ),
        (
            Change(Key(0, b"x"), ChangeKind.EDITED, FILE, Entry(FileType.FILE, mode=0o4755)),
            (b"a", b"b"),
            "runs as its owner (setuid)",
        ),
        (Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.SYMLINK)), (None, b"../up"), "+ ../up"),
        (
            Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.FILE, size=4096)),
            (None, b"a\0"),
            "binary · 2 bytes · sha256 ",
        ),
        (Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.FILE)), (None, b"one line\0\ntwo\n"), "1 + one line␀"),
        (Change(Key(0, b"x"), ChangeKind.EDITED, FILE, FILE), (b"one line\ntwo\n", b"one line\nevil\n\0"), "2 + evil"),
        (Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.FILE)), (None, b""), "empty file"),
        (Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.FILE)), (None, b"one\ntwo"), "2 + two"),
        (Change(Key(0, b"x"), ChangeKind.DELETED, FILE, None), (b"one\ntwo\n", None), "1 - one"),
        (Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.FILE)), (None, b"one"), "\\ No newline at end of file"),
        (Change(Key(0, b"x"), ChangeKind.EDITED, FILE, FILE), (None, b"one"), "the base version is not known"),
        (
            Change(Key(0, b"x"), ChangeKind.EDITED, FILE, Entry(FileType.FILE, size=30 << 20)),
            (b"a", None),
            "larger than 20 MB: no diff",
        ),
        (Change(Key(0, b"x"), ChangeKind.ADDED, None, FILE), (None, b"\n" * 500_001), "more than 500,000 lines: no diff"),
        (
            Change(Key(0, b"x"), ChangeKind.ADDED, None, Entry(FileType.DIRECTORY, mode=0o755)),
            (None, None),
            "new empty directory",
        ),
        (
            Change(Key(0, b"x"), ChangeKind.RETYPED, Entry(FileType.DIRECTORY), FILE),
            (None, b"a"),
            "type changed: directory → file",
        ),
        (
            Change(Key(0, b"x"), ChangeKind.METADATA, FILE, Entry(FileType.FILE, attributes=(("user.a", b""),))),
            (b"", b""),
            "attribute user.a: new",
        ),
        (
            Change(Key(0, b"x"), ChangeKind.EDITED, FILE, FILE, requires=(Key(0, b"y"),)),
            (b"", b"a"),
            "requires y",
        ),
    ],
)
def test_every_kind_of_change_is_described(change: Change, content: ContentPair, expected: str) -> None:
    assert expected in text_after_keys(FakeSession(change, contents={b"x": content}), (120, 20))


def test_a_path_of_another_root_is_shown_in_full() -> None:
    made = FakeSession(edited(b"here"), Change(Key(1, b"lib/there"), ChangeKind.EDITED, FILE, FILE))
    made.roots = ("/src", "/other")
    shown = text_after_keys(made, (120, 20), "n")
    assert "/other/lib/" in shown
    assert "/other/lib/there" in shown


# Many


def test_ten_thousand_rows_need_no_widget_each_and_scroll_to_the_end() -> None:
    made = FakeSession(*(edited(b"src/%05d.py" % number) for number in range(10_000)))
    start = time.process_time()
    shown = text_after_keys(made, (100, 30), "end")
    assert "09999.py" in shown
    assert time.process_time() - start < 20  # one widget for each row takes far longer


def test_a_diff_of_a_hundred_thousand_lines_scrolls_to_the_end() -> None:
    lines = b"".join(b"%d\n" % number for number in range(100_000))
    made = FakeSession(Change(Key(0, b"big"), ChangeKind.ADDED, None, FILE), contents={b"big": (None, lines)})
    assert "100000 + 99999" in text_after_keys(made, (100, 30), "enter", "end")


@pytest.mark.parametrize(("ids", "title"), [(("a1", "", ""), "Commits 1"), (("", ""), "Commits 2")])
def test_a_tab_shows_the_number_of_commits(ids: tuple[str, ...], title: str) -> None:
    made = FakeSession(edited(b"a"))
    made.tabs = {Tab.COMMITS: tuple(Row(f"row {number}", id=one) for number, one in enumerate(ids))}
    assert text_after_keys(made, (80, 24)).splitlines()[1].endswith(title)


def test_the_title_of_a_commit_counts_only_commits() -> None:
    some = FakeSession(edited(b"a"))
    others = tuple(Row(f"other {number}") for number in range(18))
    some.tabs = {Tab.COMMITS: (Row("2f8c1d0e6b Take discounts off", id="2f8c1d0e6b"), *others)}
    assert text_after_keys(some, (80, 24), "2", "enter").splitlines()[1].strip() == "Commits 1 of 1"
    assert text_after_keys(some, (80, 24), "2", "j", "enter").splitlines()[1].strip() == "Commits: more"


def test_a_tab_without_content_is_not_offered() -> None:
    assert "network" not in text_after_keys(FakeSession(edited(b"a")), (80, 80), "question_mark")
    assert " no connections" in text_after_keys(FakeSession(edited(b"a")), (80, 24), "5")
