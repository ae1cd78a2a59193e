"""Messages for rtnetlink and nf_tables (netlink(7)). Encoding is pure; `send` sends them.

It uses `_socket`, since it is on the launch path (docs/decisions/0002-launch-path-imports.md).
"""

import _socket
import os
import struct

ROUTE, NETFILTER = 0, 12  # netlink protocols
REQUEST, ACK, EXCLUDE, CREATE, APPEND = 1, 4, 0x200, 0x400, 0x800
_ERROR, _NESTED = 2, 0x8000
_TIMEOUT = 5  # seconds


def attribute(kind: int, data: bytes) -> bytes:
    """Return an attribute, padded."""
    size = 4 + len(data)
    return struct.pack("=HH", size, kind) + data + bytes(-size % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    """Return an attribute that contains attributes."""
    return attribute(kind | _NESTED, b"".join(parts))


def text(kind: int, value: str) -> bytes:
    """Return an attribute with a NUL-terminated string."""
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    """Return an attribute with a 32-bit number in network order."""
    return attribute(kind, struct.pack(">I", value))


def message(kind: int, flags: int, body: bytes) -> bytes:
    """Return a message."""
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body


def errors(data: bytes) -> list[int]:
    """Return the error number of each acknowledgement in a datagram; 0 is success."""
    found = []
    while len(data) >= 20:
        size, kind = struct.unpack_from("=IH", data)
        if kind == _ERROR:
            found.append(-struct.unpack_from("=i", data, 16)[0])
        data = data[max(16, (size + 3) & ~3) :]
    return found


def send(protocol: int, messages: list[bytes], what: str) -> None:
    """Send messages in one datagram and wait for the acknowledgement of the last. Raises OSError for the first that failed."""
    with _socket_of(protocol) as netlink:
        netlink.sendto(b"".join(_acknowledged_once(messages)), (0, 0))
        while True:
            found = errors(netlink.recv(1 << 16))
            for error in filter(None, found):
                raise OSError(error, f"{what}: {os.strerror(error)}")
            if found:
                return


def _acknowledged_once(messages: list[bytes]) -> list[bytes]:
    """Return messages of which only the last is acknowledged that asks for it; a failed one is reported in any case."""
    wanted = [at for at, one in enumerate(messages) if struct.unpack_from("=H", one, 6)[0] & ACK]
    quiet = {*wanted[:-1]}
    return [_without_ack(one) if at in quiet else one for at, one in enumerate(messages)]


def _without_ack(one: bytes) -> bytes:
    (flags,) = struct.unpack_from("=H", one, 6)
    return one[:6] + struct.pack("=H", flags & ~ACK) + one[8:]


class _Closing:
    """A context manager for a socket of `_socket`, which is none itself."""

    def __init__(self, opened: _socket.socket) -> None:
        self._opened = opened

    def __enter__(self) -> _socket.socket:
        return self._opened

    def __exit__(self, *_: object) -> None:
        self._opened.close()


def _socket_of(protocol: int, groups: int = 0) -> _Closing:
    opened = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, protocol)
    opened.settimeout(_TIMEOUT)
    opened.bind((0, groups))
    return _Closing(opened)


_LINK_EVENTS = 1  # RTMGRP_LINK
_IS_UP = 1  # IFF_UP


def wait_until_up(interface: str) -> None:
    """Wait until an interface of this network namespace is up. Raises TimeoutError."""
    import fcntl  # only if the sandbox has its own network

    request = interface.encode().ljust(40, b"\0")
    with _socket_of(ROUTE, _LINK_EVENTS) as events:  # first, so that no event is missed
        while not struct.unpack_from("=H", fcntl.ioctl(events.fileno(), 0x8913, request), 16)[0] & _IS_UP:  # SIOCGIFFLAGS
            events.recv(1 << 16)
