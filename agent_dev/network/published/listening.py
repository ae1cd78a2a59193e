"""Ask the kernel on which ports the programs in a network namespace listen (sock_diag(7))."""

import select
import socket
import struct
from collections.abc import Iterator
from ipaddress import ip_address

from agent_dev.network import netlink

_BY_FAMILY, _DUMP, _DONE = 20, 0x300, 3
_LISTEN_STATE = 10  # of TCP
_MAX_DATAGRAMS = 64
_STATE_OFFSET, _PORT_OFFSET, _ADDRESS_OFFSET = 16 + 1, 16 + 4, 16 + 8  # in a message: inet_diag_msg


def listening_ports(diag: socket.socket) -> set[int]:
    """Return the ports that accept a connection to 127.0.0.1 or ::1. Raises OSError."""
    found = (*_listeners(diag, socket.AF_INET), *_listeners(diag, socket.AF_INET6))
    return {port for port, address in found if _is_own(address)}


def _listeners(diag: socket.socket, family: int) -> Iterator[tuple[int, str]]:
    body = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 1 << _LISTEN_STATE) + bytes(48)
    _drop_old_responses(diag)
    diag.sendto(netlink.message(_BY_FAMILY, netlink.REQUEST | _DUMP, body), (0, 0))
    for _ in range(_MAX_DATAGRAMS):
        data = diag.recv(1 << 16)
        while len(data) >= 16:
            size, kind = struct.unpack_from("=IH", data)
            if kind != _BY_FAMILY:
                return  # the end, or an error
            if data[_STATE_OFFSET] == _LISTEN_STATE:
                yield _listener(data, family)
            data = data[max(16, (size + 3) & ~3) :]


def _listener(data: bytes, family: int) -> tuple[int, str]:
    packed = data[_ADDRESS_OFFSET : _ADDRESS_OFFSET + (4 if family == socket.AF_INET else 16)]
    return struct.unpack_from(">H", data, _PORT_OFFSET)[0], str(ip_address(packed))


def _drop_old_responses(diag: socket.socket) -> None:
    """Drop late responses to earlier requests."""
    while select.select([diag], [], [], 0)[0]:
        diag.recv(1 << 16)


def _is_own(text: str) -> bool:
    return text in {"127.0.0.1", "::1"} or ip_address(text).is_unspecified
