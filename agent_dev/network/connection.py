"""One captured connection of the sandbox, and functions that read its first bytes, refuse it or reset it."""

import asyncio
import errno
import socket
import struct

from agent_dev.network import refusal_responses
from agent_dev.network.access import Destination
from agent_dev.network.connection_log import ConnectionEntry
from agent_dev.network.inspection import Inspection
from agent_dev.quick_dataclass import dataclass, field, replace

CHUNK = 65536
_IDLE, _HELLO, _REFUSE = 300, 10, 0.5  # seconds


@dataclass(slots=True)
class Connection:
    """A connection: its intended destination, its socket, its row of the log, and the first bytes that the client sent."""

    wanted: Destination
    client: socket.socket
    entry: ConnectionEntry
    received: bytearray = field(default_factory=bytearray)
    is_logged: bool = False  # each of its requests has a row

    def lead_to(self, port: int) -> None:
        """Redirect it to another port of its destination."""
        self.wanted = replace(self.wanted, port=port)
        self.entry.row["port"] = port

    def refusal_text(self, reason: str) -> str:
        """Return the message of a refusal for the client."""
        return f"agent-dev: {self.wanted}: {reason}"


async def read_first(connection: Connection, inspection: Inspection) -> bytes:
    """Return a client's first bytes that may be forwarded; keep the beginning of what it sent. Raises Denied, OSError."""
    loop, limit = asyncio.get_running_loop(), _IDLE
    while True:
        async with asyncio.timeout(limit):
            data = await loop.sock_recv(connection.client, CHUNK)
        if not data:
            raise OSError(errno.ECONNRESET, "the client sent nothing complete")
        connection.received += data[: refusal_responses.FIRST_BYTES]
        ready = inspection.feed(data)
        if ready:
            return ready
        limit = _HELLO


async def refuse(connection: Connection, reason: str) -> None:
    """End a connection with a message in its protocol, if its first bytes identify the protocol, else with a reset."""
    loop, client = asyncio.get_running_loop(), connection.client
    try:
        async with asyncio.timeout(_REFUSE):
            first = bytes(connection.received) or await loop.sock_recv(client, CHUNK)
            words = refusal_responses.refusal_bytes(first, connection.refusal_text(reason))
            if words:
                await loop.sock_sendall(client, words)
                client.shutdown(socket.SHUT_WR)
                while await loop.sock_recv(client, CHUNK):  # a reset now could arrive before the message
                    pass
                return
    except OSError:
        pass  # the client sends nothing, or is gone
    reset(client)


def reset(client: socket.socket) -> None:
    """Close a connection with a reset instead of an orderly shutdown."""
    if client.fileno() >= 0:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
