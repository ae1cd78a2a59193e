"""Decisions about connections: public and private addresses, names, rules."""

from ipaddress import IPv4Address, ip_address

import pytest

from agent_dev.config.network_rules import NameRule, RuleSet, parse_rules
from agent_dev.network.access import Denied, Destination, check_addresses, decide, destination
from agent_dev.network.addresses import is_private, is_public
from agent_dev.network.names import MAX_NAMES, POOL, NameTable

NOT_PUBLIC = [
    "127.0.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.168.1.1",
    "172.16.0.1",
    "0.0.0.0",  # noqa: S104
    "224.0.0.1",
    "239.1.1.1",
    "255.255.255.255",
    "198.18.0.1",
    "192.0.0.192",
    "168.63.129.16",
    "100.100.100.200",
    "240.0.0.1",
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "64:ff9b:1::808:808",
    "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:f5ff:fffe",
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "140.82.112.3", "2606:4700::1111", "64:ff9b::101:101"]


def wanted(name: str, address: str = "28.0.1.0", port: int = 443) -> Destination:
    return Destination(name, ip_address(address), port)


def named(rules: RuleSet, name: str) -> NameRule:
    rule = decide(rules, wanted(name))
    assert isinstance(rule, NameRule)
    return rule


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_special_addresses_are_not_public_also_embedded(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_global_addresses_are_public(text: str) -> None:
    assert is_public(ip_address(text))
    assert not is_private(ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_a_name_leads_to_no_address_that_is_not_public(text: str) -> None:
    rules = parse_rules(["a.example.org"])
    with pytest.raises(Denied, match="not public"):
        check_addresses(rules, named(rules, "a.example.org"), wanted("a.example.org"), (ip_address(text),))
    with pytest.raises(Denied, match="not public"):
        check_addresses(rules, named(rules, "a.example.org"), wanted("a.example.org"), (ip_address("1.1.1.1"), ip_address(text)))


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        *((text, True) for text in ("10.0.0.1", "192.168.1.1", "172.31.0.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1")),
        *((text, False) for text in ("127.0.0.1", "169.254.169.254", "100.100.100.200", "fd00:ec2::254", "::1", "fe80::1")),
        *((text, False) for text in ("224.0.0.1", "240.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1")),
    ],
)
def test_a_private_rule_opens_private_ranges_only(text: str, is_open: bool) -> None:  # noqa: FBT001
    rules = parse_rules(["a.example.org private"])
    try:
        check_addresses(rules, named(rules, "a.example.org"), wanted("a.example.org"), (ip_address(text),))
    except Denied:
        assert not is_open
    else:
        assert is_open


def test_deny_wins_for_names_and_for_what_they_lead_to() -> None:
    rules = parse_rules(["*.example.org", "1.1.1.1"], ["bad.example.org", "1.1.1.0/24"])
    for target in (wanted("bad.example.org"), wanted("", "1.1.1.1"), wanted("", "::ffff:1.1.1.1")):
        with pytest.raises(Denied, match="denied by the rule"):
            decide(rules, target)
    with pytest.raises(Denied, match=r"denied by the rule 1\.1\.1\.0/24"):
        check_addresses(rules, named(rules, "a.example.org"), wanted("a.example.org"), (ip_address("1.1.1.1"),))


@pytest.mark.parametrize("target", [wanted("b.example.org"), wanted("a.example.org", port=22), wanted("", "8.8.8.8")])
def test_a_destination_without_a_rule_is_denied(target: Destination) -> None:
    with pytest.raises(Denied, match="no rule allows it"):
        decide(parse_rules(["a.example.org", "1.1.1.1"]), target)


def test_an_address_of_the_gateway_or_of_no_name_is_denied() -> None:
    rules = parse_rules(["198.18.0.1:1", "0.0.0.0/0"])
    with pytest.raises(Denied, match="the gateway itself"):
        decide(rules, wanted("", "198.18.0.1", 1))
    with pytest.raises(Denied, match="no name has"):
        decide(parse_rules(["a.example.org"]), wanted("", "28.9.9.9"))


def test_a_wide_network_opens_public_addresses_only() -> None:
    rules = parse_rules(["0.0.0.0/0", "10.0.0.0/8:80"])
    assert decide(rules, wanted("", "8.8.8.8")).text == "0.0.0.0/0"
    assert decide(rules, wanted("", "10.1.1.1", 80)).text == "10.0.0.0/8:80"
    for text in ("10.1.1.1", "169.254.169.254"):
        with pytest.raises(Denied, match="wider than one private network"):
            decide(rules, wanted("", text))


@pytest.mark.parametrize("texts", [("a.example.org", "a.example.org private"), ("*.example.org", "a.example.org private")])
def test_the_order_of_rules_does_not_matter_for_private_names(texts: tuple[str, ...]) -> None:
    for ordered in (texts, texts[::-1]):
        rules = parse_rules(ordered)
        check_addresses(rules, named(rules, "a.example.org"), wanted("a.example.org"), (ip_address("10.0.0.1"),))


@pytest.mark.parametrize("texts", [("0.0.0.0/0", "10.0.0.0/8"), ("8.0.0.0/6", "10.1.1.1")])
def test_the_order_of_rules_does_not_matter_for_private_networks(texts: tuple[str, ...]) -> None:
    for ordered in (texts, texts[::-1]):
        assert decide(parse_rules(ordered), wanted("", "10.1.1.1")).text == texts[1]


def test_each_name_has_a_stand_in_address_that_leads_back() -> None:
    names = NameTable()
    first, second = names.address_of("a.example.org"), names.address_of("b.example.org")
    assert first == names.address_of("a.example.org") != second
    assert first in POOL
    assert names.name_of(second) == "b.example.org"
    assert names.name_of(IPv4Address("28.255.0.0")) == names.name_of(IPv4Address("28.0.0.1")) == ""
    assert destination(ip_address(f"::ffff:{first}"), 443, names).name == "a.example.org"


def test_the_table_of_names_is_bounded() -> None:
    names = NameTable()
    for number in range(MAX_NAMES):
        names.address_of(f"{number}.example.org")
    assert names.address_of("one.more.example.org") is None
    assert names.address_of("0.example.org") is not None
