"""Load the risk rules: the shipped ones and the user's."""

import os

from agent_dev.config import validators
from agent_dev.config.load import SettingsFiles, lists_to_tuples, profiles_folder
from agent_dev.errors import UsageError
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
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
    for name, problem in _unknown_rules(names, environ):
        hint = "agent-dev status shows the rules of a change; docs/risks.md lists all"
        raise UsageError(message=f"--allow {name}: {problem}", hint=hint)


def tx_allow_problems(names: "Iterable[str]", origins: dict[str, str], environ: dict[str, str]) -> tuple[str, ...]:
    """Return a problem, with file and line, for each name of the setting `tx_allow` that no rule has."""
    return tuple(
        visible(f"{origins.get(f'tx_allow:{name}', 'config.yaml')}: tx_allow: {name}: {problem}")
        for name, problem in _unknown_rules(names, environ)
    )


def _unknown_rules(names: "Iterable[str]", environ: dict[str, str]) -> "Iterator[tuple[str, str]]":
    wanted = tuple(names)
    known = [rule.name for rule in load_risk_rules(environ)] if wanted else []
    for name in wanted:
        if name not in known:
            yield name, f"no such rule in risks.yaml{validators.did_you_mean(name, known)}"
