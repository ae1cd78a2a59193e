"""Handle the requests of one client connection: check each, add the real key, forward it to the host, and log it."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import h11

from agent_dev.network.access import Denied
from agent_dev.network.broker.keys import BrokeredKey, Request, is_push, outside_request
from agent_dev.network.broker.push_check import PushCheck, PushRefused, report
from agent_dev.quick_dataclass import dataclass, field

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]

CHUNK = 1 << 17
_MAX_HEAD = 65536
_IDLE, _BODY, _DRAIN = 300, 300, 30  # seconds: for a request, for more of its body, for the rest of a refused one
_MAX_DRAIN = 256 << 20
_HOP = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"upgrade", b"alt-svc", b"strict-transport-security"))
_FORBIDDEN, _BAD_GATEWAY = 403, 502
_PUSH_RESULT = "application/x-git-receive-pack-result"


@dataclass(slots=True)
class RequestRow:
    """The log entry of one request, without headers, query and body."""

    method: str
    path: str
    status: int = 0
    sent: int = 0
    received: int = 0
    why: str = ""  # why it was refused
    problem: str = ""  # why the host was not reached


@dataclass(frozen=True, slots=True)
class Outside:
    """The parameters of the host: its key, its port, a function that connects, and one that logs a finished request."""

    key: BrokeredKey
    port: int
    connect: Callable[[], Awaitable[Streams]]  # raises Denied, OSError
    log: Callable[[RequestRow], None]


@dataclass(slots=True)
class _Upstream:
    """A connection to the host, kept for the next request."""

    streams: Streams
    http: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD))

    @property
    def is_usable(self) -> bool:
        reader, writer = self.streams
        return self.http.our_state is h11.IDLE and not (reader.at_eof() or writer.is_closing())


class ClientConnection:
    """Serves one client connection to its end."""

    def __init__(self, streams: Streams, outside: Outside) -> None:
        self._reader, self._writer = streams
        self._outside = outside
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._upstream: _Upstream | None = None

    async def serve(self) -> None:
        """Forward requests until one side ends. Raises OSError if a peer has closed the connection or a timeout has expired."""
        try:
            while await self._serve_one():
                self._http.start_next_cycle()
        finally:
            self._drop_upstream()
            self._writer.close()

    async def _serve_one(self) -> bool:
        """Forward one request; return whether there can be another."""
        try:
            async with asyncio.timeout(_IDLE):
                event = await _next_event(self._http, self._reader)
        except h11.RemoteProtocolError as error:
            await self._refuse(RequestRow("", ""), Denied(f"not a valid HTTP request: {error}"))
            return False
        if not isinstance(event, h11.Request):
            return False
        request = Request(event.method.decode(), event.target.decode("ascii", "replace"), tuple(event.headers))
        row = RequestRow(request.method, request.path)
        try:
            return await self._carry(request, row)
        except Denied as error:
            await self._refuse(row, error)
        except h11.RemoteProtocolError as error:
            await self._fail(row, f"the request or the response is not valid HTTP: {error}")
        except (OSError, asyncio.IncompleteReadError) as error:
            await self._fail(row, _reason(error))
        finally:
            self._outside.log(row)
        return False

    async def _carry(self, request: Request, row: RequestRow) -> bool:
        target, headers = outside_request(self._outside.key, request, self._outside.port)
        if self._http.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[], reason="Continue"))
        first = await self._checked_beginning(request)
        upstream = await self._connect()
        _, writer = upstream.streams
        writer.write(_encode(upstream.http, h11.Request(method=request.method, target=target, headers=headers)))
        for event in first:
            self._forward(event, upstream, row)
        has_body = not (first and isinstance(first[-1], h11.EndOfMessage))
        body = asyncio.create_task(self._send_body(upstream, row)) if has_body else None
        try:
            return await self._receive(upstream, row, body)
        finally:
            if body:
                body.cancel()
                await asyncio.gather(body, return_exceptions=True)

    async def _checked_beginning(self, request: Request) -> list[h11.Event]:
        """Read a push's body until all of its commands are known; return the events that were read. Raises Denied."""
        credential = self._outside.key.credential
        if not is_push(credential, request):
            return []
        encodings = request.values(b"content-encoding")
        if encodings not in ([], [b"gzip"]):
            raise PushRefused("a push with an unknown encoding")
        check = PushCheck(credential.push, is_gzip=bool(encodings))
        events: list[h11.Event] = []
        while True:
            async with asyncio.timeout(_BODY):
                event = await _next_event(self._http, self._reader)
            if not isinstance(event, h11.Data | h11.EndOfMessage):
                raise PushRefused("the push is incomplete")
            events.append(event)
            if isinstance(event, h11.EndOfMessage):
                check.finish()
            elif check.feed(bytes(event.data)):
                return events

    async def _connect(self) -> _Upstream:
        """Return a connection to the host that waits for a request. Raises Denied, OSError."""
        if self._upstream and not self._upstream.is_usable:
            self._drop_upstream()
        if self._upstream is None:
            self._upstream = _Upstream(await self._outside.connect())
        return self._upstream

    def _drop_upstream(self) -> None:
        if self._upstream:
            self._upstream.streams[1].close()
        self._upstream = None

    async def _send_body(self, upstream: _Upstream, row: RequestRow) -> None:
        """Forward the body of the request."""
        writer = upstream.streams[1]
        while True:
            async with asyncio.timeout(_BODY):
                event = await _next_event(self._http, self._reader)
            if not isinstance(event, h11.Data | h11.EndOfMessage):
                writer.close()  # the client is gone
                return
            self._forward(event, upstream, row)
            await writer.drain()
            if isinstance(event, h11.EndOfMessage):
                return

    @staticmethod
    def _forward(event: h11.Event, upstream: _Upstream, row: RequestRow) -> None:
        if isinstance(event, h11.Data):
            row.sent += len(event.data)
        upstream.streams[1].write(_encode(upstream.http, event))

    async def _receive(self, upstream: _Upstream, row: RequestRow, body: "asyncio.Task[None] | None") -> bool:
        """Forward the response; return whether another request can follow."""
        reader, _ = upstream.streams
        event = await _next_event(upstream.http, reader)
        while isinstance(event, h11.InformationalResponse) and event.status_code != 101:
            event = await _next_event(upstream.http, reader)
        if not isinstance(event, h11.Response | h11.InformationalResponse):
            raise ConnectionResetError("the host sent no response")
        row.status = event.status_code
        is_switch = event.status_code == 101
        headers = [(name, value) for name, value in event.headers if is_switch or name not in _HOP]
        self._write(type(event)(status_code=event.status_code, reason=event.reason, headers=headers))
        if is_switch:
            await self._switch(upstream, row)
            return False
        await self._receive_body(upstream, row)
        if body and not body.done() and self._http.their_state is h11.SEND_BODY:
            return False  # the host answered before the end of the request
        if body:
            await body
        self._recycle(upstream)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _receive_body(self, upstream: _Upstream, row: RequestRow) -> None:
        while True:
            event = await _next_event(upstream.http, upstream.streams[0])
            if isinstance(event, h11.Data):
                row.received += len(event.data)
            elif not isinstance(event, h11.EndOfMessage):
                raise ConnectionResetError("the response is incomplete")
            self._write(event)
            await self._writer.drain()
            if isinstance(event, h11.EndOfMessage):
                return

    def _recycle(self, upstream: _Upstream) -> None:
        """Keep the connection to the host for the next request, if it is reusable."""
        if upstream.http.our_state is h11.DONE and upstream.http.their_state is h11.DONE:
            upstream.http.start_next_cycle()
        else:
            self._drop_upstream()

    async def _switch(self, upstream: _Upstream, row: RequestRow) -> None:
        """Copy both ways after a protocol upgrade."""
        reader, writer = upstream.streams
        writer.write(self._http.trailing_data[0])
        self._writer.write(upstream.http.trailing_data[0])

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> int:
            count = 0
            try:
                while data := await source.read(CHUNK):
                    target.write(data)
                    await target.drain()
                    count += len(data)
            finally:
                target.close()
            return count

        counts = await asyncio.gather(copy(self._reader, writer), copy(reader, self._writer), return_exceptions=True)
        row.sent, row.received = (count if isinstance(count, int) else 0 for count in counts)

    async def _refuse(self, row: RequestRow, error: Denied) -> None:
        row.status, row.why = _FORBIDDEN, str(error)
        host = self._outside.key.credential.host
        result = report(error, host) if isinstance(error, PushRefused) else b""
        if result:
            await self._drain()
            await self._answer(200, _PUSH_RESULT, result)
        else:
            await self._answer(_FORBIDDEN, "text/plain; charset=utf-8", f"agent-dev: {host}: {error}\n".encode())

    async def _fail(self, row: RequestRow, reason: str) -> None:
        row.problem = reason
        if row.status:
            self._writer.transport.abort()  # the response had begun
            return
        row.status = _BAD_GATEWAY
        host = self._outside.key.credential.host
        await self._answer(_BAD_GATEWAY, "text/plain; charset=utf-8", f"agent-dev: {host}: {reason}\n".encode())

    async def _drain(self) -> None:
        """Read the rest of a refused push: git reads the response only after it has sent everything."""
        size = 0
        try:
            async with asyncio.timeout(_DRAIN):
                while size < _MAX_DRAIN:
                    event = await _next_event(self._http, self._reader)
                    if not isinstance(event, h11.Data):
                        return
                    size += len(event.data)
        except (OSError, h11.RemoteProtocolError):
            return

    async def _answer(self, status: int, kind: str, body: bytes) -> None:
        """Respond in place of the host, and end the connection."""
        headers = [("content-type", kind), ("content-length", str(len(body))), ("connection", "close")]
        try:
            self._write(h11.Response(status_code=status, headers=headers))
            self._write(h11.Data(data=body))
            self._write(h11.EndOfMessage())
            await self._writer.drain()
            if self._writer.can_write_eof():
                self._writer.write_eof()
            await self._discard()
        except (OSError, h11.LocalProtocolError):
            return  # the client is gone, or expects no response

    async def _discard(self) -> None:
        """Read what the client still sends: otherwise a reset could arrive before the response."""
        async with asyncio.timeout(1):
            while await self._reader.read(CHUNK):
                pass

    def _write(self, event: h11.Event) -> None:
        self._writer.write(_encode(self._http, event))


def _encode(connection: h11.Connection, event: h11.Event) -> bytes:
    return connection.send(event) or b""


async def _next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> Event:
    """Return the next event of a connection, including the event of its end."""
    while True:
        event = connection.next_event()
        if event is not h11.NEED_DATA:
            return event
        connection.receive_data(await reader.read(CHUNK))


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "timed out"
    return f"cannot be reached: {getattr(error, 'strerror', '') or error}"
