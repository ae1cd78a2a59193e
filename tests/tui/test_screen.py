"""The merge screen as it is drawn, in memory: text goldens, hostile names and contents, clicks, many rows.

`AGENT_DEV_GOLDEN=write pytest tests/tui` draws the goldens anew.
"""

import asyncio
import os
import threading
import time
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from textual.events import Key as KeyEvent
from textual.pilot import Pilot
from textual.strip import Strip

from agent_dev.core.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk
from agent_dev.core.threeway import Merged
from agent_dev.errors import CannotMerge
from tui.app import ReviewApp
from tui.entries import Entry as Row
from tui.entries import Tab
from tui.events import Pane
from tui.gallery import Sample
from tui.source import Content, Source
from tui.state import Face
from tui.widgets.change_list import ChangeList
from tui.widgets.diff_view import DiffView

GOLDEN = Path(__file__).parent / "golden"
FILE = Entry(FileType.FILE, size=10)

SAFE = ("n",) * 4  # from the first change to README.md, which is safe

Scene = Callable[[Pilot[None]], Awaitable[None]]


class Made(Sample):
    """A session made for a test; `contents` by path, a stranger's content is an edit of one line."""

    session = "test"
    root = "/src"
    roots: tuple[str, ...] = ("/src",)
    command: tuple[str, ...] = ("agent",)
    tabs: Mapping[Tab, tuple[Row, ...]] = {}

    def __init__(self, *changes: Change, contents: dict[bytes, Content] | None = None) -> None:
        super().__init__()
        self.changes = ChangeSet(changes)
        self._contents = contents or {}

    def content(self, key: Key) -> Content:
        """Return what a test has put there."""
        return self._contents.get(key.path, (b"old\n", b"new\n"))

    def merged(self, _key: Key) -> Merged | None:
        """Return no merge of lines."""
        return None


def edited(path: bytes, **more: object) -> Change:
    """Return an edit."""
    return Change(Key(0, path), Kind.EDITED, FILE, FILE, **more)  # type: ignore[arg-type]


def strips(app: ReviewApp) -> list[Strip]:
    """Return the rows of the screen as they go to the terminal."""
    return app.screen._compositor.render_strips()  # there is no public way to the text


def text(app: ReviewApp) -> str:
    """Return the screen as text."""
    return "\n".join(strip.text.rstrip() for strip in strips(app)) + "\n"


async def quiet(pilot: Pilot[None]) -> None:
    """Wait until everything is read and drawn."""
    assert isinstance(pilot.app, ReviewApp)
    while pilot.app.is_deaf:
        await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def play(source: Source, size: tuple[int, int], *keys: str, scene: Scene | None = None) -> ReviewApp:
    """Press keys on a screen, then look at it in `scene`."""
    app = ReviewApp(source)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await quiet(pilot)
            for key in keys:
                await pilot.press(key)
            await quiet(pilot)
            if scene:
                await scene(pilot)

    asyncio.run(run())
    return app


def drawn(source: Source, size: tuple[int, int], *keys: str) -> str:
    """Return the screen as text after keys."""
    found = []

    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        found.append(text(pilot.app))

    play(source, size, *keys, scene=scene)
    return found[0]


# Goldens

