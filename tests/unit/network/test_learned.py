"""The rules that `net: learn` and `log --as-profile` make."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.config.network_rules import parse_rules
from agent_dev.config.strict_yaml import parse_data
from agent_dev.network.learned import allow_rules, profile_text

NAMES = st.from_regex(r"[a-z]{1,5}\.(example|test)", fullmatch=True)


def row(name: str, port: int = 443, **more: Any) -> dict[str, Any]:
    return {"name": name, "address": "28.0.1.0", "port": port, "decision": "allow", "rule": name, **more}


def test_ports_of_a_name_are_one_rule_and_443_alone_is_not_written() -> None:
    found = allow_rules([("b.example", 443), ("a.example", 443), ("b.example", 22), ("b.example", 443)])
    assert found == ("a.example", "b.example:22,443")


@given(st.lists(st.tuples(NAMES, st.integers(1, 65535)), max_size=20))
def test_learned_rules_allow_exactly_what_was_reached(reached: list[tuple[str, int]]) -> None:
    rules = parse_rules(allow_rules(reached))
    names, ports = {name for name, _ in reached}, {port for _, port in reached}
    allowed = {(name, port) for name in names for port in ports if rules.allowing(port, name=name)}
    assert allowed == set(reached)


def test_the_profile_has_what_was_reached_and_comments_about_the_rest() -> None:
    rows = [
        row("api.example"),
        row("api.example", 22, answer="always"),
        row("corp.example", 5432, rule="corp.example:5432 private"),
        row("localhost", 80, rule="localhost:8080 as 80"),
        row("gone.example", problem="timed out"),
        row("evil.example", decision="deny", why="no rule allows it\n- x"),
        {**row("", 53), "address": "2001:db8::1", "rule": "[2001:db8::1]:53"},
    ]
    text = profile_text(rows)
    parsed = parse_data("made", "profile", text.encode())
    assert not parsed.problems
    assert parsed.fields == {
        "net": "allow",
        "allow": ("[2001:db8::1]:53", "api.example:22,443", "corp.example:5432 private", "localhost:8080 as 80"),
    }
    assert "#   evil.example:443  no rule allows it" in text


@pytest.mark.parametrize("rows", [[], [{}], [{"name": 1, "port": "x"}], [{"port": 1, "decision": "allow"}]])
def test_a_strange_log_makes_settings_without_problems(rows: list[dict[str, Any]]) -> None:
    assert not parse_data("made", "profile", profile_text(rows).encode()).problems
