"""Print the number of injected faults at the end of a run; docs/faults.md has the full counts."""

from collections.abc import Iterator

import pytest

from agent_dev.merge_engine import journal_codec, journal_file


@pytest.fixture(autouse=True, scope="session")
def _short_records() -> Iterator[None]:
    """Write the journals of small merges in several records and calls, as those of large merges."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_codec, "PART", 1)
        patch.setattr(journal_file, "_BUFFER", 300)
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
