"""A sample session, and the pictures of the docs drawn from it: `python -m tests.harness.sample_session [DIRECTORY]`."""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent_dev.diff.merge3 import ConflictSide, LineMerge, merge_lines
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Resolution, Risk
from agent_dev.overlay.selection import Selection
from tui.app import ReviewApp
from tui.model.tabs import ImportMode, RiskyPath, Tab
from tui.model.tabs import TabEntry as Row
from tui.model.totals import LineCount
from tui.source import ConflictResolution, ContentPair, Draft, OperationResult, ProgressCallback

SCREEN_SIZE = (118, 32)

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


def _file(path: str, kind: ChangeKind, before: Entry | None, after: Entry | None, **more: object) -> Change:
    return Change(Key(0, path.encode()), kind, before, after, **more)  # type: ignore[arg-type]


_F, _X = Entry(FileType.FILE, size=1200), Entry(FileType.FILE, mode=0o755, size=1300)
_CI = Risk("ci", "runs in CI with the repository's secrets at the next push", "each command, and which secrets it can read")
_HOOK = Risk("runs-on-install", "runs on every machine that installs the package")
_OUT = Risk("leaves-root", "points outside the repository")
_RISKY = (RiskyPath(b"package.json", (_HOOK,)),)


def _changes() -> tuple[Change, ...]:
    cache = tuple(
        _file(f"node_modules/.cache/{number:04}.json", ChangeKind.ADDED, None, _F, is_ignored=True) for number in range(1, 1842)
    )
    return (
        _file(".github/workflows/release.yml", ChangeKind.EDITED, _F, _F, insertions=9, deletions=1, risks=(_CI,)),
        _file("README.md", ChangeKind.EDITED, _F, _F, insertions=6, deletions=2),
        _file("bin/serve", ChangeKind.EDITED, _F, _X, insertions=3, deletions=1),
        _file("docs/pricing.md", ChangeKind.ADDED, None, _F, insertions=41, deletions=0),
        *cache,
        _file("package.json", ChangeKind.EDITED, _F, _F, insertions=2, deletions=1, risks=(_HOOK,)),
        _file("shop/basket.py", ChangeKind.EDITED, _F, _F, insertions=7, deletions=5),
        _file("shop/discounts.py", ChangeKind.ADDED, None, _F, insertions=58, deletions=0),
        _file("shop/legacy_prices.py", ChangeKind.DELETED, _F, None, insertions=0, deletions=212),
        _file(
            "shop/models.py", ChangeKind.EDITED, _F, _F, insertions=4, deletions=4, conflict="changed since the session started"
        ),
        _file("static/current", ChangeKind.ADDED, None, Entry(FileType.SYMLINK, target=b"/srv/static"), risks=(_OUT,)),
        _file("tests/test_basket.py", ChangeKind.EDITED, _F, _F, insertions=33, deletions=0),
    )


