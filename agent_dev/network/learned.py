"""Rules for what a sandbox reached: the list that `learn` prints, and the profile that `log --as-profile` prints. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from agent_dev.config.network_rules import HTTPS, LocalRule, NameRule, parse_rule
from agent_dev.sanitize import visible

_DENY = "deny"


def allow_rules(destinations: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return one rule for each name, with its ports, which are omitted if 443 is the only one."""
    ports: dict[str, set[int]] = {}
    for name, port in destinations:
        ports.setdefault(name, set()).add(port)
    return tuple(_rule(name, ports[name]) for name in sorted(ports))


def _rule(host: str, ports: set[int]) -> str:
    return host if ports == {HTTPS} else f"{host}:{','.join(map(str, sorted(ports)))}"


def profile_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the settings, in YAML, that allow the connections of a log that were allowed; denied ones are comments."""
    destinations: dict[tuple[str, int], None] = {}
    others: dict[str, None] = {}  # rules that are copied unchanged
    denied: dict[str, None] = {}
    for row in rows:
        rule = _parsed(str(row.get("rule", "")))
        host, port = str(row.get("name") or _bracketed(str(row.get("address")))), row.get("port")
        if row.get("decision") == _DENY or not isinstance(port, int):
            denied[f"{host}:{port}  {row.get('why')}"] = None
        elif isinstance(rule, LocalRule) or (isinstance(rule, NameRule) and rule.is_private):
            others[rule.text] = None
        elif not row.get("problem"):
            destinations[host, port] = None
    allowed = sorted({*allow_rules(destinations), *others})
    lines = ["net: allow", *(["allow:"] if allowed else []), *(f'  - "{rule}"' for rule in allowed)]
    lines += ["# denied:", *(f"#   {visible(text)}" for text in sorted(denied))] if denied else []
    return "".join(f"{line}\n" for line in lines)


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _parsed(text: str) -> object:
    try:
        return parse_rule(text)
    except ValueError:
        return None
