"""docs/json.md lists exactly the keys of the rows that `log --commands --json` prints for a real session."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_dev.config.decisions import ALLOW, ASK, CHECKPOINT, DECISIONS, TRANSACT
from tests.harness.program import AgentDev, wait_until
from tests.sandbox.policy.watched import asking, session, written

PAGE = Path(__file__).parents[3] / "docs/json.md"
EVERY_START = {"n", "time", "pid", "parent", "cwd", "program", "argv", "decision"}
EVERY_END = {"n", "time", "pid", "argv", "exit", "duration"}
KEPT = (CHECKPOINT, TRANSACT)
SCRIPT = """
touch asked
touch forbidden
/bin/echo $(seq 100)
for n in 1 2 3 4 5 6 7 8 9; do /bin/true; done
mkdir made
rm -rf made
sh -c 'echo bad >bad; exit 3' transacted
read go
sh -c 'exit 3' transacted
"""


def tables() -> list[dict[str, str]]:
    """Return the two tables of the page: key → its description."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## log --commands\n")[2].partition("\n## ")[0]
    found: list[dict[str, str]] = []
    for line in section.splitlines():
        keys, _, holds = line.strip("| ").partition(" | ")
        if keys == "key":
            found.append({})
        elif line.startswith("| `"):
            found[-1] |= dict.fromkeys(re.findall(r"`(\w+)`", keys), holds)
    return found


@pytest.fixture
def rows(guarded: AgentDev) -> list[dict[str, Any]]:
    """Return the rows of a session in which each decision and each kind of end occurs."""
    path = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml"
    path.write_text("policy: guard\ncheckpoint_minutes: 0\n")  # a checkpoint at the start would recreate the directory
    with asking(guarded, SCRIPT) as process:
        assert guarded("approve", "1").returncode == 0
        wait_until(lambda: '"rolled_back": true' in written(guarded), "the first transaction is rolled back")
        shutil.rmtree(session(guarded) / "checkpoints")
        (session(guarded) / "checkpoints").write_text("in the way")
        process.communicate("\n", timeout=60)
    document = json.loads(guarded("log", "--commands", "--json").stdout)
    assert document.keys() == {"version", "session", "commands", "left_out", "problem"}
    found: list[dict[str, Any]] = document["commands"]
    return found


def test_the_documentation_matches_the_command_rows(rows: list[dict[str, Any]]) -> None:
    of_starts, of_ends = tables()
    starts = [row for row in rows if "decision" in row]
    ends = [row for row in rows if "decision" not in row]
    # A row may be written before its program has exited: then it has no exit code.
    assert set(of_starts) - {"exit"} <= set().union(*starts) <= set(of_starts)
    assert set().union(*ends) == set(of_ends)
    assert re.findall(r"`(\w+)`", of_starts["decision"]) == [*DECISIONS]
    assert {row["decision"] for row in starts} == set(DECISIONS)
    assert [row["n"] for row in rows] == [*range(1, len(rows) + 1)]
    for row in starts:
        decision = row["decision"]
        assert row.keys() >= EVERY_START
        assert ("waited" in row) == (decision != ALLOW)
        assert ("answer" in row) == (decision == ASK)
        assert "exit" not in row or decision == ALLOW
        assert ("checkpoint" in row) + ("problem" in row) == (decision in KEPT)
        assert ("truncated" in row) == (row["program"] == "/bin/echo")
    for row in ends:
        assert row.keys() >= EVERY_END
        assert ("rolled_back" in row) == ("problem" in row) == bool("checkpoint" in row and row["exit"])
