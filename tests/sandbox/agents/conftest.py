"""Run each of the real agents in one process, and print which passed which test, and how long it took."""

from collections import defaultdict

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.harness.agents.scripted import VERSIONS

COLUMNS = {
    "test_it_is_installed": "install",
    "test_it_makes_a_change": "task",
    "test_it_works_at_a_terminal": "terminal",
    "test_two_at_once": "two at once",
}


class _ByAgent(LoadScopeScheduling):  # type: ignore[misc]
    """Runs the tests of an agent in one worker, because it is kept at one path, which only one process can use."""

    def _split_scope(self, nodeid: str) -> str:
        agent = nodeid.rpartition("[")[2].rstrip("]")
        return agent if agent in VERSIONS else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByAgent:
    """Return the scheduler of tests of agents. pytest-xdist 3.8 ignores groups with pytest 9.2."""
    return _ByAgent(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a row for each agent that was run."""
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            name = getattr(report, "nodeid", "").rpartition("::")[2]
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
