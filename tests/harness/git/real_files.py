"""Changes to real files of the installed test packages, unmodified and with harmful lines added.

None of them is in this repository. Each file is changed as if its last part had just been written: every fifth line is new.

"""

import random
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from tests.harness.risk.corpus import Case
from tests.harness.risk.planted import LINES

WANTED = 600
_LARGEST = 200_000
_KINDS = frozenset(
    [
        ".py",
        ".pyi",
        ".md",
        ".rst",
        ".txt",
        ".js",
        ".mjs",
        ".ts",
        ".css",
        ".tcss",
        ".html",
        ".c",
        ".h",
        ".pxd",
        ".pyx",
        ".json",
        ".yaml",
        ".yml",
        ".scm",
        ".svg",
        ".csv",
        ".typed",
    ]
)
_WORDS = frozenset([".md", ".rst", ".txt", ".html", ".css", ".tcss", ".json", ".svg", ".csv", ".typed", ".yaml", ".yml"])
_OWN = "agent-dev"


def paths() -> list[Path]:
    """Return text files of the installed packages, except ours, in order per package."""
    found = set()
    for package in metadata.distributions():
        if package.metadata["Name"] != _OWN:
            found |= {Path(str(file.locate())) for file in package.files or () if file.suffix in _KINDS}
    return sorted(path for path in found if path.is_file() and 0 < path.stat().st_size <= _LARGEST)


def harmless(seed: int) -> Iterator[Case]:
    """Yield harmless changes, at most `WANTED`."""
    for path, text in _texts(seed):
        yield Case("real files", f"src/shop/{path.name}", _before(text), text)


def planted(seed: int) -> Iterator[Case]:
    """Yield the same number of changes to code, each with a harmful line."""
    chance = random.Random(seed)  # noqa: S311
    lines = [line for some in LINES.values() for line in some]
    for path, text in _texts(seed, but=_WORDS):
        rows = text.split("\n")
        rows.insert(chance.randrange(len(rows)), chance.choice(lines))
        yield Case("real files", f"src/shop/{path.name}", text, "\n".join(rows))


def _texts(seed: int, but: frozenset[str] = frozenset()) -> Iterator[tuple[Path, str]]:
    chance = random.Random(seed)  # noqa: S311
    some = [path for path in paths() if path.suffix not in but]
    chance.shuffle(some)
    for path in some[:WANTED]:
        yield path, path.read_bytes().decode("utf-8", "replace")


def _before(text: str) -> str:
    return "\n".join(line for number, line in enumerate(text.split("\n")) if number % 5)
