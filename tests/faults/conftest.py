"""How many points were injected is said at the end of a run: docs/faults.md keeps the full counts."""

from collections.abc import Iterator

import pytest

from agent_dev.host import load
from tests.harness.ended import ENVIRON


@pytest.fixture(scope="module", autouse=True)
def rules_read_once() -> Iterator[None]:
    """Read the shipped rules of risk once for all the hundreds of reviews of a module: nothing is broken while they are read."""
    rules = load.risk_rules(ENVIRON)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "risk_rules", lambda _: rules)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts that tests recorded as `points`, by test function."""
    counts: dict[str, int] = {}
    for report in terminalreporter.getreports("passed"):
        for name, value in getattr(report, "user_properties", ()):
            if name == "points" and report.when == "call":
                function = report.nodeid.rpartition("::")[2].partition("[")[0]
                counts[function] = counts.get(function, 0) + int(str(value))
    for function, count in sorted(counts.items()):
        terminalreporter.write_line(f"{count:>8,} points  {function}")
