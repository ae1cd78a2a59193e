"""Rules of `allow:` and `deny:`: their grammar, and what they match."""

from ipaddress import ip_address, ip_network

import pytest

from agent_dev.config.network_rules import AddressRule, LocalRule, NameRule, SocketRule, canonical_name, parse_rule, parse_rules


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("api.example.org", NameRule("api.example.org", "api.example.org", (443,))),
        ("API.Example.org.:22,443", NameRule("API.Example.org.:22,443", "api.example.org", (22, 443))),
        ("*.example.org:80", NameRule("*.example.org:80", "*.example.org", (80,))),
        ("git.corp.example:22 private", NameRule("git.corp.example:22 private", "git.corp.example", (22,), True)),
        ("bücher.example", NameRule("bücher.example", "xn--bcher-kva.example", (443,))),
        ("10.1.2.0/24:5432", AddressRule("10.1.2.0/24:5432", ip_network("10.1.2.0/24"), (5432,))),
        ("1.1.1.1", AddressRule("1.1.1.1", ip_network("1.1.1.1"), (443,))),
        ("[2001:db8::1]:22", AddressRule("[2001:db8::1]:22", ip_network("2001:db8::1"), (22,))),
        ("2001:db8::/32", AddressRule("2001:db8::/32", ip_network("2001:db8::/32"), (443,))),
        ("localhost:5432", LocalRule("localhost:5432", 5432, 5432)),
        ("localhost:53 as 5353", LocalRule("localhost:53 as 5353", 53, 5353)),
        ("localhost:8080 as 80", LocalRule("localhost:8080 as 80", 8080, 80)),
        ("unix:22,443", NameRule("unix:22,443", "unix", (22, 443))),
        ("unix:/run/postgresql/.s.PGSQL.5432", SocketRule("unix:/run/postgresql/.s.PGSQL.5432", "/run/postgresql/.s.PGSQL.5432")),
    ],
)
def test_a_rule_is_a_name_an_address_a_local_port_or_a_socket(text: str, rule: object) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not a host name"),
        ("a b", "not a host name"),
        ("-", "not a host name"),
        ("a..b", "not a host name"),
        ("x" * 64 + ".org", "not a host name"),
        ("*.org", "two labels"),
        ("*.*.example.org", "not a host name"),
        ("127.1", "not a host name"),
        ("0x7f000001", "not a host name"),
        ("https://example.org", "a URL is not a rule: HOST"),
        ("http://example.org:80/path", "a URL is not a rule: HOST"),
        ("example.org/path", "not a network"),
        ("a:b:c", "not a host name"),
        ("example.org:", "no port"),
        ("example.org:0", "not a port"),
        ("example.org:70000", "not a port"),
        ("example.org:4\N{ARABIC-INDIC DIGIT THREE}", "not a port"),
        ("example.org:443,", "not a port"),
        ("[::1", "brackets|written"),
        ("[example.org]:22", "not an address"),
        ("127.0.0.1:5432", "localhost:PORT"),
        ("[::1]:5432", "localhost:PORT"),
        ("10.1.2.3/24", "10.1.2.0/24"),
        ("localhost", "needs a port"),
        ("localhost:80 as x", "not a port"),
        ("localhost:53", "localhost:53 as PORT"),
        ("localhost:8053 as 53", "localhost:8053 as PORT"),
        ("unix:relative", "begins with /"),
        ("unix:/a/../b", "begins with /"),
        ("*.corp.example private", "exact name"),
        ("10.0.0.1 private", "only a name"),
        ("localhost:1 private", "only a name"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_rule(text)


@pytest.mark.parametrize("text", ["localhost:80", "unix:/run/x"])
def test_a_local_destination_cannot_be_denied(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be denied"):
        parse_rule(text, is_deny=True)


@pytest.mark.parametrize(
    ("name", "port", "is_allowed"),
    [
        ("api.example.org", 443, True),
        ("api.example.org", 80, False),
        ("xapi.example.org", 443, False),
        ("a.b.example.net", 8443, True),
        ("example.net", 8443, False),
        ("notexample.net", 8443, False),
    ],
)
def test_a_wildcard_is_every_name_below_and_a_rule_names_its_ports(name: str, port: int, is_allowed: bool) -> None:  # noqa: FBT001
    rules = parse_rules(["api.example.org", "*.example.net:443,8443"])
    assert bool(rules.allowing(port, name=name)) is is_allowed


def test_a_deny_rule_without_a_port_is_all_ports() -> None:
    rules = parse_rules(["*.example.net:22"], ["bad.example.net", "10.0.0.0/8"])
    assert rules.denying(22, name="bad.example.net")
    assert rules.denying(1, address=ip_address("10.9.9.9"))
    assert not rules.denying(22, name="good.example.net")


@pytest.mark.parametrize("name", ["", ".", "a.", "A.B.", "xn--bcher-kva.example", "_srv.a-b.c"])
def test_a_canonical_name_is_canonical(name: str) -> None:
    try:
        once = canonical_name(name)
    except ValueError:
        assert name in ("", ".")
    else:
        assert canonical_name(once) == once == name.lower().removesuffix(".")