TO_BASKET = ("A", *["n"] * 7)
SCENES = {
    "list-80x24": ((80, 24), ("A",)),
    "list-60x15": ((60, 15), ("A",)),
    "both-120x40": ((120, 40), TO_BASKET),
    "both-200x50": ((200, 50), TO_BASKET),
    "diff-80x24": ((80, 24), (*TO_BASKET, "enter", "right_square_bracket")),
    "diff-60x15": ((60, 15), (*TO_BASKET, "enter")),
    "summary-80x24": ((80, 24), ("A", "n", "space", "c", "y")),
    "summary-60x15": ((60, 15), ("A", "c")),
    "summary-120x40": ((120, 40), ("A", "n", "space", "c", "y", "tab")),
    "leave-80x24": ((80, 24), ("A", "q")),
    "help-80x24": ((80, 24), ("question_mark",)),
    "ignored-100x30": ((100, 30), ("end", "l")),
    "tiny-30x8": ((30, 8), ("A",)),
    "split-120x40": ((120, 40), (*TO_BASKET, "s", "enter")),
    "block-120x40": ((120, 40), ("X", *TO_BASKET[1:], "enter", "enter", "right_square_bracket", "a", "j", "space")),
    "conflict-120x40": ((120, 40), ("n", "n", "enter", "greater_than_sign")),
    "conflict-80x24": ((80, 24), ("n", "n", "enter")),
    "risk-80x24": ((80, 24), ("space", "c")),
    "result-80x24": ((80, 24), ("A", "c", "y")),
    "palette-80x24": ((80, 24), ("colon", "c", "o", "n", "f")),
    "tree-80x24": ((80, 24), ("t",)),
    "commits-100x30": ((100, 30), ("2", "space")),
    "bring-80x24": ((80, 24), ("2", "A", "c", "y", "right")),
    "bring-60x15": ((60, 15), ("2", "space", "c", "y")),
    "bring-risk-80x24": ((80, 24), ("2", "A", "c")),
    "whole-120x40": ((120, 40), (*TO_BASKET, "z", "w")),
}


@pytest.mark.parametrize("name", SCENES)
def test_the_screen_looks_as_it_did(name: str) -> None:
    size, keys = SCENES[name]
    shown = drawn(Sample(), size, *keys)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("AGENT_DEV_GOLDEN") == "write":
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCENES)
def test_every_row_is_as_wide_as_the_terminal(name: str) -> None:
    size, keys = SCENES[name]

    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        assert [strip.cell_length for strip in strips(pilot.app)] == [size[0]] * size[1]

    play(Sample(), size, *keys, scene=scene)


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40)])
@pytest.mark.parametrize("pane", [(), ("enter",)])
def test_the_footer_always_shows_how_to_apply_and_how_to_leave(size: tuple[int, int], pane: tuple[str, ...]) -> None:
    footer = drawn(Sample(), size, *pane).splitlines()[-1]
    assert footer.startswith(" c apply  q leave  ? help")


def test_a_resize_at_any_moment_is_drawn() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        for size in ((60, 15), (200, 50), (99, 20), (100, 20)):
            await pilot.resize_terminal(*size)
            await quiet(pilot)
            assert [strip.cell_length for strip in strips(pilot.app)] == [size[0]] * size[1]
            assert " c apply" in text(pilot.app).splitlines()[-1]

    play(Sample(), (120, 40), "enter", scene=scene)


# Leaving


def merged(app: ReviewApp) -> set[bytes]:
    """Return what was given to the merge."""
    source = app._source
    assert isinstance(source, Sample)
    return {key.path for selection in source.merges for key in selection.keys}


def test_apply_needs_two_keys_and_merges_the_selection() -> None:
    app = play(Sample(), (80, 24), *SAFE, "space", "c", "y")
    assert merged(app) == {b"README.md"}
    assert app.state.face is Face.RESULT


@pytest.mark.parametrize("keys", [("c",), ("c", "c"), ("c", "enter"), ("ctrl+s", "escape"), ("c", "q"), ("c", "space")])
def test_no_other_second_key_applies(keys: tuple[str, ...]) -> None:
    assert merged(play(Sample(), (80, 24), *SAFE, "space", *keys)) == set()


def test_yes_can_be_chosen_by_arrow_and_enter() -> None:
    assert merged(play(Sample(), (80, 24), *SAFE, "space", "c", "right", "enter"))


def test_a_risky_change_wants_a_yes_of_its_own() -> None:
    assert merged(play(Sample(), (80, 24), "space", "c", "y", "y")) == {b".github/workflows/release.yml"}
    assert merged(play(Sample(), (80, 24), "space", "c", "n", "y")) == set()


