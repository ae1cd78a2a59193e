"""Mutations that remove the protections of `net: allow`, as in `tests.containment.mutations`."""

import ssl
import sys
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

from agent_dev.config import credentials
from agent_dev.config.network_rules import AddressRule, RuleSet
from agent_dev.config.ssh_rules import SshHost
from agent_dev.home import network_lease
from agent_dev.network import access, dns, gateway, inspection, names, namespace, packet_rules, standby
from agent_dev.network.broker import keys, push_check, start
from agent_dev.network.protocols import http_inspection
from agent_dev.network.published import automatic
from agent_dev.sandbox import plan
from agent_dev.ssh_agent import known_hosts, signatures

_FILE = "tests/containment/network/test_c_network.py"
_MORE = "tests/containment/network/test_c_network_more.py"
_SSH = "tests/containment/network/test_c_ssh_agent.py"
_CREDENTIALS = "tests/containment/network/test_c_credentials.py"
Mutation = tuple[Callable[[], None], str]


def _patched(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


def _with_all_addresses() -> None:
    allowing = RuleSet.allowing

    def allow(rules: RuleSet, port: int, *, name: str = "", address: Any = None) -> Any:
        network = ip_network("0.0.0.0/0" if address and address.version == 4 else "::/0")
        return AddressRule("all", network, ()) if address else allowing(rules, port, name=name)

    setattr(RuleSet, "allowing", allow)  # noqa: B010  (a frozen class to the type check)


def _with_open_ports() -> None:
    make = namespace._make_sockets

    def made(*parts: Any) -> list[int]:
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w", encoding="ascii") as file:
            file.write("0")
        return make(*parts)

    vars(namespace)["_make_sockets"] = made


def _with_host_network() -> None:
    build = plan.build_plan

    def built(*parts: Any) -> plan.SandboxPlan:
        made = build(*parts)
        return made.replace(unshare=tuple(name for name in made.unshare if name != "net"))

    vars(plan)["build_plan"] = built


class _EveryHost(dict[bytes, Any]):
    """Host keys of which every one is allowed."""

    def __contains__(self, _: object) -> bool:
        return True

    def __missing__(self, _: bytes) -> tuple[SshHost, ...]:
        return (SshHost("any"),)


def _with_http_alone() -> None:
    begin = start.start_broker
    vars(start)["start_broker"] = lambda *parts: {key: one for key, one in begin(*parts).items() if key[1] == inspection.HTTP}


def _with_any_certificate() -> None:
    make = start._outside_context

    def made(upstream_ca: str) -> ssl.SSLContext:
        context = make(upstream_ca)
        context.check_hostname = False
        return context

    vars(start)["_outside_context"] = made


def _with_any_key() -> None:
    replace = keys._real_value

    def real_value(key: Any, name: bytes, value: bytes) -> bytes:
        try:
            return replace(key, name, value)
        except access.Denied:
            return value

    vars(keys)["_real_value"] = real_value


NETWORK_MUTATIONS: dict[str, Mutation] = {
    "the name in TLS": (_patched(inspection.TlsInspector, "feed", lambda _, data: data), f"{_FILE} -k c60"),
    "the host of each HTTP request": (_patched(http_inspection.HttpInspector, "_check", lambda *_: None), f"{_FILE} -k c61"),
    "rules about addresses": (_with_all_addresses, f"{_FILE} -k c62"),
    "private addresses in wide rules": (_patched(access, "may_reach", lambda *_: True), f"{_FILE} -k c62"),
    "the check of a name's addresses": (_patched(access, "check_addresses", lambda *_: None), f"{_FILE} -k c63"),
    "the refusal of other protocols": (
        _patched(packet_rules, "_refuse", lambda: packet_rules._verdict(packet_rules._ACCEPT)),
        f"{_FILE} -k c64",
    ),
    "DNS without other records": (_patched(dns, "_answer", lambda *_: (0, bytes(4))), f"{_FILE} -k c65"),
    "privileged ports of the gateway": (_with_open_ports, f"{_FILE} -k c66"),
    "a network of its own": (_with_host_network, f"{_FILE} -k c67"),
    "one home per set of rules": (_patched(network_lease, "_find_conflict", lambda *_: ("", "")), f"{_FILE} -k c68"),
    "checked addresses without a rule": (_patched(access, "check_addresses", lambda *_: None), f"{_FILE} -k c69"),
    "variables with real keys": (_patched(credentials, "hidden_variables", lambda _: frozenset()), f"{_CREDENTIALS} -k c70"),
    "the refusal of other keys": (_with_any_key, f"{_CREDENTIALS} -k c71"),
    "the broker for TLS": (_with_http_alone, f"{_CREDENTIALS} -k c71"),
    "the host of a request with a key": (_patched(keys, "_check_form", lambda *_: None), f"{_CREDENTIALS} -k c72"),
    "the certificate of a host with a key": (_with_any_certificate, f"{_CREDENTIALS} -k c72"),
    "the branches of a push": (_patched(push_check.PushCheck, "_decide", lambda _: None), f"{_CREDENTIALS} -k c73"),
    "the hidden memory of keys": (_patched(start, "_hide_memory", lambda: None), f"{_CREDENTIALS} -k c74"),
    "the protocol of the first bytes": (
        _patched(inspection.Inspection, "_select", lambda *_: inspection.Opaque()),
        f"{_MORE} -k c80",
    ),
    "rules about addresses in every spelling": (_with_all_addresses, f"{_MORE} -k c81"),
    "rules about addresses for every kind of socket": (_with_all_addresses, f"{_MORE} -k c82"),
    "strict requests": (_patched(http_inspection.HttpInspector, "_check", lambda *_: None), f"{_MORE} -k c83"),
    "DNS over TCP without other records": (_patched(dns, "_answer", lambda *_: (0, bytes(4))), f"{_MORE} -k c84"),
    "a network for each session": (_with_host_network, f"{_MORE} -k c85"),
    "other numbers for known services": (_patched(automatic, "outside_ports", lambda inside: (inside, 0)), f"{_MORE} -k c86"),
    "an environment without proxies": (_patched(plan, "GATEWAY_NETS", ()), f"{_MORE} -k c87"),
    "no connection outside for an idle client": (
        _patched(inspection.Inspection, "client_speaks_first", False),
        f"{_MORE} -k c88",
    ),
    "the rate limit of DNS queries": (_patched(gateway, "_QUERIES", (1 << 30, 1 << 30)), f"{_MORE} -k c93"),
    "the bound of the table of names": (_patched(names, "MAX_NAMES", 1 << 30), f"{_MORE} -k c94"),
    "rules for a socket in a nested network": (_with_all_addresses, f"{_MORE} -k c89"),
    "the gateway's own libraries": (_patched(standby, "search_path", lambda _: sys.path), f"{_MORE} -k c92"),
    "hosts of the ssh-agent": (_patched(known_hosts, "read_host_keys", lambda *_: _EveryHost()), f"{_SSH} -k c90"),
    "signatures of hosts": (_patched(signatures, "is_signed", lambda *_: True), f"{_SSH} -k c91"),
}
