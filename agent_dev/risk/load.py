"""Load the risk rules: the shipped ones and the user's."""

import os

from agent_dev.config import validators
from agent_dev.config.load import SettingsFiles, lists_to_tuples, profiles_folder
from agent_dev.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from agent_dev.risk.risk_rules import RiskRule


def load_risk_rules(environ: dict[str, str]) -> "tuple[RiskRule, ...]":
    """Return the shipped rules in order, then the user's; a rule of the same name replaces the shipped one.

    Raises InvalidConfiguration with one line per problem.
    """
    from agent_dev.risk.risk_rules import CHOICES, RiskRule  # deferred until the agent runs: imports dataclasses and enum

    files = SettingsFiles(os.path.realpath(environ.get("HOME", "/")), environ, "risks.json", CHOICES)
    found: dict[str, dict[str, Any]] = {}
    for path in (f"{profiles_folder()}/risks.yaml", f"{files.config}/risks.yaml"):
        file = files.read(path, "rules")
        rules = file.fields.items() if file else ()
        found |= {name: lists_to_tuples(rule) for name, rule in rules if isinstance(rule, dict)}
    files.save_and_check()
    return tuple(RiskRule(name=name, **rule) for name, rule in found.items())


def check_rule_names(names: "Iterable[str]", environ: dict[str, str]) -> None:
    """Check the names of `--allow`. Raises UsageError for one that no rule has."""
    known = [rule.name for rule in load_risk_rules(environ)]
    for name in names:
        if name not in known:
            message = f"--allow {name}: no such rule in risks.yaml{validators.did_you_mean(name, known)}"
            raise UsageError(message=message, hint="agent-dev status shows the rules of a change; docs/risks.md lists all")
