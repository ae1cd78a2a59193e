"""Copy bytes between a client in the sandbox and a server: asyncio transports, with back-pressure and half-close."""

import asyncio
import socket
from collections.abc import Callable

from agent_dev.network.access import Denied
from agent_dev.network.inspection import Inspection

_BUFFER = bytearray(1 << 16)  # shared: data is forwarded before the next read
_VIEW = memoryview(_BUFFER)


class _Side(asyncio.BufferedProtocol):
    """One of the two connections; what it receives goes to `peer` through `inspect`."""

    def __init__(self, inspect: Callable[[bytes], None]) -> None:
        self.peer: _Side
        self.transport: asyncio.Transport
        self.inspect = inspect
        self.count = 0
        self.has_ended = False  # it sends nothing more
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  for the type check
        self.transport = transport

    def get_buffer(self, _sizehint: int) -> bytearray:
        return _BUFFER

    def buffer_updated(self, size: int) -> None:
        self.count += size
        self.inspect(bytes(_VIEW[:size]))

    def eof_received(self) -> bool:
        self.has_ended = True
        if self.peer.has_ended:
            self.transport.close()
            self.peer.transport.close()
        elif self.peer.transport.can_write_eof():
            self.peer.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        self.peer.transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        self.peer.transport.close()


class Relay:
    """The two connections of one client; what the client sends is inspected."""

    def __init__(self, inspection: Inspection | None) -> None:
        self._inspection = inspection
        self._client, self._server = _Side(self._from_client), _Side(self._from_server)
        self._client.peer, self._server.peer = self._server, self._client
        self.denied: Denied | None = None  # why inspection ended it

    async def run(self, client: socket.socket, server: socket.socket, first: bytes, refuse: Callable[[str], bytes]) -> None:
        """Copy bytes until both sides have ended; `first` has already been read and inspected."""
        self._refuse = refuse
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: self._client, sock=client)
        transport.pause_reading()
        await loop.create_connection(lambda: self._server, sock=server)
        if first:
            self._server.transport.write(first)
        transport.resume_reading()
        await asyncio.gather(self._client.lost, self._server.lost)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of bytes that the client and the server sent."""
        return {"sent": self._client.count, "received": self._server.count}

    def _from_client(self, data: bytes) -> None:
        self._forward(data, self._inspection.feed if self._inspection else None)

    def _from_server(self, data: bytes) -> None:
        self._client.transport.write(data)
        if self._inspection:
            self._forward(data, self._inspection.on_response)

    def _forward(self, data: bytes, inspect: Callable[[bytes], bytes] | None) -> None:
        """Send the server what passes the inspection, or end both connections."""
        try:
            ready = inspect(data) if inspect else data
        except Denied as error:
            self.denied = error
            self._server.transport.abort()
            self._client.transport.write(self._refuse(str(error)))
            self._client.transport.close()
            return
        if ready:
            self._server.transport.write(ready)
