"""Load the command policy."""

from agent_dev.config.load import SettingsFiles, lists_to_tuples

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_dev.policy.command_rules import CommandRule, Policy


def load_policy(name: str, home: str, environ: dict[str, str]) -> "Policy":
    """Return a set of command rules by name: the user's rules, then the shipped ones, then those of the set it extends."""
    from agent_dev.policy import command_rules as policies  # deferred: not needed without a policy

    files = SettingsFiles(home, environ, "policy.json")
    found = [files.read(f"{folder}/policy.yaml", "policy") for folder in (files.config, files.folders[1])]
    files.save_and_check()
    sets: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for file in found:
        for set_name, one in file.fields.items() if file else ():
            if isinstance(one, dict):
                sets.setdefault(set_name, []).append((file.path if file else "", one))
    rules: list[policies.CommandRule] = []
    at, seen = name, set[str]()
    while at and at not in seen:
        if at not in sets:
            files.problems.append(f"policy: unknown set {at} (known: {', '.join(sets)})")
            break
        seen.add(at)
        rules += [_command_rule(path, rule) for path, one in sets[at] for rule in one.get("rules", ())]
        at = next((str(one["extends"]) for _, one in sets[at] if one.get("extends")), "")
    files.save_and_check()
    return policies.Policy(name, tuple(rules))


def digest_policy(policy: "Policy") -> str:
    """Return a digest of a set's rules, independent of their files and lines."""
    from hashlib import sha256  # deferred: only needed at the end of a session

    return sha256(repr([rule.replace(origin="") for rule in policy.rules]).encode("utf-8", "replace")).hexdigest()


def _command_rule(path: str, fields: dict[str, object]) -> "CommandRule":
    from agent_dev.policy.command_rules import CommandRule  # deferred: not needed without a policy

    known = {name: value for name, value in fields.items() if name != "line"}
    return CommandRule(origin=f"{path}:{fields['line']}", **lists_to_tuples(known))
