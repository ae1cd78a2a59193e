"""Hosts of `ssh:`."""

import pytest

from agent_dev.config.ssh_rules import SshHost, SshRules, parse_host, ssh_rules


@pytest.mark.parametrize(
    ("text", "host", "known_name"),
    [
        ("GitHub.com", SshHost("github.com"), "github.com"),
        ("git@github.com", SshHost("github.com", user="git"), "github.com"),
        ("git@host:2222", SshHost("host", 2222, "git"), "[host]:2222"),
        ("[2001:db8::1]:2222", SshHost("2001:db8::1", 2222), "[2001:db8::1]:2222"),
        ("2001:db8::1", SshHost("2001:db8::1"), "2001:db8::1"),
    ],
)
def test_a_host_is_read(text: str, host: SshHost, known_name: str) -> None:
    assert (parse_host(text), parse_host(text).known_name) == (host, known_name)


@pytest.mark.parametrize("text", ["", "@host", "a b", "*", "!host", "host:0", "host:", "host:x", "[::1", "[::1]x", "a,b", "|1|x"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|is written|no user"):
        parse_host(text)


def test_values_become_rules() -> None:
    assert ssh_rules((("hosts", ("a",)), ("sign_git", True))) == SshRules((SshHost("a"),), (), signs_git=True)
