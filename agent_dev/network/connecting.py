"""Connect to an allowed destination: resolve its name, check every address, and connect only to these."""

import asyncio
import errno
import ipaddress
import os
import socket
from typing import Protocol

from agent_dev.config.network_rules import AddressRule, NameRule, RuleSet
from agent_dev.network import access
from agent_dev.network.access import Address, Destination

_RESOLVE, _CONNECT = 10, 10  # seconds
_LOOPBACK = ("127.0.0.1", "::1")


class Connector(Protocol):
    """Connects to a destination after checking its addresses."""

    async def addresses(self, rules: RuleSet, rule: NameRule | AddressRule, wanted: Destination) -> tuple[Address, ...]:
        """Return the checked addresses of an allowed destination. Raises Denied, OSError."""

    async def connect(self, wanted: Destination, addresses: tuple[Address, ...]) -> socket.socket:
        """Return a connection. Raises OSError."""


class DirectConnector:
    """Connects to the first of a destination's addresses that accepts a connection."""

    async def addresses(self, rules: RuleSet, rule: NameRule | AddressRule, wanted: Destination) -> tuple[Address, ...]:
        """Return the addresses of an allowed destination. Raises Denied if one must not be reached, OSError."""
        return await checked_addresses(rules, rule, wanted)

    async def connect(self, wanted: Destination, addresses: tuple[Address, ...]) -> socket.socket:
        """Return a connection. Raises OSError."""
        return await _connect_first(tuple(map(str, addresses)), wanted.port)


async def connect_local(port: int) -> socket.socket:
    """Return a connection to a port of the host's loopback. Raises OSError."""
    return await _connect_first(_LOOPBACK, port)


async def connect_to_host(host: str, port: int) -> socket.socket:
    """Return a connection to a host that the user has configured, without checking its address. Raises OSError."""
    return await _connect_first(tuple(map(str, await _resolve(host, port))), port)


async def checked_addresses(rules: RuleSet, rule: NameRule | AddressRule, wanted: Destination) -> tuple[Address, ...]:
    """Return the addresses of a destination that a rule allows. Raises Denied if one must not be reached, OSError."""
    if not isinstance(rule, NameRule):
        return (wanted.address,)
    found = await _resolve(wanted.name, wanted.port)
    access.check_addresses(rules, rule, wanted, found)
    return found


async def _resolve(name: str, port: int) -> tuple[Address, ...]:
    """Return a name's addresses. Raises OSError."""
    async with asyncio.timeout(_RESOLVE):
        try:
            host = name.encode() if name.isascii() else name  # bytes: else a codec is imported, 2 ms
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise OSError(f"the name cannot be resolved: {error}") from None
    return tuple(dict.fromkeys(ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in found))


async def _connect_first(addresses: tuple[str, ...], port: int) -> socket.socket:
    """Return a connection to the first of some addresses that accepts one. Raises OSError."""
    failure = OSError(errno.EHOSTUNREACH, "no address")
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            async with asyncio.timeout(_CONNECT):
                await asyncio.get_running_loop().sock_connect(made, (address, port))
        except OSError as error:  # TimeoutError, too
            made.close()
            failure = error
        except asyncio.CancelledError:
            made.close()
            raise
        else:
            return made
    raise failure


def failure_reason(error: OSError) -> str:
    """Return why a server was not reached. asyncio replaces the system's message, so it is read from the error number."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error) or "timed out"
