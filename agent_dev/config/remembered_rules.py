"""Network rules that the user's answers made: `network/PROFILE.yaml`, next to the profiles, written by `approve --always`.

It has the keys `allow` and `deny` of a profile, and is read like one (config/load.py).
"""

import os

from agent_dev.config.load import REMEMBERED_KIND
from agent_dev.errors import InvalidConfiguration
from agent_dev.fs.state_files import DirectoryLock, replace_file
from agent_dev.sanitize import visible
from agent_dev.value import Value

ALLOW, DENY = "allow", "deny"
_ABOUT = (
    "# Hosts that `agent-dev approve --always` allows or denies this profile.\n"
    "# Remove what you no longer want; comments are not kept.\n"
)


class RememberedRules(Value):
    """Rules as texts."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


def read_rules(path: str) -> RememberedRules:
    """Return the rules of a file, none if it does not exist. Raises InvalidConfiguration."""
    if not os.path.exists(path):
        return RememberedRules()
    from agent_dev.config import strict_yaml  # deferred: yaml takes 13 ms, and the gateway reads only a file that has changed

    parsed = strict_yaml.parse(path, REMEMBERED_KIND)
    if parsed.problems:
        raise InvalidConfiguration(message="\n".join(map(visible, parsed.problems)))
    return RememberedRules(*(_texts(parsed.fields.get(field)) for field in (ALLOW, DENY)))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def remember(path: str, field: str, rule: str) -> None:
    """Add a rule to `allow` or `deny` in a file, and take it out of the other. Raises InvalidConfiguration, OSError."""
    folder = os.path.dirname(os.path.realpath(path))
    os.makedirs(folder, 0o700, exist_ok=True)
    with DirectoryLock(folder):
        rules = read_rules(path)
        lists = {ALLOW: [*rules.allow], DENY: [*rules.deny]}
        for name, texts in lists.items():
            if name == field and rule not in texts:
                texts.append(rule)
            elif name != field and rule in texts:
                texts.remove(rule)
        data = _ABOUT + "".join(_list_text(name, texts) for name, texts in lists.items() if texts)
        replace_file(os.path.realpath(path), data.encode(), is_durable=True)


def _list_text(name: str, texts: list[str]) -> str:
    return "".join((f"{name}:\n", *(f'  - "{text}"\n' for text in texts)))
