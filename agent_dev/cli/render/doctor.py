"""Print what `doctor` found as text or JSON."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_dev.cli.render.format import print_json, print_wrapped
from agent_dev.sanitize import visible

if TYPE_CHECKING:
    from agent_dev.run.doctor import Finding

_MARKS = {"well": "✓", "lacking": "-", "wrong": "✗"}


def print_findings(found: "Sequence[Finding]", *, as_json: bool) -> None:
    """Print the findings of doctor."""
    if as_json:
        rows = [
            {"check": one.subject, "result": one.result, "failed": one.has_failed, "hint": one.remedy or None} for one in found
        ]
        print_json({"version": 1, "findings": rows})
        return
    for line in finding_lines(found):
        print_wrapped(line)


def finding_lines(found: "Sequence[Finding]") -> Iterator[str]:
    """Return a line for each finding, and one for its hint."""
    for one in found:
        yield f"{_MARKS[one.state]} {visible(one.subject)}: {visible(one.result)}"
        if one.remedy:
            yield f"    hint: {one.remedy}"
