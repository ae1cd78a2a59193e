"""Mutations that remove the protections of `net: allow`, as in `tests.containment.mutations`."""

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

from agent_dev.config.network_rules import AddressRule, RuleSet
from agent_dev.home import mount_points
from agent_dev.network import access, dns, inspection, namespace, packet_rules
from agent_dev.sandbox import plan

_FILE = "tests/containment/network/test_c_network.py"
Mutation = tuple[Callable[[], None], str]


def _patched(owner: Any, name: str, value: Callable[..., Any]) -> Callable[[], None]:
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


NETWORK_MUTATIONS: dict[str, Mutation] = {
    "the name in TLS": (_patched(inspection.TlsInspector, "feed", lambda _, data: data), f"{_FILE} -k c60"),
    "the host of each HTTP request": (_patched(inspection.HttpInspector, "_check", lambda *_: None), f"{_FILE} -k c61"),
    "rules about addresses": (_with_all_addresses, f"{_FILE} -k c62"),
    "the check of a name's addresses": (_patched(access, "check_addresses", lambda *_: None), f"{_FILE} -k c63"),
    "the refusal of other protocols": (
        _patched(packet_rules, "_refuse", lambda: packet_rules._verdict(packet_rules._ACCEPT)),
        f"{_FILE} -k c64",
    ),
    "DNS without other records": (_patched(dns, "_answer", lambda *_: (0, bytes(4))), f"{_FILE} -k c65"),
    "privileged ports of the gateway": (_with_open_ports, f"{_FILE} -k c66"),
    "a network of its own": (_with_host_network, f"{_FILE} -k c67"),
    "one home per set of rules": (_patched(mount_points, "_can_lock", lambda *_: True), f"{_FILE} -k c68"),
}
