"""Sessions with a policy: run scripts under the user's own rules, and read the log of started commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_dev.session.hash_chain import verify
from tests.harness.program import AgentDev, wait_until

if TYPE_CHECKING:
    import subprocess

OWN = """\
guard:
  rules:
    - {name: no-touch, programs: [touch], words: [forbidden], decision: deny, message: not that one.}
    - {name: not-here, programs: [touch], words: [somewhere], cwd: ["*/sub"], decision: deny, message: not here.}
    - {name: transact-sh, programs: [sh], arguments: [transacted*], decision: transact}
    - {name: ask-touch, programs: [touch], words: [asked], decision: ask, message: think again.}
"""


def sh(agent_dev: AgentDev, script: str, *options: str) -> tuple[int, str]:
    """Run a shell script inside; return its exit code and its output."""
    done = agent_dev("--no-merge", *options, "--", "sh", "-c", script)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def asking(agent_dev: AgentDev, script: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a shell script inside; yield the process once the first question is asked."""
    with agent_dev.start("--no-merge", "--", "sh", "-c", script) as process:
        wait_until(lambda: list((agent_dev.state / "sessions").glob("*/asks/1.json")), "the question is asked")
        yield process


def session(agent_dev: AgentDev) -> Path:
    """Return the directory of the newest session."""
    return max((agent_dev.state / "sessions").iterdir())


def written(agent_dev: AgentDev) -> str:
    """Return the current content of all command logs; the last line may be incomplete."""
    return "".join(path.read_text() for path in agent_dev.state.glob("sessions/*/commands.jsonl"))


def lines(agent_dev: AgentDev) -> list[dict[str, Any]]:
    """Return all lines of the newest session's log; check that its hash chain is intact."""
    found = verify(str(session(agent_dev) / "commands.jsonl"))
    assert found.problem == ""
    return list(found.rows)


def log(agent_dev: AgentDev) -> list[dict[str, Any]]:
    """Return the log lines of started commands."""
    return [row for row in lines(agent_dev) if "decision" in row]


def ends(agent_dev: AgentDev) -> list[dict[str, Any]]:
    """Return the log lines about how commands ended: long ones, and those that a rule matches."""
    return [row for row in lines(agent_dev) if "decision" not in row]
