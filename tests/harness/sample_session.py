"""The picture of the screen that the README shows, drawn by the program: `python -m tests.harness.sample_session [FILE]`."""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent_dev.diff.merge3 import Merged, merge
from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk
from agent_dev.overlay.selection import Selection
from tui.app import ReviewApp
from tui.model.tabs import Entry as Row
from tui.model.tabs import Risky, Tab, Way
from tui.model.totals import Count
from tui.source import Answers, Content, Draft, Ended, Tell

SIZE = (118, 32)

_BEFORE = b'''"""Prices of a basket."""


def total(items):
    result = 0
    for item in items:
        result += item.price
    return result


def shipping(weight):
    return 490 if weight < 2000 else 990
'''
_AFTER = b'''"""Prices of a basket."""

from decimal import Decimal


def total(items, discount=Decimal(0)):
    """Return the sum in cents, the discount taken off once."""
    result = sum(item.price * item.count for item in items)
    return result - round(result * discount)


def shipping(weight):
    return 490 if weight < 2000 else 990
'''


def _file(path: str, kind: Kind, before: Entry | None, after: Entry | None, **more: object) -> Change:
    return Change(Key(0, path.encode()), kind, before, after, **more)  # type: ignore[arg-type]


_F, _X = Entry(FileType.FILE, size=1200), Entry(FileType.FILE, mode=0o755, size=1300)
_CI = Risk("ci", "runs in CI with the repository's secrets at the next push", "each command, and which secrets it can read")
_HOOK = Risk("runs-on-install", "runs on every machine that installs the package")
_OUT = Risk("leaves-root", "points outside the repository")


_RISKY = (Risky(b"package.json", (_HOOK,)),)


def _changes() -> tuple[Change, ...]:
    cache = tuple(_file(f"node_modules/.cache/{number:04}.json", Kind.ADDED, None, _F, ignored=True) for number in range(1, 1842))
    return (
        _file(".github/workflows/release.yml", Kind.EDITED, _F, _F, insertions=9, deletions=1, risks=(_CI,)),
        _file("README.md", Kind.EDITED, _F, _F, insertions=6, deletions=2),
        _file("bin/serve", Kind.EDITED, _F, _X, insertions=3, deletions=1),
        _file("docs/pricing.md", Kind.ADDED, None, _F, insertions=41, deletions=0),
        *cache,
        _file("package.json", Kind.EDITED, _F, _F, insertions=2, deletions=1, risks=(_HOOK,)),
        _file("shop/basket.py", Kind.EDITED, _F, _F, insertions=7, deletions=5),
        _file("shop/discounts.py", Kind.ADDED, None, _F, insertions=58, deletions=0),
        _file("shop/legacy_prices.py", Kind.DELETED, _F, None, insertions=0, deletions=212),
        _file("shop/models.py", Kind.EDITED, _F, _F, insertions=4, deletions=4, conflict="it was changed meanwhile"),
        _file("static/current", Kind.ADDED, None, Entry(FileType.SYMLINK, target=b"/srv/static"), risks=(_OUT,)),
        _file("tests/test_basket.py", Kind.EDITED, _F, _F, insertions=33, deletions=0),
    )


class Sample:
    """A session as an agent might have left it."""

    session = "brisk-otter"
    root = "/home/ada/src/shop"
    roots: tuple[str, ...] = ("/home/ada/src/shop",)
    command: tuple[str, ...] = ("claude",)
    is_running = False
    is_settling = False
    ended: Ended | None = None
    tabs: Mapping[Tab, tuple[Row, ...]] = {
        Tab.COMMITS: (
            Row("2f8c1d0e6b Take discounts off the total", id="2f8c1d0e6b", is_risky=True, risky=_RISKY),
            Row("9ab03e77c1 Document prices", id="9ab03e77c1"),
        )
    }
    draft = Draft()
    renamed: Mapping[Key, str] = {}

    def __init__(self) -> None:
        self.changes = ChangeSet(_changes())
        self.merges: list[Selection] = []
        self.brought: list[tuple[tuple[str, ...], Way, str]] = []

    def content(self, key: Key) -> Content:
        """Return the basket, or something short."""
        change = self.changes.by_key()[key]
        if key.path == b"shop/basket.py":
            return _BEFORE, _AFTER
        if change.type is FileType.SYMLINK:
            return None, change.after.target if change.after else None
        return (b"old\nsame\n" if change.before else None, b"new\nsame\n" if change.after else None)

    def mine(self, _key: Key) -> bytes | None:
        """Return what the user has, in the one conflict."""
        return b"price = 490\n"

    def merged(self, key: Key) -> Merged | None:
        """Return a merge with a conflict."""
        if key.path != b"shop/models.py":
            return None
        return merge(b"price = 100\n\n\nvat = 19\n", b"price = 490\n\n\nvat = 19\n", b"price = 100 * 2\n\n\nvat = 7\n")

    def settle(self, key: Key, _answers: Answers) -> Change | None:
        """Settle the conflict any way."""
        return replace(self.changes.by_key()[key], conflict=None, is_merged=True)

    def edit(self, _key: Key) -> bytes | None:
        """Return what no editor was needed for."""
        return None

    def count(self, keys: Iterable[Key]) -> dict[Key, Count]:
        """Return the lines that the sample claims."""
        table = self.changes.by_key()
        return {key: Count(1, table[key].insertions or 0, table[key].deletions or 0) for key in keys}

    def commits(self) -> tuple[Row, ...]:
        """Return the two."""
        return self.tabs.get(Tab.COMMITS, ())

    def bring(self, ids: Sequence[str], way: Way, name: str) -> Ended:
        """Remember what was asked for."""
        self.brought.append((tuple(ids), way, name))
        return Ended(("took 2f8c1d0e6b Take discounts off the total", "branch main leads to 2f8c1d0e6b (agent-dev undo)"), 0)

    def settling(self) -> None:
        """Return nothing: what comes home fits."""

    def refreshed(self) -> ChangeSet:
        """Return the same."""
        return self.changes

    def save(self, draft: Draft) -> None:
        """Keep it in memory."""
        self.draft = draft

    def merge(self, selection: Selection, tell: Tell) -> Ended:
        """Only remember what was to be merged."""
        self.merges.append(selection)
        tell(len(selection), len(selection))
        return Ended((f"{len(selection)} changes merged",), 0)


async def picture() -> str:
    """Return the screen as SVG, with some changes chosen."""
    app = ReviewApp(Sample())
    async with app.run_test(size=SIZE) as pilot:
        while app.is_deaf:
            await pilot.pause()
        await pilot.press("A", *["n"] * 7)  # to shop/basket.py
        await app.workers.wait_for_complete()
        await pilot.pause()
        return app.export_screenshot(title="agent-dev")


def main() -> None:
    """Write the picture."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screen.svg")
    target.write_text(asyncio.run(picture()), encoding="utf-8")


if __name__ == "__main__":
    main()