@pytest.mark.parametrize("keys", [("q",), ("escape",), ("ctrl+c",), ("ctrl+q",), ("space", "q", "y")])
def test_leaving_merges_nothing(keys: tuple[str, ...]) -> None:
    app = play(Sample(), (80, 24), *keys)
    assert merged(app) == set()
    assert not app.is_running


def test_what_was_chosen_is_there_again_the_next_time() -> None:
    sample = Sample()
    play(sample, (80, 24), "A", "n", "n", "r", "q", "y")
    again = ReviewApp(sample)
    assert len(again.state.selection) == 7
    assert again.state.reviewed == {Key(0, b"shop/models.py")}
    assert again.state.change is not None
    assert again.state.change.key.path == b"shop/models.py"


def test_after_a_merge_any_way_out_leaves() -> None:
    for key in ("enter", "escape", "q"):
        assert not play(Sample(), (80, 24), *SAFE, "space", "c", "y", key).is_running


def test_leaving_with_a_choice_asks_and_stays_by_default() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        faces = [pilot.app.state.face]
        await pilot.press("enter")
        faces.append(pilot.app.state.face)
        assert faces == [Face.LEAVE, Face.REVIEW]
        assert len(pilot.app.state.selection) == 1

    play(Sample(), (80, 24), "space", "escape", scene=scene)


# Conflicts of commits


class Conflicts(Made):
    """Two files that commits and the user's both change."""

    is_settling = True

    def __init__(self) -> None:
        super().__init__(edited(b"one", conflict="both", mine=FILE), edited(b"two", conflict="both", mine=FILE))


def settled(*keys: str) -> tuple[ReviewApp, str]:
    """Settle both, one key after the other has done its work; return the screen after more keys."""
    found = []

    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        for key in ("greater_than_sign", "exclamation_mark", "less_than_sign", *keys):
            await pilot.press(key)
            await quiet(pilot)
        found.append(text(pilot.app))

    return play(Conflicts(), (100, 24), scene=scene), found[0]


def test_conflicts_of_commits_are_applied_only_when_each_is_settled() -> None:
    assert "1 more to settle: < takes yours, > the agent's" in drawn(Conflicts(), (100, 24), "greater_than_sign", "c")
    app, shown = settled("c")
    assert app.state.face is Face.SUMMARY
    assert "Bring the commits home with this?" in shown


def test_conflicts_of_commits_say_what_they_are_for_and_what_leaving_means() -> None:
    assert "what the commits and yours both change: settle each, and they come home" in drawn(Conflicts(), (100, 24))
    _, left = settled("q")
    assert "keeps everything, and the choice too." in left


# Keys


def test_every_binding_has_an_id_of_its_own() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        bindings = [active.binding for active in pilot.app.screen.active_bindings.values()]
        assert all(binding.id for binding in bindings)
        assert len({binding.id for binding in bindings}) == len({(binding.action, binding.description) for binding in bindings})

    play(Sample(), (80, 24), scene=scene)
    play(Sample(), (80, 24), "question_mark", scene=scene)
    play(Sample(), (80, 24), "space", "c", scene=scene)


def test_a_rebound_key_works_and_is_shown() -> None:
    app = ReviewApp(Sample())
    app.set_keymap({"apply": "m"})

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await quiet(pilot)
            assert " m apply" in text(app).splitlines()[-1]
            await pilot.press("question_mark")
            await quiet(pilot)
            assert " m               apply" in text(app)
            await pilot.press("escape", *SAFE, "space", "m")
            assert app.state.face is Face.SUMMARY

    asyncio.run(run())


def test_a_key_older_than_the_first_paint_does_nothing() -> None:
    app = ReviewApp(Sample())
    typed = KeyEvent("space", " ")

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await quiet(pilot)
            await app.on_event(typed)
            await quiet(pilot)
            assert not app.state.selection.keys
            await app.on_event(KeyEvent("space", " "))
            await quiet(pilot)
            assert app.state.selection.keys

    asyncio.run(run())


