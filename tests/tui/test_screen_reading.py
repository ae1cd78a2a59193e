"""What the merge screen shows of contents: unreadable, slow, of every kind, and very many."""

import asyncio
import threading
import time

import pytest

from agent_dev.errors import CannotMerge
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind
from tests.tui.playing import FILE, Made, drawn, edited, quiet, text
from tui.app import ReviewApp
from tui.model.tabs import Entry as Row
from tui.model.tabs import Tab
from tui.source import Content

# Reading


def test_what_cannot_be_read_is_said_in_its_place() -> None:
    class Broken(Made):
        def content(self, key: Key) -> Content:
            if key.path == b"a":
                raise CannotMerge(path="a", reason="it is gone")
            raise PermissionError(13, "Permission denied")

    assert "✗ cannot be read: a: it is gone" in drawn(Broken(edited(b"a"), edited(b"b")), (120, 20))
    assert "✗ cannot be read: Permission denied" in drawn(Broken(edited(b"a"), edited(b"b")), (120, 20), "j")


@pytest.mark.parametrize("path", [b"c.txt", b"sub/deep/c.txt"])
def test_a_long_reason_leaves_a_name_whole(path: bytes) -> None:
    reason = "the agent's commit brings it under this name, yours under another, and neither can be told from the other"
    first = drawn(Made(edited(path, conflict=reason), edited(b"else")), (80, 24)).splitlines()[3]
    assert path.decode() in first
    assert "the agent's commit brings" in first


def test_a_slow_read_blocks_no_key_and_only_the_last_is_shown() -> None:
    gate, asked = threading.Event(), list[bytes]()

    class Slow(Made):
        def content(self, key: Key) -> Content:
            asked.append(key.path)
            assert gate.wait(10)
            return b"old\n", key.path + b" is here\n"

    app = ReviewApp(Slow(*(edited(b"%02d" % number) for number in range(30))))

    async def run() -> None:
        async with app.run_test(size=(120, 40)) as pilot:
            while app.is_deaf:
                await pilot.pause()
            await pilot.press(*["j"] * 20)
            assert app.state.cursor == 21
            gate.set()
            await quiet(pilot)
            assert "20 is here" in text(app)

    asyncio.run(run())
    assert asked == [b"00", b"20"]


@pytest.mark.parametrize(
    ("change", "content", "expected"),
    [
        (
            Change(Key(0, b"x"), Kind.METADATA, FILE, Entry(FileType.FILE, mode=0o755)),
            (b"a", b"a"),
            "100644 → 100755: made executable",
        ),
        (
            Change(Key(0, b"x"), Kind.EDITED, FILE, Entry(FileType.FILE, mode=0o4755)),
            (b"a", b"b"),
            "runs as its owner (setuid)",
        ),
        (Change(Key(0, b"x"), Kind.ADDED, None, Entry(FileType.SYMLINK)), (None, b"../up"), "+ ../up"),
        (Change(Key(0, b"x"), Kind.ADDED, None, Entry(FileType.FILE, size=4096)), (None, b"a\0"), "binary · 2 bytes · sha256 "),
        (Change(Key(0, b"x"), Kind.ADDED, None, Entry(FileType.FILE)), (None, b""), "an empty file"),
        (Change(Key(0, b"x"), Kind.ADDED, None, Entry(FileType.FILE)), (None, b"one\ntwo"), "2 + two"),
        (Change(Key(0, b"x"), Kind.DELETED, FILE, None), (b"one\ntwo\n", None), "1 - one"),
        (Change(Key(0, b"x"), Kind.ADDED, None, Entry(FileType.FILE)), (None, b"one"), "\\ no newline at the end"),
        (Change(Key(0, b"x"), Kind.EDITED, FILE, FILE), (None, b"one"), "what stood here before is not known"),
        (
            Change(Key(0, b"x"), Kind.EDITED, FILE, Entry(FileType.FILE, size=30 << 20)),
            (b"a", None),
            "past 20 MB a file is one choice",
        ),
        (
            Change(Key(0, b"x"), Kind.ADDED, None, Entry(FileType.DIRECTORY, mode=0o755)),
            (None, None),
            "new empty directory",
        ),
        (Change(Key(0, b"x"), Kind.RETYPED, Entry(FileType.DIRECTORY), FILE), (None, b"a"), "directory became a file"),
        (
            Change(Key(0, b"x"), Kind.METADATA, FILE, Entry(FileType.FILE, attributes=(("user.a", b""),))),
            (b"", b""),
            "attribute user.a: new",
        ),
        (
            Change(Key(0, b"x"), Kind.EDITED, FILE, FILE, requires=(Key(0, b"y"),)),
            (b"", b"a"),
            "is taken together with y",
        ),
    ],
)
def test_every_change_is_shown_for_what_it_is(change: Change, content: Content, expected: str) -> None:
    assert expected in drawn(Made(change, contents={b"x": content}), (120, 20))


def test_a_path_of_another_root_is_shown_in_full() -> None:
    made = Made(edited(b"here"), Change(Key(1, b"lib/there"), Kind.EDITED, FILE, FILE))
    made.roots = ("/src", "/other")
    shown = drawn(made, (120, 20), "n")
    assert "/other/lib/" in shown
    assert "/other/lib/there" in shown


# Many


def test_ten_thousand_rows_are_there_at_once_and_every_end_is_reached() -> None:
    made = Made(*(edited(b"src/%05d.py" % number) for number in range(10_000)))
    start = time.monotonic()
    shown = drawn(made, (100, 30), "end")
    assert "09999.py" in shown
    assert time.monotonic() - start < 5  # one widget for each row takes far longer


def test_a_diff_of_a_hundred_thousand_lines_is_walked_to_its_end() -> None:
    lines = b"".join(b"%d\n" % number for number in range(100_000))
    made = Made(Change(Key(0, b"big"), Kind.ADDED, None, FILE), contents={b"big": (None, lines)})
    assert "100000 + 99999" in drawn(made, (100, 30), "enter", "end")


@pytest.mark.parametrize(("ids", "said"), [(("a1", "", ""), "commits 1"), (("", ""), "commits 2")])
def test_a_tab_tells_how_many_commits_there_are(ids: tuple[str, ...], said: str) -> None:
    made = Made(edited(b"a"))
    made.tabs = {Tab.COMMITS: tuple(Row(f"row {number}", id=one) for number, one in enumerate(ids))}
    assert drawn(made, (80, 24)).splitlines()[1].endswith(said)


def test_the_title_of_a_commit_counts_commits_and_no_other_rows() -> None:
    some = Made(edited(b"a"))
    others = tuple(Row(f"beside {number}") for number in range(18))
    some.tabs = {Tab.COMMITS: (Row("2f8c1d0e6b Take discounts off", id="2f8c1d0e6b"), *others)}
    assert drawn(some, (80, 24), "2", "enter").splitlines()[1].strip() == "commits 1 of 1"
    assert drawn(some, (80, 24), "2", "j", "enter").splitlines()[1].strip() == "beside the commits"


def test_a_tab_that_can_never_hold_anything_is_not_offered() -> None:
    assert "network" not in drawn(Made(edited(b"a")), (80, 80), "question_mark")
    assert "there are no" not in drawn(Made(edited(b"a")), (80, 24), "5")
