"""`agent-dev policy check`: it names the deciding rule, of the shipped rule sets or of the user."""

import json
from pathlib import Path

import pytest

from tests.harness.program import AgentDev

OWN = """\
guard:
  rules:
    - name: no-clean
      programs: [git]
      words: [clean]
      decision: deny
      message: clean by hand
mine:
  extends: strict
  rules:
    - {name: trees-too, programs: [rm], options: [-r], decision: allow}
"""


@pytest.fixture
def own(agent_dev: AgentDev) -> Path:
    path = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev" / "policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(OWN)
    return path


def check(agent_dev: AgentDev, *words: str) -> dict[str, str]:
    done = agent_dev("policy", "check", "--json", *words)
    assert done.returncode == 0, done.stderr
    value: dict[str, str] = json.loads(done.stdout)
    return value


def test_the_deciding_rule_is_named_with_its_location(agent_dev: AgentDev) -> None:
    done = agent_dev("policy", "check", "--", "git", "reset", "--hard")
    assert done.stdout.startswith("checkpoint: git reset --hard: rule reset-hard (/")
    assert "policy.yaml:" in done.stdout


def test_the_directory_of_the_command_matters(agent_dev: AgentDev) -> None:
    assert check(agent_dev, "--", "rm", "-rf", "../..")["decision"] == "deny"  # that is the home
    assert check(agent_dev, "--", "rm", "-rf", "..")["decision"] == "checkpoint"


def test_own_rules_precede_the_shipped_ones(agent_dev: AgentDev, own: Path) -> None:
    reported = check(agent_dev, "--", "git", "clean", "-n")
    assert (reported["decision"], reported["message"], reported["origin"]) == ("deny", "clean by hand", f"{own}:3")
    assert check(agent_dev, "--", "git", "reset", "--hard")["rule"] == "reset-hard"


def test_an_own_rule_set_extends_a_shipped_one(agent_dev: AgentDev, own: Path) -> None:
    assert check(agent_dev, "--set", "mine", "--", "rm", "-r", "/")["rule"] == "trees-too"
    assert check(agent_dev, "--set", "mine", "--", "git", "push")["decision"] == "ask"
    assert check(agent_dev, "--set", "mine", "--", "git", "clean")["rule"] == "no-clean"


def test_errors_are_reported_with_their_line(agent_dev: AgentDev, own: Path) -> None:
    own.write_text(OWN.replace("decision: deny", "decision: den"))
    done = agent_dev("policy", "check", "--", "ls")
    assert (done.returncode, f"{own}:6" in done.stderr, "did you mean deny?" in done.stderr) == (2, True, True)
    assert agent_dev("policy", "check", "--set", "strickt", "--", "ls").returncode == 2
    assert agent_dev("policy", "check").returncode == 2


def test_shadowed_rules_are_shown(agent_dev: AgentDev) -> None:
    assert "\x1b" not in agent_dev("policy", "check", "--", "rm", "-r", "\x1b[2Ja").stdout
