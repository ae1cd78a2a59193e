"""Prepare the network namespace that bubblewrap created: addresses, routes, rules, and the sockets for the gateway.

A helper process enters it while bubblewrap waits for the signal to start the agent. The user owns the user namespace to which it
belongs, and so the helper has every capability there (user_namespaces(7)). The agent is in that user namespace or a nested one,
and has no capability in it, so it cannot change any of this.

    launcher ── forks, sends a pid ──▶ helper: setns, addresses, routes, rules, sockets ── descriptors ──▶ launcher ──▶ gateway
"""

import _socket
import errno
import fcntl
import os
import struct

from agent_dev.config.network_rules import LocalRule, parse_rule
from agent_dev.linux import signals, syscalls
from agent_dev.linux.helper_process import FAILED, READY
from agent_dev.network import netlink
from agent_dev.network.gateway_options import GatewayOptions
from agent_dev.network.packet_rules import DNS_PORT, GATE4, GATE6, GATE_PORT, OWN4, OWN6, ruleset
from agent_dev.network.passing_fds import MAX_FDS, send_fds
from agent_dev.value import Value

_NS_GET_USERNS = 0xB701
_BACKLOG = 4096
_PATIENCE = 10  # seconds
_MAX_DIGITS = 20
_NEW_LINK, _NEW_ADDRESS, _NEW_ROUTE = 16, 20, 24
_FLAGS = netlink.REQUEST | netlink.ACK | netlink.CREATE | netlink.EXCLUDE
_V6ONLY = 26
_SOCK_DIAG = 4


class NamespaceSpec(Value):
    """The parts of a network namespace that are prepared."""

    local_ports: tuple[int, ...] = ()  # ports of its loopback that lead to the host's
    is_captured: bool = True  # its connections go to the gateway; otherwise they fail, as with `none`
    has_opener: bool = False  # a process creates sockets in it, for published ports


def namespace_spec(options: GatewayOptions) -> NamespaceSpec:
    """Return what the options of a gateway need of its namespace."""
    ports = tuple(dict.fromkeys(rule.inside for rule in map(parse_rule, options.allow) if isinstance(rule, LocalRule)))
    return NamespaceSpec(ports, options.mode != "none", bool(options.publish))


def serve(control: _socket.socket, spec: NamespaceSpec) -> None:
    """Prepare the network namespace of the process whose pid the launcher sends, and send it the sockets, or why it failed.

    In order: one for sock_diag(7); with an opener, the socket that leads to it; if connections are captured, TCP and DNS for
    IPv4, the same for IPv6 if the kernel has it, and for each local port a listener for each of these families.
    """
    rules = ruleset() if spec.is_captured else []  # now, while bubblewrap starts
    pid = int(control.recv(_MAX_DIGITS) or b"0")
    if not pid:
        return  # the launcher has ended
    signals.set_alarm(_PATIENCE)
    try:
        _enter(pid)
        netlink.wait_until_up("lo")  # bubblewrap adds 127.0.0.1 first, and fails if it already exists
        diag, *others = _prepare_here(spec, rules)
    except OSError as error:
        control.send(FAILED + (error.strerror or str(error)).encode("utf-8", "replace"))
        return
    if not spec.has_opener:
        send_fds(control, READY, [diag, *others])
        return
    from agent_dev.network.published import opener  # only with published ports

    requests, gateways = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    send_fds(control, READY, [diag, gateways.detach(), *others])
    opener.run(requests)


def try_support() -> None:
    """Prepare a network namespace of this process, as a test of the machine. Raises OSError."""
    syscalls.unshare(syscalls.NEWUSER | syscalls.NEWNET)
    up = struct.pack("=BBHiII", 0, 0, 0, _socket.if_nametoindex("lo"), 1, 1)
    netlink.send(netlink.ROUTE, [netlink.message(_NEW_LINK, netlink.REQUEST | netlink.ACK, up)], "lo")
    _prepare_here(NamespaceSpec(), ruleset())


