"""The handler of connections to a host with a credential: plain HTTP or TLS inside, verified TLS outside."""

import asyncio
import socket
import ssl
import time

from agent_dev.network.access import Denied
from agent_dev.network.broker.authority import Authority
from agent_dev.network.broker.exchange import CHUNK, ClientConnection, Outside, RequestRow, Streams
from agent_dev.network.broker.keys import BrokeredKey
from agent_dev.network.connection import Connection
from agent_dev.network.connection_handlers import OpenServer
from agent_dev.network.connection_log import DENY, ConnectionLog
from agent_dev.network.protocols.client_hello import TLS_HANDSHAKE
from agent_dev.quick_dataclass import dataclass

_FIRST_BYTE, _HANDSHAKE = 300, 15  # seconds


@dataclass(frozen=True, slots=True)
class BrokerHandler:
    """Forwards the requests to one host, with the real key."""

    key: BrokeredKey
    authority: Authority
    outside: ssl.SSLContext
    log: ConnectionLog

    async def handle(self, connection: Connection, open_server: OpenServer) -> None:
        """Handle a connection until it ends; each request is a row of the log. Raises Denied, OSError."""
        row = connection.entry.row
        row["credential"] = self.key.credential.name
        host = self.key.credential.host
        first = await _first_byte(connection.client)
        is_tls = first[0] == TLS_HANDSHAKE
        connection.received += first  # selects the protocol of a refusal
        inside = await _open_streams(connection.client.dup(), self.authority.context(host) if is_tls else None)
        base: dict[str, object] = {
            name: row[name] for name in ("name", "address", "port", "credential", "rule", "pid", "program") if name in row
        }
        begin = time.monotonic()

        async def connect() -> Streams:
            return await _connect_outside(await open_server(), self.outside, host)

        def log(made: RequestRow) -> None:
            nonlocal begin
            connection.is_logged = True
            self.log.add(_log_row(base, made, begin))
            begin = time.monotonic()

        await ClientConnection(inside, Outside(self.key, connection.wanted.port, connect, log)).serve()


def _log_row(base: dict[str, object], made: RequestRow, begin: float) -> dict[str, object]:
    row = {"time": time.time_ns(), **base, "method": made.method, "path": made.path, "status": made.status}
    row |= {"sent": made.sent, "received": made.received, "milliseconds": round(1000 * (time.monotonic() - begin))}
    if made.problem:
        row["problem"] = made.problem
    return {**row, "decision": DENY, "why": made.why} if made.why else {**row, "decision": "allow"}


async def _first_byte(client: socket.socket) -> bytes:
    """Return a client's first byte without consuming it. Raises OSError."""
    loop, is_ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(client, is_ready.set)
    try:
        async with asyncio.timeout(_FIRST_BYTE):
            await is_ready.wait()
    finally:
        loop.remove_reader(client)
    data = client.recv(1, socket.MSG_PEEK)
    if not data:
        raise ConnectionResetError("the client sent nothing")
    return data


async def _open_streams(client: socket.socket, context: ssl.SSLContext | None) -> Streams:
    """Return the streams of a client, after a TLS handshake if there is a context. Raises Denied, OSError."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK)
    protocol = asyncio.StreamReaderProtocol(reader)
    timeout = _HANDSHAKE if context else None
    try:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, client, ssl=context, ssl_handshake_timeout=timeout)
    except ssl.SSLError as error:
        client.close()
        raise Denied(f"TLS inside: {error.reason}") from None
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _connect_outside(server: socket.socket, context: ssl.SSLContext, host: str) -> Streams:
    """Return the streams of a connection to the host, whose certificate is verified. Raises OSError."""
    return await asyncio.open_connection(
        sock=server, ssl=context, server_hostname=host, limit=CHUNK, ssl_handshake_timeout=_HANDSHAKE
    )
