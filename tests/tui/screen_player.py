"""Run the screen in memory: sessions made for a test, pressed keys, and the drawn text."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from textual.pilot import Pilot
from textual.strip import Strip

from agent_dev.diff.merge3 import LineMerge
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet
from tests.harness.sample_session import Sample
from tui.app import ReviewApp
from tui.model.tabs import Tab
from tui.model.tabs import TabEntry as Row
from tui.source import ContentPair, ReviewedSession

FILE = Entry(FileType.FILE, size=10)

KEYS_TO_SAFE_CHANGE = ("n",) * 4  # from the first change to README.md, which is safe

Scene = Callable[[Pilot[None]], Awaitable[None]]


class FakeSession(Sample):
    """A session made for a test; `contents` by path, by default an edit of one line."""

    session = "test"
    root = "/src"
    roots: tuple[str, ...] = ("/src",)
    command: tuple[str, ...] = ("agent",)
    tabs: Mapping[Tab, tuple[Row, ...]] = {}

    def __init__(self, *changes: Change, contents: dict[bytes, ContentPair] | None = None) -> None:
        super().__init__()
        self.changes = ChangeSet(changes)
        self._contents = contents or {}

    def read_content(self, key: Key) -> ContentPair:
        """Return the contents given by the test."""
        return self._contents.get(key.path, (b"old\n", b"new\n"))

    def edited_text(self, _key: Key) -> bytes | None:
        return None

    def line_merge(self, _key: Key) -> LineMerge | None:
        """Return None: no merge of lines."""
        return None


def edited(path: bytes, **more: object) -> Change:
    """Return an edit of a file."""
    return Change(Key(0, path), ChangeKind.EDITED, FILE, FILE, **more)  # type: ignore[arg-type]


def screen_rows(app: ReviewApp) -> list[Strip]:
    """Return the rows of the screen as sent to the terminal."""
    return app.screen._compositor.render_strips()  # no public API returns the text


def screen_text(app: ReviewApp) -> str:
    """Return the text of the screen."""
    return "\n".join(strip.text.rstrip() for strip in screen_rows(app)) + "\n"


async def wait_until_idle(pilot: Pilot[None]) -> None:
    """Wait until everything is read and drawn."""
    assert isinstance(pilot.app, ReviewApp)
    while pilot.app.is_before_first_paint:
        await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def run_keys(source: ReviewedSession, size: tuple[int, int], *keys: str, scene: Scene | None = None) -> ReviewApp:
    """Press keys on a screen, then run `scene` on it."""
    app = ReviewApp(source)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await wait_until_idle(pilot)
            for key in keys:
                await pilot.press(key)
            await wait_until_idle(pilot)
            if scene:
                await scene(pilot)

    asyncio.run(run())
    return app


def text_after_keys(source: ReviewedSession, size: tuple[int, int], *keys: str) -> str:
    """Return the text of the screen after some keys; assert that each row is as wide as the terminal."""
    texts = []

    async def scene(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ReviewApp)
        assert [strip.cell_length for strip in screen_rows(pilot.app)] == [size[0]] * size[1]
        texts.append(screen_text(pilot.app))

    run_keys(source, size, *keys, scene=scene)
    return texts[0]


def merged_paths(app: ReviewApp) -> set[bytes]:
    """Return the paths that were passed to the merge."""
    source = app._source
    assert isinstance(source, Sample)
    return {key.path for selection in source.merges for key in selection.keys}