class Sample:
    """A sample session, kept in memory."""

    session = "brisk-otter"
    root = "/home/ada/src/shop"
    roots: tuple[str, ...] = ("/home/ada/src/shop",)
    command: tuple[str, ...] = ("claude",)
    is_running = False
    is_resolving = False
    result: OperationResult | None = None
    tabs: Mapping[Tab, tuple[Row, ...]] = {
        Tab.COMMITS: (
            Row("2f8c1d0e6b Take discounts off the total", id="2f8c1d0e6b", is_risky=True, risky_paths=_RISKY),
            Row("9ab03e77c1 Document prices", id="9ab03e77c1"),
        )
    }
    draft = Draft()
    most_deletions = 1000

    def __init__(self) -> None:
        self.changes = ChangeSet(_changes())
        self.merges: list[Selection] = []
        self.imports: list[tuple[tuple[str, ...], ImportMode, str]] = []
        self.declined: list[tuple[str, ...]] = []

    def read_content(self, key: Key) -> ContentPair:
        """Return the contents of shop/basket.py, or short ones."""
        change = self.changes.by_key()[key]
        if key.path == b"shop/basket.py":
            return _BEFORE, _AFTER
        if change.type is FileType.SYMLINK:
            return None, change.after.target if change.after else None
        return (b"old\nsame\n" if change.before else None, b"new\nsame\n" if change.after else None)

    def yours_content(self, _key: Key) -> bytes | None:
        """Return your version of the file in conflict."""
        return b"price = 490\n"

    def edited_text(self, _key: Key) -> bytes | None:
        """Return None: no conflict is resolved in an editor."""
        return None

    def line_merge(self, key: Key) -> LineMerge | None:
        """Return a merge with a conflict for one file."""
        if key.path != b"shop/models.py":
            return None
        return merge_lines(b"price = 100\n\n\nvat = 19\n", b"price = 490\n\n\nvat = 19\n", b"price = 100 * 2\n\n\nvat = 7\n")

    def resolve(self, key: Key, answers: ConflictResolution) -> Change | None:
        """Resolve the conflict, whatever the answer."""
        is_agents = bool(answers) and answers[0] is ConflictSide.AGENT
        resolution = Resolution.AGENT if is_agents else Resolution.BOTH
        return replace(self.changes.by_key()[key], conflict=None, resolution=resolution)

    def edit_conflict(self, _key: Key) -> bytes | None:
        """Return None: there is no editor."""
        return None

    def view_file(self, key: Key, line: int) -> None:
        """Record what was opened."""
        self.viewed = (key, line)

    viewed: tuple[Key, int] | None = None
    unassessed: frozenset[Key] = frozenset()

    def count_deletions(self, selection: Selection) -> int:
        """Return the number of selected deletions, if a test set a limit that they exceed."""
        table = self.changes.by_key()
        count = sum(table[key].kind is ChangeKind.DELETED for key in selection.keys)
        return count if count > self.most_deletions else 0

    def assess_risks(self, keys: Iterable[Key]) -> dict[Key, tuple[Risk, ...]]:
        """Return no risks."""
        return dict.fromkeys(keys, ())

    def count_lines(self, keys: Iterable[Key]) -> dict[Key, LineCount]:
        """Return the line counts of the sample changes."""
        table = self.changes.by_key()
        return {key: LineCount(1, table[key].insertions or 0, table[key].deletions or 0) for key in keys}

    def find_commits(self) -> dict[Key, str]:
        """Return no commits of changes."""
        return {}

    def read_commits(self) -> tuple[Row, ...]:
        """Return the commits of the tab."""
        return self.tabs.get(Tab.COMMITS, ())

    def import_commits(self, ids: Sequence[str], mode: ImportMode, name: str) -> OperationResult:
        """Record the request."""
        self.imports.append((tuple(ids), mode, name))
        return OperationResult(
            ("imported 2f8c1d0e6b Take discounts off the total", "branch main is at 2f8c1d0e6b (agent-dev undo)"), 0
        )

    def decline_commits(self, ids: Sequence[str]) -> OperationResult:
        """Record the request."""
        self.declined.append(tuple(ids))
        return OperationResult(("1 commit declined (agent-dev undo)",), 0)

    def next_conflicts(self) -> None:
        """Return None: there are no conflicts between commits."""

    def read_changes(self) -> ChangeSet:
        """Return the changes; they stay the same."""
        return self.changes

    def save_draft(self, draft: Draft) -> None:
        """Keep the draft in memory."""
        self.draft = draft

    def merge(self, selection: Selection, progress: ProgressCallback) -> OperationResult:
        """Record the selection."""
        self.merges.append(selection)
        progress(len(selection), len(selection))
        return OperationResult((f"{len(selection)} changes merged",), 0)


PICTURES = {  # file of docs → keys pressed before it is taken
    "screen.svg": ("A", *["n"] * 7),  # shop/basket.py
    "screen-conflict.svg": ("f", *"models", "enter", "enter"),
    "screen-commits.svg": ("2", "space", "j", "k"),
    "screen-summary.svg": ("A", "c"),
}


async def draw_picture(keys: Sequence[str]) -> str:
    """Return the screen after some keys as SVG."""
    app = ReviewApp(Sample())
    async with app.run_test(size=SCREEN_SIZE) as pilot:
        while app.is_before_first_paint:
            await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await app.workers.wait_for_complete()
        await pilot.pause()
        return app.export_screenshot(title="agent-dev")


def main() -> None:
    """Write the pictures into a directory."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    for name, keys in PICTURES.items():
        (folder / name).write_text(asyncio.run(draw_picture(keys)), encoding="utf-8")


if __name__ == "__main__":
    main()
