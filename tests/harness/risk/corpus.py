"""A corpus of planted and harmless changes for the risk rules, and the rules' results.

Run `python -m tests.harness.risk.corpus` to write the figures to docs/risks.md.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent_dev.config import schema, strict_yaml
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.risk import risk_rules
from agent_dev.risk.risk_rules import RiskRule

PROJECT = Path(__file__).parents[3]
PAGE = PROJECT / "docs/risks.md"
BEGIN, END = "<!-- figures: python -m tests.harness.risk.corpus -->\n", "<!-- end of figures -->\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A change: path, old content (None: none) and new content as text; characters below 256 stand for bytes."""

    group: str
    path: str
    before: str | None
    after: str
    mode: int = 0o644
    target: bytes = b""
    raw: bytes = b""  # the new content, if it is not text

    def change(self) -> Change:
        """Return the change as in a review."""
        was = None if self.before is None else Entry(FileType.FILE, size=len(_bytes(self.before)))
        size = len(self.raw or _bytes(self.after))
        now = Entry(FileType.SYMLINK if self.target else FileType.FILE, self.mode, size, target=self.target)
        is_same = not self.raw and self.before == self.after
        kind = ChangeKind.ADDED if was is None else ChangeKind.METADATA if is_same else ChangeKind.EDITED
        return Change(Key(0, self.path.encode()), kind, was, now)

    def rules(self, rules: tuple[RiskRule, ...]) -> tuple[str, ...]:
        """Return the names of the rules that match."""
        found = risk_rules.find_risks(self.change(), rules, self.raw or _bytes(self.after), lambda: _bytes(self.before or ""))
        return tuple(one.rule for one in found)


def _bytes(text: str) -> bytes:
    """Return the bytes of a program if the text begins like one, else UTF-8."""
    return text.encode("latin-1" if text.startswith(("\x7fELF", "MZ", "\0asm", "\xca\xfe")) else "utf-8")


def shipped() -> tuple[RiskRule, ...]:
    """Return the rules of profiles/risks.yaml."""
    tree, problems = strict_yaml.parse_tree((PROJECT / "profiles/risks.yaml").read_bytes())
    checked = schema.check_risk_rules(tree, risk_rules.CHOICES)
    assert (problems, checked.problems) == ((), ())
    return tuple(RiskRule(name=name, **rule) for name, rule in checked.fields.items())  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Score:
    """The number of marked changes in a group."""

    group: str
    marked: int
    all: int


def score(cases: Iterable[Case]) -> list[Score]:
    """Apply the rules to all cases; return a score for each group, in order."""
    rules = shipped()
    marked: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for case in cases:
        every[case.group] += 1
        marked[case.group] += bool(case.rules(rules))
    return [Score(group, marked[group], every[group]) for group in every]


def figures() -> str:
    """Return the tables of docs/risks.md."""
    from tests.harness.risk import harmless, planted  # deferred: they import Case

    found, alarms = score(planted.cases()), score(harmless.cases())
    return "\n".join([*_table("planted", "found", found), "", *_table("harmless", "false alarms", alarms), ""])


def _table(what: str, word: str, scores: list[Score]) -> list[str]:
    marked, every = sum(one.marked for one in scores), sum(one.all for one in scores)
    rows = [f"| {one.group} | {one.all} | {one.marked} | {100 * one.marked / one.all:.0f} % |" for one in scores]
    total = f"| **all** | **{every}** | **{marked}** | **{100 * marked / every:.1f} %** |"
    return [f"| {what} | changes | {word} | share |", "|---|---|---|---|", *rows, total]


def page(text: str) -> str:
    """Return the page with the current figures."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{figures()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(figures())
