"""Print the number of injected faults at the end of a run; docs/faults.md has the full counts."""

import pytest


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