def _prepare_here(spec: NamespaceSpec, rules: list[bytes]) -> list[int]:
    if 2 * len(spec.local_ports) + 6 > MAX_FDS:
        raise OSError(errno.EMFILE, "too many localhost rules")
    diag = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _SOCK_DIAG).detach()
    if not spec.is_captured:
        return [diag]
    families = _families()
    _make_interface(families)
    netlink.send(netlink.NETFILTER, rules, "nf_tables")
    return [diag, *_make_sockets(families, spec.local_ports)]


def _enter(pid: int) -> None:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if os.fstat(network).st_ino == os.stat("/proc/self/ns/net").st_ino:
        raise OSError(errno.EINVAL, "the sandbox has no network namespace of its own")
    owner = fcntl.ioctl(network, _NS_GET_USERNS)
    syscalls.setns(owner, syscalls.NEWUSER)
    syscalls.setns(network, syscalls.NEWNET)


def _families() -> tuple[tuple[int, str, str], ...]:
    """Return the address families of this namespace, each with the addresses of gateway and sandbox."""
    four, six = (_socket.AF_INET, GATE4, OWN4), (_socket.AF_INET6, GATE6, OWN6)
    try:
        with open("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "rb", 0) as file:
            return (four, six) if file.read(1) == b"0" else (four,)
    except OSError:
        return (four,)  # the kernel has no IPv6


def _make_interface(families: tuple[tuple[int, str, str], ...]) -> None:
    """Give lo addresses outside the loopback range, and a default route.

    The routes exist only so that connect() finds one: the rules redirect or refuse every packet.
    """
    lo = _socket.if_nametoindex("lo")
    messages = [
        netlink.message(_NEW_ADDRESS, _FLAGS, _address(family, address, lo))
        for family, *addresses in families
        for address in addresses
    ]
    messages += [netlink.message(_NEW_ROUTE, _FLAGS, _route(family, own, lo)) for family, _, own in families]
    netlink.send(netlink.ROUTE, messages, "addresses and routes")


def _address(family: int, address: str, interface: int) -> bytes:
    packed = _socket.inet_pton(family, address)
    no_dad = 2 if family == _socket.AF_INET6 else 0  # usable at once
    header = struct.pack("=BBBBI", family, 8 * len(packed), no_dad, 0, interface)
    return header + netlink.attribute(2, packed) + netlink.attribute(1, packed)  # IFA_LOCAL, IFA_ADDRESS


def _route(family: int, own: str, interface: int) -> bytes:
    scope = 0 if family == _socket.AF_INET6 else 253
    header = struct.pack("=BBBBBBBBI", family, 0, 0, 0, 254, 4, scope, 1, 0)  # main table, static, unicast
    return header + netlink.attribute(4, struct.pack("=I", interface)) + netlink.attribute(7, _socket.inet_pton(family, own))


def _make_sockets(families: tuple[tuple[int, str, str], ...], local_ports: tuple[int, ...]) -> list[int]:
    found: list[int] = []
    for family, gate, _ in families:
        found += [_listener(family, gate, GATE_PORT), _bound(family, _socket.SOCK_DGRAM, gate, DNS_PORT).detach()]
    for port in local_ports:
        found += [_listener(family, "::1" if family == _socket.AF_INET6 else "127.0.0.1", port) for family, *_ in families]
    return found


def _listener(family: int, address: str, port: int) -> int:
    made = _bound(family, _socket.SOCK_STREAM, address, port)
    made.listen(_BACKLOG)
    return made.detach()


def _bound(family: int, kind: int, address: str, port: int) -> _socket.socket:
    made = _socket.socket(family, kind | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK)
    made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    if family == _socket.AF_INET6:
        made.setsockopt(_socket.IPPROTO_IPV6, _V6ONLY, 1)
    made.bind((address, port))
    return made
