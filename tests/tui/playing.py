"""The screen played in memory: sessions made for a test, keys that are pressed, and what is drawn."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from textual.pilot import Pilot
from textual.strip import Strip

from agent_dev.diff.merge3 import Merged
from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind
from tests.harness.sample_session import Sample
from tui.app import ReviewApp
from tui.model.tabs import Entry as Row
from tui.model.tabs import Tab
from tui.source import Content, Source

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


def merged(app: ReviewApp) -> set[bytes]:
    """Return what was given to the merge."""
    source = app._source
    assert isinstance(source, Sample)
    return {key.path for selection in source.merges for key in selection.keys}
