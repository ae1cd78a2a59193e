"""Prepare the network namespace that bubblewrap created: addresses, routes, rules, and the sockets for the gateway.

A helper process enters it while bubblewrap waits for the signal to start the agent. The user owns the user namespace to which it
belongs, and so the helper has every capability there (user_namespaces(7)). The agent is in that user namespace or a nested one,
and has no capability in it, so it cannot change any of this.

    launcher ── forks ──▶ helper: setns, addresses, routes, rules, sockets ── descriptors ──▶ launcher ──▶ gateway
"""

import _socket
import errno
import fcntl
import os
import struct

from agent_dev.linux import signals, syscalls
from agent_dev.network import netlink
from agent_dev.network.packet_rules import DNS_PORT, GATE4, GATE6, GATE_PORT, OWN4, OWN6, ruleset
from agent_dev.network.passing_fds import MAX_FDS, receive_fds, send_fds
from agent_dev.value import Value

_NS_GET_USERNS = 0xB701
_BACKLOG = 4096
_PATIENCE = 10  # seconds
_OK = b"+"
_NEW_LINK, _NEW_ADDRESS, _NEW_ROUTE = 16, 20, 24
_FLAGS = netlink.REQUEST | netlink.ACK | netlink.CREATE | netlink.EXCLUDE
_V6ONLY = 26
_SOCK_DIAG = 4


class NamespaceSpec(Value):
    """The parts of a network namespace that are prepared."""

    local_ports: tuple[int, ...] = ()  # ports of its loopback that lead to the host's
    is_captured: bool = True  # its connections go to the gateway; otherwise they fail, as with `none`
    has_opener: bool = False  # a process creates sockets in it, for published ports


class PreparedNamespace(Value):
    """The gateway's sockets in a network namespace, and the pid of its opener, 0 without one.

    In order: one for sock_diag(7); with an opener, the socket that leads to it; if connections are captured, TCP and DNS for
    IPv4, the same for IPv6 if the kernel has it, and for each local port a listener for each of these families.
    """

    fds: list[int]
    opener: int


def prepare_namespace(pid: int, spec: NamespaceSpec) -> PreparedNamespace:
    """Prepare the network namespace of a process. Raises OSError."""
    if 2 * len(spec.local_ports) + 6 > MAX_FDS:
        raise OSError(errno.EMFILE, "too many localhost rules")
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    launcher = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _run_helper(pid, spec, theirs, launcher)
        finally:
            os._exit(1)
    theirs.close()
    try:
        data, fds = receive_fds(ours)
    finally:
        ours.close()
    if data[:1] == _OK and spec.has_opener:
        return PreparedNamespace(fds, child)
    os.waitpid(child, 0)
    if data[:1] != _OK:
        number, _, reason = data.decode("utf-8", "replace").partition("\0")
        raise OSError(int(number or 0), reason or "the helper process died")
    return PreparedNamespace(fds, 0)


def _run_helper(pid: int, spec: NamespaceSpec, report: _socket.socket, launcher: int) -> None:
    signals.set_alarm(_PATIENCE)
    try:
        _enter(pid)
        netlink.wait_until_up("lo")  # bubblewrap adds 127.0.0.1 first, and fails if it already exists
        diag, *others = _prepare_here(spec)
        if not spec.has_opener:
            send_fds(report, _OK, [diag, *others])
            return
        from agent_dev.network.published import opener  # only with published ports

        requests, gateways = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        send_fds(report, _OK, [diag, gateways.detach(), *others])
        opener.run(requests, launcher)
    except OSError as error:
        report.send(b"%d\0" % (error.errno or 0) + (error.strerror or str(error)).encode("utf-8", "replace"))


def try_support() -> None:
    """Prepare a network namespace of this process, as a test of the machine. Raises OSError."""
    syscalls.unshare(syscalls.NEWUSER | syscalls.NEWNET)
    up = struct.pack("=BBHiII", 0, 0, 0, _socket.if_nametoindex("lo"), 1, 1)
    netlink.send(netlink.ROUTE, [netlink.message(_NEW_LINK, netlink.REQUEST | netlink.ACK, up)], "lo")
    _prepare_here(NamespaceSpec())


def _prepare_here(spec: NamespaceSpec) -> list[int]:
    diag = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _SOCK_DIAG).detach()
    if not spec.is_captured:
        return [diag]
    families = _families()
    _make_interface(families)
    netlink.send(netlink.NETFILTER, ruleset(), "nf_tables")
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