# The mouse


def test_a_click_on_a_box_toggles_and_on_a_name_only_goes_there() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        await pilot.click(ChangeList, offset=(12, 2))
        assert pilot.app.state.cursor == 2
        assert not pilot.app.state.selection.keys
        await pilot.click(ChangeList, offset=(2, 6))
        assert {key.path for key in pilot.app.state.selection.keys} == {b"README.md"}

    play(Sample(), (120, 40), scene=scene)


def test_a_click_gives_a_pane_the_keys() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        await pilot.click(DiffView, offset=(10, 2))
        assert (pilot.app.state.pane, pilot.app.state.diff.cursor) == (Pane.DIFF, 2)
        await pilot.click(DiffView, offset=(2, 4))
        assert {key.path for key in pilot.app.state.selection.keys} == {b".github/workflows/release.yml"}

    play(Sample(), (120, 40), scene=scene)


def test_a_click_on_an_answer_answers_it() -> None:
    async def scene(pilot: Pilot[None]) -> None:
        await pilot.click("Answers", offset=(22, 0))

    assert merged(play(Sample(), (80, 24), *SAFE, "space", "c", scene=scene))


# Hostile names and contents

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


def hostile() -> Made:
    """Return changes whose every text is nasty."""
    some = []
    contents: dict[bytes, Content] = {}
    for number, nasty in enumerate(NASTY):
        path = b"%02d" % number + nasty
        said = nasty.decode("utf-8", "surrogateescape")
        entry = Entry(FileType.SYMLINK, target=nasty) if number % 5 == 4 else FILE
        risks = (Risk(said, said),) if number % 3 == 0 else ()
        some.append(Change(Key(0, path), Kind.EDITED, entry, entry, risks=risks, conflict=said if number % 7 == 6 else None))
        contents[path] = (b"same\n" + nasty, b"same\n" + b"x" + nasty + b"\n" + nasty * 50)
    made = Made(*some, contents=contents)
    said = NASTY[1].decode("latin-1")
    made.changes = ChangeSet(tuple(some), (said,))
    made.session, made.root, made.roots = said, said, (said,)
    made.command, made.tabs = (said,), {Tab.COMMITS: (Row(said, (said,), key=None),)}
    return made


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (140, 40)])
def test_nothing_of_a_hostile_text_reaches_the_terminal_raw(size: tuple[int, int]) -> None:
    def check(app: ReviewApp) -> None:
        rows = strips(app)
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
            await quiet(pilot)
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
            await quiet(pilot)
            check(pilot.app)

    play(hostile(), size, "home", scene=scene)


def test_a_hostile_name_is_visible() -> None:
    shown = drawn(Made(edited(b"\x1b[31mred\n"), edited("\u202etxt".encode())), (80, 24))
    assert "␛[31mred␊" in shown
    assert "<U+202E>txt" in shown


def test_a_line_as_long_as_a_file_is_cut_and_can_be_walked_along() -> None:
    line = b"0123456789" * 160_000
    made = Made(edited(b"bundle.js"), contents={b"bundle.js": (line, line + b"end")})
    start = time.monotonic()
    shown = drawn(made, (120, 30), "enter", *["L"] * 3)
    assert "4567890123" in shown
    assert time.monotonic() - start < 10  # a screen that reads all of it at every key takes minutes


# Reading


def test_what_cannot_be_read_is_said_in_its_place() -> None:
    class Broken(Made):
        def content(self, key: Key) -> Content:
            if key.path == b"a":
                raise CannotMerge(path="a", reason="it is gone")
            raise PermissionError(13, "Permission denied")

    assert "✗ cannot be read: a: it is gone" in drawn(Broken(edited(b"a"), edited(b"b")), (120, 20))
    assert "✗ cannot be read: Permission denied" in drawn(Broken(edited(b"a"), edited(b"b")), (120, 20), "j")


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
