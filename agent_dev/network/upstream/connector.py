"""The connector for an upstream proxy. The proxy resolves names; hosts in `no_proxy` are reached directly."""

import asyncio
import socket
import time

from agent_dev.config.network_rules import AddressRule, NameRule, RuleSet
from agent_dev.config.upstream_proxy import HTTP, UpstreamProxy, is_excepted
from agent_dev.network.access import Address, Destination
from agent_dev.network.connecting import DirectConnector, checked_addresses, connect_to_host
from agent_dev.network.upstream.handshakes import http_connect, socks_connect

_HANDSHAKE = 30  # seconds
_RESOLVE = 2  # seconds to resolve a name that the proxy also resolves
_FORGET = 60  # seconds after which a name that was not resolved is tried again
_MAX_UNKNOWN = 4096  # names


class UpstreamConnector:
    """Connects through a proxy."""

    def __init__(self, proxy: UpstreamProxy, exceptions: tuple[str, ...]) -> None:
        self._proxy, self._exceptions, self._direct = proxy, exceptions, DirectConnector()
        self._unknown: dict[str, float] = {}  # names that were not resolved here, and when

    async def addresses(self, rules: RuleSet, rule: NameRule | AddressRule, wanted: Destination) -> tuple[Address, ...]:
        """Return the addresses that may be reached; none for a name that only the proxy can resolve. Raises Denied, OSError.

        If this machine can also resolve the name, its addresses are checked: an allowed name that resolves to a private address
        is refused. Otherwise, only the name can be checked.
        """
        if self._is_direct(wanted) or not isinstance(rule, NameRule):
            return await checked_addresses(rules, rule, wanted)
        if time.monotonic() - self._unknown.get(wanted.name, -_FORGET) < _FORGET:
            return ()
        try:
            async with asyncio.timeout(_RESOLVE):
                return await checked_addresses(rules, rule, wanted)
        except OSError:  # TimeoutError, too
            if len(self._unknown) >= _MAX_UNKNOWN:
                self._unknown.clear()
            self._unknown[wanted.name] = time.monotonic()
            return ()

    async def connect(self, wanted: Destination, addresses: tuple[Address, ...]) -> socket.socket:
        """Return a connection. Raises OSError."""
        if self._is_direct(wanted):
            return await self._direct.connect(wanted, addresses)
        connection = await connect_to_host(self._proxy.host, self._proxy.port)
        ask = http_connect if self._proxy.kind == HTTP else socks_connect
        try:
            async with asyncio.timeout(_HANDSHAKE):
                await ask(connection, self._proxy, wanted.name or str(wanted.address), wanted.port)
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_direct(self, wanted: Destination) -> bool:
        return is_excepted(wanted.name or str(wanted.address), wanted.port, self._exceptions)
