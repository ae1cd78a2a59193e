"""Request a connection from a proxy: HTTP CONNECT (RFC 9110), SOCKS5 with a password (RFC 1928, RFC 1929).

Only the proxy's response is read: bytes that follow in the same packet are the server's, and stay in the socket.
"""

import asyncio
import base64
import ipaddress
import socket

from agent_dev.config.upstream_proxy import UpstreamProxy

_MAX_HEAD = 16384
_OK = (200, 299)
_WRONG_PASSWORD = "the proxy rejected the user and password"  # noqa: S105  (a message)
_ANY, _PASSWORD, _NO_METHOD = 0, 2, 0xFF  # SOCKS5: methods
_V4, _NAME, _V6 = 1, 3, 4  # kinds of addresses
_REASONS = {1: "it failed", 2: "its rules forbid it", 3: "the network is unreachable", 4: "the host is unreachable"}
_REASONS |= {
    5: "the connection was refused",
    6: "the connection timed out",
    7: "it cannot connect",
    8: "unsupported address type",
}


def _failure(text: str) -> OSError:
    return OSError(text)


async def http_connect(connection: socket.socket, proxy: UpstreamProxy, host: str, port: int) -> None:
    """Request a connection from an HTTP proxy. Raises OSError."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.user:
        token = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {token}")
    await asyncio.get_running_loop().sock_sendall(connection, "\r\n".join((*lines, "", "")).encode())
    head = b""
    while not head.endswith((b"\r\n\r\n", b"\n\n")):
        head += await _read(connection, 1)
        if len(head) > _MAX_HEAD:
            raise _failure("the headers of the proxy's response are too long")
    _check_status(head)


def _check_status(head: bytes) -> None:
    version, _, rest = head.partition(b"\n")[0].decode("latin-1").strip().partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdecimal()):
        raise _failure("the proxy's response is not HTTP")
    if code == "407":
        raise _failure(f"{_WRONG_PASSWORD} (407)")
    if not _OK[0] <= int(code) <= _OK[1]:
        raise _failure(f"the proxy refuses: {rest[:80]}")


async def socks_connect(connection: socket.socket, proxy: UpstreamProxy, host: str, port: int) -> None:
    """Request a connection from a SOCKS5 proxy, which resolves names. Raises OSError."""
    loop = asyncio.get_running_loop()
    methods = bytes((_ANY, _PASSWORD)) if proxy.user else bytes((_ANY,))
    await loop.sock_sendall(connection, bytes((5, len(methods))) + methods)
    version, method = await _read(connection, 2)
    if version != 5:
        raise _failure("the proxy's response is not SOCKS5")
    if method == _NO_METHOD or method not in methods:
        reason = "the proxy requires another authentication method" if proxy.user else "the proxy requires a user and password"
        raise _failure(reason)
    if method == _PASSWORD:
        await _log_in(connection, proxy)
    await loop.sock_sendall(connection, b"\5\1\0" + _address(host) + port.to_bytes(2, "big"))
    _, code, _, kind = await _read(connection, 4)
    if code:
        raise _failure(f"the proxy refuses: {_REASONS.get(code, f'code {code}')}")
    size = {_V4: 4, _V6: 16}.get(kind) or (await _read(connection, 1))[0]
    await _read(connection, size + 2)


async def _log_in(connection: socket.socket, proxy: UpstreamProxy) -> None:
    user, password = proxy.user.encode(), proxy.password.encode()
    if len(user) > 255 or len(password) > 255:
        raise _failure("the proxy's user or password is longer than SOCKS5 allows")
    request = bytes((1, len(user))) + user + bytes((len(password),)) + password
    await asyncio.get_running_loop().sock_sendall(connection, request)
    if (await _read(connection, 2))[1]:
        raise _failure(_WRONG_PASSWORD)


def _address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("ascii")
        return bytes((_NAME, len(name))) + name
    return bytes((_V4 if address.version == 4 else _V6,)) + address.packed


async def _read(connection: socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes. Raises OSError at the end of the stream."""
    data = b""
    while len(data) < size:
        piece = await asyncio.get_running_loop().sock_recv(connection, size - len(data))
        if not piece:
            raise _failure("the proxy closed the connection")
        data += piece
    return data
