"""The nf_tables rules of a sandbox: send TCP and DNS to the gateway, and refuse everything else except loopback. Pure.

nat:  UDP 53 → gateway:53    TCP 53 → gateway:1    own addresses → unchanged    other TCP → gateway:1
out:  own addresses, the gateway → pass  all else → refused at once (port unreachable)
"""

import struct
from _socket import AF_INET, AF_INET6, inet_pton

from agent_dev.network import netlink
from agent_dev.network.netlink import attribute, nested, number, text

GATE4, GATE6 = "198.18.0.1", "fd00:ad::1"  # the gateway, as the sandbox sees it
OWN4, OWN6 = "198.18.0.2", "fd00:ad::2"  # the sandbox: not loopback, so that programs look names up
GATE_PORT, DNS_PORT = 1, 53  # privileged: no program in the sandbox can listen there
_TABLE = "agent_dev"
_V4, _V6, _TCP, _UDP = bytes((2,)), bytes((10,)), bytes((6,)), bytes((17,))
_NFPROTO, _L4PROTO = 15, 16  # keys of `meta`
_NETWORK, _TRANSPORT = 1, 2  # bases of `payload`
_ACCEPT, _RETURN = 1, -5
_INET, _HOOK_OUT = 1, 3
_SUBSYSTEM, _NEW_TABLE, _NEW_CHAIN, _NEW_RULE = 10 << 8, 0, 3, 6
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11


def _expression(name: str, *parts: bytes) -> bytes:
    return nested(1, text(1, name), nested(2, *parts))


def _meta_is(key: int, value: bytes) -> bytes:
    return _expression("meta", number(1, 1), number(2, key)) + _is(value)


def _payload_is(base: int, offset: int, value: bytes, mask: bytes = b"") -> bytes:
    load = _expression("payload", number(1, 1), number(2, base), number(3, offset), number(4, len(value)))
    return load + (_masked(mask) if mask else b"") + _is(value)


def _is_port(port: int) -> bytes:
    """Compare the destination port of TCP or UDP."""
    return _payload_is(_TRANSPORT, 2, struct.pack(">H", port))


def _is(value: bytes) -> bytes:
    return _expression("cmp", number(1, 1), number(2, 0), nested(3, attribute(1, value)))


def _masked(mask: bytes) -> bytes:
    parts = (number(1, 1), number(2, 1), number(3, len(mask)), nested(4, attribute(1, mask)))
    return _expression("bitwise", *parts, nested(5, attribute(1, bytes(len(mask)))))


def _verdict(code: int) -> bytes:
    return _expression("immediate", number(1, 0), nested(2, nested(2, attribute(1, struct.pack(">i", code)))))


def _immediate(register: int, data: bytes) -> bytes:
    return _expression("immediate", number(1, register), nested(2, attribute(1, data)))


def _redirect(family: int, address: bytes, port: int) -> bytes:
    target = _immediate(1, address) + _immediate(2, struct.pack(">HH", port, 0))
    return target + _expression("nat", number(1, 1), number(2, family), number(3, 1), number(5, 2))


def _refuse() -> bytes:
    return _expression("reject", number(1, 2), attribute(2, b"\1"))  # icmpx, port unreachable


def _chain(name: str, kind: str, priority: int) -> tuple[int, bytes]:
    hook = nested(4, number(1, _HOOK_OUT), attribute(2, struct.pack(">i", priority)))
    return _NEW_CHAIN, text(1, _TABLE) + text(3, name) + hook + text(7, kind)


def _rule(chain: str, *expressions: bytes) -> tuple[int, bytes]:
    return _NEW_RULE, text(1, _TABLE) + text(2, chain) + nested(4, *expressions)


class _Family:
    """The values that the rules for IPv4 or IPv6 compare."""

    def __init__(self, family: int, gate: str, own: str) -> None:
        self.number, self.gate = family, inet_pton(family, gate)
        is_four = family == AF_INET
        self.source, self.destination = (12, 16) if is_four else (8, 24)  # offsets in the IP header
        self.is_family = _meta_is(_NFPROTO, _V4 if is_four else _V6)
        loopback, mask = (b"\x7f\0\0\0", b"\xff\0\0\0") if is_four else (inet_pton(family, "::1"), b"")
        self.own = (self._to(inet_pton(family, own)), self.is_family + _payload_is(_NETWORK, self.destination, loopback, mask))

    def _to(self, address: bytes) -> bytes:
        return self.is_family + _payload_is(_NETWORK, self.destination, address)

    def redirections(self, dns: bytes, tcp: bytes) -> list[tuple[int, bytes]]:
        """Return the rules of the nat chain."""
        return [
            _rule("nat", self.is_family, dns, _redirect(self.number, self.gate, DNS_PORT)),
            _rule("nat", self.is_family, tcp, _is_port(DNS_PORT), _redirect(self.number, self.gate, GATE_PORT)),
            *(_rule("nat", own, _verdict(_RETURN)) for own in self.own),
            _rule("nat", self.is_family, tcp, _redirect(self.number, self.gate, GATE_PORT)),
        ]

    def passes(self, dns: bytes, tcp: bytes) -> list[tuple[int, bytes]]:
        """Return the rules of the filter chain, which sees packets after their redirection."""
        from_gate = self.is_family + _payload_is(_NETWORK, self.source, self.gate)
        return [
            *(_rule("out", own, _verdict(_ACCEPT)) for own in self.own),
            *(_rule("out", self._to(self.gate), kind, _verdict(_ACCEPT)) for kind in (tcp, dns)),
            _rule("out", from_gate, _verdict(_ACCEPT)),
        ]


def ruleset() -> list[bytes]:
    """Return the messages that make the table."""
    dns = _meta_is(_L4PROTO, _UDP) + _is_port(DNS_PORT)
    tcp = _meta_is(_L4PROTO, _TCP)
    families = (_Family(AF_INET, GATE4, OWN4), _Family(AF_INET6, GATE6, OWN6))
    parts = [
        (_NEW_TABLE, text(1, _TABLE)),
        _chain("nat", "nat", -100),
        _chain("out", "filter", 0),
        *(rule for family in families for rule in family.redirections(dns, tcp)),
        *(rule for family in families for rule in family.passes(dns, tcp)),
        _rule("out", _refuse()),
    ]
    flags = netlink.REQUEST | netlink.ACK | netlink.CREATE
    header = struct.pack(">BBH", _INET, 0, 0)
    edge = struct.pack(">BBH", 0, 0, _SUBSYSTEM >> 8)
    return [
        netlink.message(_BATCH_BEGIN, netlink.REQUEST, edge),
        *(netlink.message(_SUBSYSTEM | k, flags | (netlink.APPEND if k == _NEW_RULE else 0), header + body) for k, body in parts),
        netlink.message(_BATCH_END, netlink.REQUEST, edge),
    ]
