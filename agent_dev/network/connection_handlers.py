"""Handlers of allowed connections: each forwards one connection from its first byte to its end."""

import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from agent_dev.network import refusal_responses
from agent_dev.network.connection import Connection, read_first
from agent_dev.network.connection_log import DENY
from agent_dev.network.inspection import Inspection
from agent_dev.network.relaying.relay import Relay

OpenServer = Callable[[], Awaitable[socket.socket]]  # resolves, checks, connects; raises Denied, OSError


class Handler(Protocol):
    """Forwards connections."""

    async def handle(self, connection: Connection, open_server: OpenServer) -> None:
        """Forward a connection until it ends, and add what is logged to its row.

        Raises Denied if it is refused before the server has sent anything, and OSError.
        """


class RelayHandler:
    """Copies both ways. If the destination is a name, inspects what the client sends."""

    async def handle(self, connection: Connection, open_server: OpenServer) -> None:
        """Forward a connection until it ends."""
        wanted, first = connection.wanted, b""
        inspection = Inspection(wanted.name, wanted.port) if wanted.name else None
        if inspection and inspection.client_speaks_first:  # an idle client costs no connection outside
            first = await read_first(connection, inspection)
        await _relay(connection, await open_server(), first, inspection)


class LocalHandler:
    """Copies both ways between the sandbox and a port of this machine's loopback."""

    async def handle(self, connection: Connection, open_server: OpenServer) -> None:
        """Forward a connection until it ends."""
        await _relay(connection, await open_server(), b"", None)


async def _relay(connection: Connection, server: socket.socket, first: bytes, inspection: Inspection | None) -> None:
    relay, row = Relay(inspection), connection.entry.row

    def late_refusal(why: str) -> bytes:
        is_http = inspection is not None and inspection.protocol == "http"
        return refusal_responses.http_refusal(connection.refusal_text(why)) if is_http else b""

    with server:
        try:
            await relay.run(connection.client, server, first, late_refusal)
        finally:
            row |= relay.counts
            if relay.denied:
                row |= {"decision": DENY, "why": str(relay.denied)}
