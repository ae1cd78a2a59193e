"""The sockets that the gateway gets from a network namespace."""

import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.linux import syscalls
from agent_dev.network import namespace, netlink, packet_rules
from agent_dev.network.namespace import NamespaceSpec


def _in_new_network(code: Callable[[], str]) -> str:
    """Call a function in a new network namespace, in a child process; return its result."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            syscalls.unshare(syscalls.NEWUSER | syscalls.NEWNET)
            up = struct.pack("=BBHiII", 0, 0, 0, socket.if_nametoindex("lo"), 1, 1)
            netlink.send(netlink.ROUTE, [netlink.message(16, netlink.REQUEST | netlink.ACK, up)], "lo")
            os.write(writer, code().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as file:
        found = file.read()
    os.waitpid(child, 0)
    return found


def _prepare(*, with_ipv6: bool) -> str:
    """Prepare the network namespace of this process; return the kinds of the sockets."""
    if not with_ipv6:
        for name in ("all", "default", "lo"):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    made = [socket.socket(fileno=fd) for fd in namespace._prepare_here(NamespaceSpec((8081,)), packet_rules.ruleset())]
    return " ".join(f"{one.family.name}:{one.getsockname()[1]}" for one in made)


@pytest.mark.parametrize("with_ipv6", [True, False])
def test_without_ipv6_the_network_has_ipv4_alone(*, with_ipv6: bool) -> None:
    found = _in_new_network(lambda: _prepare(with_ipv6=with_ipv6))
    four, six = ["AF_INET:1", "AF_INET:53"], ["AF_INET6:1", "AF_INET6:53"]
    local = ["AF_INET:8081", *(["AF_INET6:8081"] if with_ipv6 else [])]
    assert found.split()[1:] == [*four, *(six if with_ipv6 else []), *local]


@pytest.mark.parametrize("at", [1, 8, -2])
def test_a_rule_that_fails_is_reported_wherever_it_is(at: int) -> None:
    def send() -> str:
        rules = packet_rules.ruleset()
        rules[at] = rules[at][:20] + bytes(len(rules[at]) - 20)
        try:
            netlink.send(netlink.NETFILTER, rules, "rules")
        except OSError as error:
            return str(error)
        return "no error"

    assert _in_new_network(send).count("rules: ") == 1


def test_an_address_that_fails_is_reported_before_later_ones_succeed() -> None:
    def send() -> str:
        four = (socket.AF_INET, packet_rules.GATE4, packet_rules.OWN4)
        namespace._make_interface((four,))
        other = (socket.AF_INET, packet_rules.GATE4, "198.18.0.3")
        try:
            namespace._make_interface((other,))
        except OSError as error:
            return str(error)
        return "no error"

    assert _in_new_network(send).endswith("addresses and routes: File exists")
