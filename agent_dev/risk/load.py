"""Load the risk rules: the shipped ones and the user's."""

import os

from agent_dev.config.load import SettingsFiles, lists_to_tuples, profiles_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
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
