"""Ask the kernel on which ports the programs in a network namespace listen (sock_diag(7))."""

import _socket
import select
import struct

from agent_dev.network import netlink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SOCK_DIAG, _TIMEOUT = 4, 0.2  # the netlink protocol; seconds
_BY_FAMILY, _DUMP, _DONE = 20, 0x300, 3
_LISTEN_STATE = 10  # of TCP
_MAX_DATAGRAMS = 64
_STATE_OFFSET, _PORT_OFFSET, _ADDRESS_OFFSET = 16 + 1, 16 + 4, 16 + 8  # in a message: inet_diag_msg
_OWN = frozenset((bytes((127, 0, 0, 1)), bytes(4), bytes((*bytes(15), 1)), bytes(16)))  # loopback, and every address


def local_listening_ports() -> set[int]:
    """Return those ports of this process's network namespace; none if the kernel does not tell."""
    try:
        diag = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _SOCK_DIAG)
    except OSError:
        return set()
    try:
        diag.settimeout(_TIMEOUT)
        return listening_ports(diag)
    except OSError:
        return set()
    finally:
        diag.close()


def listening_ports(diag: _socket.socket) -> set[int]:
    """Return the ports that accept a connection to 127.0.0.1 or ::1. Raises OSError."""
    found = (*_listeners(diag, _socket.AF_INET), *_listeners(diag, _socket.AF_INET6))
    return {port for port, address in found if address in _OWN}


def _listeners(diag: _socket.socket, family: int) -> "Iterator[tuple[int, bytes]]":
    body = struct.pack("=BBBxI", family, _socket.IPPROTO_TCP, 0, 1 << _LISTEN_STATE) + bytes(48)
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


def _listener(data: bytes, family: int) -> tuple[int, bytes]:
    packed = data[_ADDRESS_OFFSET : _ADDRESS_OFFSET + (4 if family == _socket.AF_INET else 16)]
    return struct.unpack_from(">H", data, _PORT_OFFSET)[0], packed


def _drop_old_responses(diag: _socket.socket) -> None:
    """Drop late responses to earlier requests."""
    while select.select([diag], [], [], 0)[0]:
        diag.recv(1 << 16)
