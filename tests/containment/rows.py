"""What a test of this folder says about its row, and the page that is made of all of them."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs/containment.md"
CLOSED, RESIDUAL = "closed", "residual"
_NAME = re.compile(r"test_([a-g])(\d\d)_\w+")
_MARK = "_containment"

Test = TypeVar("Test", bound=Callable[..., None])


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """One way out: its id for sorting, what is tried, what is done about it, how that ends, and the test."""

    section: str
    number: int
    tries: str
    done: str
    outcome: str
    test: str

    @property
    def id(self) -> str:
        """The id as it is written: A1."""
        return f"{self.section}{self.number}"


def row(tries: str, done: str, outcome: str = CLOSED) -> Callable[[Test], Test]:
    """Say of a test, whose name begins with `test_a01_`, what is tried in it, and by what means it fails."""

    def marked(test: Test) -> Test:
        match = _NAME.fullmatch(test.__name__)
        assert match, f"{test.__name__} names no row"
        found = Row(match[1].upper(), int(match[2]), tries, done, outcome, test.__name__)
        setattr(test, _MARK, found)
        return test

    return marked


def of(test: Any) -> Row | None:
    """Return the row of a test, None for one that has none."""
    found = getattr(test, _MARK, None)
    return found if isinstance(found, Row) else None


def all_rows() -> list[Row]:
    """Return the rows of all modules here, in order."""
    modules = [importlib.import_module(f"{__package__}.{path.stem}") for path in sorted(FOLDER.glob("test_*.py"))]
    return sorted(found for module in modules for value in vars(module).values() if (found := of(value)))


_HEAD = """\
# Ways out, and what becomes of them

Made from the tests in `tests/containment/` by `python -m tests.containment`; do not edit. Each row is tried inside the real
sandbox by the test of its name, as root and as an ordinary user, with an older and a newer bubblewrap, and where it matters
with and without a network. *Closed*: it does not work, and the test fails if it ever does. *Residual*: it is open on purpose;
the test shows that it is as described here, and [SECURITY.md](../SECURITY.md) says so too.
"""
_SECTIONS = {
    "A": "The terminal, and what the user is shown",
    "B": "Sockets, buses, inherited descriptors",
    "C": "Processes, the kernel, resources",
    "D": "What is mounted, the environment, what stays between sessions",
    "E": "What a merge takes home",
    "F": "Git",
    "G": "What is planted to run later",
}


def page() -> str:
    """Return docs/containment.md."""
    rows = all_rows()
    text = [_HEAD]
    for section, title in _SECTIONS.items():
        mine = [f"| {r.id} | {r.tries} | {r.done} | {r.outcome} | `{r.test}` |" for r in rows if r.section == section]
        if mine:
            head = ["| row | what is tried | what is done about it | outcome | test |", "|---|---|---|---|---|"]
            text += ["\n".join((f"\n## {section}. {title}\n", *head, *mine)) + "\n"]
    return "".join(text)
