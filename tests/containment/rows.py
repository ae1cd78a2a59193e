"""Rows of docs/containment.md, declared by the tests, and the page generated from them."""

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
    """A known escape: section and number, the attempt, the protection, the outcome, and the test."""

    section: str
    number: int
    attempt: str
    protection: str
    outcome: str
    test: str

    @property
    def id(self) -> str:
        """Return the id as printed: A1."""
        return f"{self.section}{self.number}"


def row(attempt: str, protection: str, outcome: str = CLOSED) -> Callable[[Test], Test]:
    """Declare a test's row: the attempt, and the protection against it; the test's name begins with the id, `test_a01_`."""

    def marked(test: Test) -> Test:
        match = _NAME.fullmatch(test.__name__)
        assert match, f"{test.__name__} does not begin with the id of a row"
        found = Row(match[1].upper(), int(match[2]), attempt, protection, outcome, test.__name__)
        setattr(test, _MARK, found)
        return test

    return marked


def row_of(test: Any) -> Row | None:
    """Return the row of a test, or None."""
    found = getattr(test, _MARK, None)
    return found if isinstance(found, Row) else None


def all_rows() -> list[Row]:
    """Return the rows of all test modules, in order."""
    paths = [path.relative_to(FOLDER).with_suffix("") for path in sorted(FOLDER.glob("*/test_*.py"))]
    modules = [importlib.import_module(".".join((__package__, *path.parts))) for path in paths]
    return sorted(found for module in modules for value in vars(module).values() if (found := row_of(value)))


_HEAD = """\
# Containment: known escapes and their outcome

Generated from the tests in `tests/containment/` by `python -m tests.containment`; do not edit. Each test runs in the real
sandbox, as root and as an ordinary user, with an older and a newer bubblewrap, and where it matters, with and without a
network. *Closed*: the attempt fails, and the test fails if it ever succeeds. *Residual*: the attempt succeeds, as
[SECURITY.md](../SECURITY.md) says, and the test shows that it has only the effects described here.
"""
_SECTIONS = {
    "A": "The terminal and its display",
    "B": "Sockets, buses, inherited descriptors",
    "C": "Processes, the kernel, resources",
    "D": "Mounts, the environment, persistence between sessions",
    "E": "Applying changes",
    "F": "Git",
    "G": "Files planted to run later",
}


def page() -> str:
    """Return docs/containment.md."""
    rows = all_rows()
    text = [_HEAD]
    for section, title in _SECTIONS.items():
        lines = [f"| {r.id} | {r.attempt} | {r.protection} | {r.outcome} | `{r.test}` |" for r in rows if r.section == section]
        if lines:
            head = ["| row | attempt | protection | outcome | test |", "|---|---|---|---|---|"]
            text += ["\n".join((f"\n## {section}. {title}\n", *head, *lines)) + "\n"]
    return "".join(text)
