"""The values of `credentials:`."""

import pytest

from agent_dev.config import schema
from agent_dev.config.credentials import hidden_variables, inside_variables, parse_credentials
from agent_dev.config.strict_yaml import parse_tree

GOOD = """
credentials:
  anthropic: {host: API.anthropic.com, variable: ANTHROPIC_API_KEY, base_url: ANTHROPIC_BASE_URL}
  github: {host: github.com, variable: GH_TOKEN, user: x-access-token, push: [agent/*], command: [pass, show, gh]}
"""


def problems(text: str) -> list[str]:
    return [f"{one.line}: {one.text}" for one in schema.check_config(parse_tree(text.encode())[0]).problems]


def test_credentials_are_read_with_their_lines() -> None:
    found = schema.check_config(parse_tree(GOOD.encode())[0])
    assert found.problems == ()
    assert found.lines["credentials:github"] == 4
    anthropic, github = parse_credentials(found.fields["credentials"])  # type: ignore[arg-type]
    assert (anthropic.host, anthropic.env, anthropic.default_header) == ("api.anthropic.com", "ANTHROPIC_API_KEY", "x-api-key")
    assert (github.source, github.push, github.is_git) == ("$(pass …)", ("agent/*",), True)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("host: a.org", "has no `variable`"),
        ("variable: A", "has no `host`"),
        ("host: '*.a.org', variable: A", "is not a host name"),
        ("host: localhost, variable: A", "is the sandbox itself"),
        ("host: a.org, variable: 1A", "is not a variable name"),
        ("host: a.org, variable: A, env: B, file: /k", "one key has one source"),
        ("host: a.org, variable: A, file: k", "is not absolute"),
        ("host: a.org, variable: A, header: 'a b'", "is not written NAME"),
        ("host: a.org, variable: A, header: Host", "cannot have a key"),
        ("host: a.org, variable: A, user: 'a:b'", "is not a user name"),
        ('host: a.org, variable: A, user: "a\'b"', "is not a user name"),
        ("host: a.org, variable: A, user: a, header: b", "a user is for Basic"),
        ("host: a.org, variable: A, push: ['../main']", "is not a pattern of branches"),
        ("host: a.org, variable: A, methods: [get]", "is not a method"),
        ("host: a.org, variable: A, paths: [v1]", "is not a path of a URL"),
        ("host: a.org, variable: A, base_path: /v1", "no base_url"),
        ("host: a.org, variable: A, without_key: maybe", "is not one of forward, inject"),
        ("host: a.org, variable: A, hosts: b", "unknown key (did you mean host?)"),
    ],
)
def test_a_wrong_value_is_reported_with_its_line(fields: str, problem: str) -> None:
    (found,) = problems(f"credentials:\n  one: {{{fields}}}\n")
    assert found.startswith("2: credentials.one")
    assert problem in found


def test_a_repository_cannot_define_any() -> None:
    from agent_dev.config import repository_settings

    (found,) = repository_settings.check(parse_tree(GOOD.encode())[0]).problems
    assert found.text.startswith("credentials: not allowed in a repository")


def test_variables_that_may_hold_a_real_key_are_known() -> None:
    values = [
        ("a", (("host", "a.org"), ("variable", "A"), ("env", "B"))),
        ("b", (("host", "b.org"), ("variable", "C"), ("file", "/k"))),
    ]
    assert hidden_variables(values) == {"A", "B", "C"}


def test_gits_settings_are_added_to_those_that_exist() -> None:
    found = parse_credentials([("a", [["host", "a.org"], ["variable", "A"], ["push", ["x/*"]]])])
    inside = inside_variables(found, {"A": "stand-in"}, {"GIT_CONFIG_COUNT": "2"})
    assert (inside["A"], inside["GIT_CONFIG_COUNT"]) == ("stand-in", "5")
    assert (inside["GIT_CONFIG_KEY_2"], inside["GIT_CONFIG_VALUE_2"]) == ("url.http://a.org/.insteadOf", "https://a.org/")
    assert '"$A"' in inside["GIT_CONFIG_VALUE_4"]
