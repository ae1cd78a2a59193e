"""A corpus of changes for the risk rules, planted and harmless, and what the rules find in it.

`python -m tests.harness.corpus` writes the figures into docs/risks.md.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent_dev.config import schema
from agent_dev.config import strict_yaml as yaml_file
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind
from agent_dev.risk import risk_rules as risk
from agent_dev.risk.risk_rules import RiskRule

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs/risks.md"
BEGIN, END = "<!-- figures: python -m tests.harness.corpus -->\n", "<!-- end of figures -->\n"


@dataclass(frozen=True, slots=True)
class Case:
    """One change: where, what was there (None: nothing) and what is there now, as text; bytes below 256 stand for themselves."""

    group: str
    path: str
    before: str | None
    after: str
    mode: int = 0o644
    target: bytes = b""

    def change(self) -> Change:
        """Return it as the review would have it."""
        was = None if self.before is None else Entry(FileType.FILE, size=len(self.before))
        now = Entry(FileType.SYMLINK if self.target else FileType.FILE, self.mode, len(self.after), target=self.target)
        kind = Kind.ADDED if was is None else Kind.METADATA if self.before == self.after else Kind.EDITED
        return Change(Key(0, self.path.encode()), kind, was, now)

    def rules(self, rules: tuple[RiskRule, ...]) -> tuple[str, ...]:
        """Return the names of the rules that it meets."""
        found = risk.judge(self.change(), rules, _bytes(self.after), lambda: _bytes(self.before or ""))
        return tuple(one.rule for one in found)


def _bytes(text: str) -> bytes:
    """Return a program's bytes for one that begins as such, else UTF-8."""
    return text.encode("latin-1" if text.startswith(("\x7fELF", "MZ", "\0asm", "\xca\xfe")) else "utf-8")


def shipped() -> tuple[RiskRule, ...]:
    """Return the rules of profiles/risks.yaml."""
    tree, problems = yaml_file.read((PROJECT / "profiles/risks.yaml").read_bytes())
    checked = schema.rules(tree, risk.CHOICES)
    assert (problems, checked.problems) == ((), ())
    return tuple(RiskRule(name=name, **rule) for name, rule in checked.fields.items())  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Score:
    """How many changes of a group are marked."""

    group: str
    marked: int
    all: int


def score(cases: Iterable[Case]) -> list[Score]:
    """Judge all cases; return a score for each group in their order."""
    rules = shipped()
    marked: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for case in cases:
        every[case.group] += 1
        marked[case.group] += bool(case.rules(rules))
    return [Score(group, marked[group], every[group]) for group in every]


def figures() -> str:
    """Return the tables of docs/risks.md."""
    from tests.harness import harmless, planted  # they are made of Case

    found, alarms = score(planted.cases()), score(harmless.cases())
    return "\n".join([*_table("planted", "found", found), "", *_table("harmless", "false alarms", alarms), ""])


def _table(what: str, word: str, scores: list[Score]) -> list[str]:
    marked, every = sum(one.marked for one in scores), sum(one.all for one in scores)
    rows = [f"| {one.group} | {one.all} | {one.marked} | {100 * one.marked / one.all:.0f} % |" for one in scores]
    total = f"| **all** | **{every}** | **{marked}** | **{100 * marked / every:.1f} %** |"
    return [f"| {what} | changes | {word} | share |", "|---|---|---|---|", *rows, total]


def page(text: str) -> str:
    """Return the page with the figures of now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{figures()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(figures())
