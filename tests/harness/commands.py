"""Command lines by class, expanded from the tables of commands.txt: harmless ones, harmful ones, and those that need care."""

import json
import shlex
from dataclasses import dataclass
from itertools import product
from pathlib import Path

_SECTIONS = {
    title.strip(): [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for title, _, text in (part.partition("]") for part in Path(__file__).with_suffix(".txt").read_text().split("\n[")[1:])
}
_USUAL = [("rm", "-rf", "build")] * 5  # harmful commands that builds also run, with the same frequency


@dataclass(frozen=True, slots=True)
class RecordedCommand:
    """A command that a build started: how often, and in which directory."""

    times: int
    cwd: str
    argv: tuple[str, ...]


def recorded_commands(repository: str) -> list[RecordedCommand]:
    """Return the commands that real builds started in a session of a repository, without duplicates."""
    text = Path(__file__).with_name("recorded_lines.txt").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    places = {cwd: repository + cwd[1:] if cwd.startswith(".") else cwd for _, cwd, _ in rows}
    return [RecordedCommand(int(times), places[cwd], tuple(json.loads(argv))) for times, cwd, argv in rows]


def lines_of(section: str) -> list[tuple[str, ...]]:
    """Return every line of a section with each choice of `{a|b}` expanded, without duplicates."""
    return list(dict.fromkeys(line for table in _SECTIONS[section] for line in _expanded(table)))


def _expanded(table: str) -> list[tuple[str, ...]]:
    parts = [part.split("}") for part in table.split("{")]
    fixed = [parts[0][0], *(part[1] for part in parts[1:])]
    return [
        tuple(shlex.split("".join(a + b for a, b in zip(fixed, (*selected, ""), strict=True))))
        for selected in product(*(part[0].split("|") for part in parts[1:]))
    ]


def harmless() -> list[tuple[str, ...]]:
    """Return about 2,000 command lines as builds run them."""
    units = " ".join(_SECTIONS["units"]).split()
    return [tuple(shlex.split(line.replace("UNIT", unit))) for unit in units for line in _SECTIONS["harmless"]] + _USUAL
