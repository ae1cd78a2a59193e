"""Print which of the real agents passed which test, and how long it took."""

from collections import defaultdict

import pytest

from tests.harness.agents.scripted import VERSIONS

COLUMNS = {
    "test_it_is_installed": "install",
    "test_it_makes_a_change": "task",
    "test_it_works_at_a_terminal": "terminal",
    "test_two_at_once": "two at once",
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a row for each agent that was run."""
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            name = getattr(report, "nodeid", "").rpartition("::")[2].partition("@")[0]  # pytest-xdist adds @ and the group
            test, _, agent = name.rstrip("]").partition("[")
            column = next((name for start, name in COLUMNS.items() if test.startswith(start)), "")
            if column and agent in VERSIONS:
                words = [f"{name} {value}" for name, value in report.user_properties]
                printed = "-" if outcome == "skipped" else f"{outcome}, {report.duration:.0f} s"
                rows[agent][column] = ", ".join((printed, *words))
    if rows:
        terminalreporter.section("agents")
        for agent, found in sorted(rows.items()):
            cells = (f"{name}: {found[name]}" for name in COLUMNS.values() if name in found)
            terminalreporter.write_line(f"{agent} {VERSIONS[agent]}".ljust(20) + "; ".join(cells))
