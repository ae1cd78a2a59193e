"""Check each HTTP request of a connection: it must be for the host to which the connection leads."""

import h11

from agent_dev.network.access import Denied

MAX_HEAD = 65536
_SWITCHING = b"HTTP/1.1 101"


class HttpInspector:
    """Checks the Host of every request, including later and pipelined ones; holds each request back until it is checked."""

    def __init__(self, name: str, port: int) -> None:
        self._hosts = (name.encode(), b"%b:%d" % (name.encode(), port))
        self._held = b""
        self._request = self._new_request()
        self._upgrades = False  # the last request is an upgrade to another protocol
        self._has_request = False
        self.is_open = False  # another protocol follows, which is not inspected

    @staticmethod
    def _new_request() -> h11.Connection:
        return h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to forward. Raises Denied."""
        if self.is_open:
            return data
        self._held += data
        if self._upgrades:
            if len(self._held) > MAX_HEAD:
                raise Denied("data before the server has agreed to another protocol")
            return b""
        try:
            return self._parse(data)
        except h11.RemoteProtocolError as error:
            raise Denied(f"not a valid HTTP request: {error}") from None

    def on_response(self, data: bytes) -> bytes:
        """Check whether the server agreed to an upgrade; return the bytes that were held back until then. Raises Denied."""
        if not self._upgrades:
            return b""
        self._upgrades = False
        held, known = self._held, len(self._request.trailing_data[0])
        self.is_open = data.startswith(_SWITCHING)
        if self.is_open:
            self._held = b""
            return held
        self._held = held[:known]  # the parser has these bytes already
        return self.feed(held[known:])

    def _parse(self, data: bytes) -> bytes:
        if data:  # h11 treats no bytes as the end of the stream
            self._request.receive_data(data)
        while not self._upgrades:
            before = len(self._request.trailing_data[0])
            event = self._request.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                break
            if isinstance(event, h11.Request):
                used = before - len(self._request.trailing_data[0])
                start = len(self._held) - before
                self._check(event, self._held[start : start + used])
            elif isinstance(event, h11.EndOfMessage):
                rest = self._request.trailing_data[0]
                self._request = self._new_request()
                if rest:
                    self._request.receive_data(rest)
        ready = self._held[: len(self._held) - len(self._request.trailing_data[0])]
        self._held = self._held[len(ready) :]
        return ready

    def _check(self, request: h11.Request, head: bytes) -> None:
        names = [name for name, _ in request.headers]
        hosts = [value.lower() for name, value in request.headers if name == b"host"]
        if head.count(b"\n") != head.count(b"\r\n"):
            raise Denied("not a valid HTTP request: a line ends without CR")
        if b"transfer-encoding" in names and b"content-length" in names:
            raise Denied("not a valid HTTP request: two lengths")
        if request.method == b"CONNECT" or not request.target.startswith((b"/", b"*")):
            raise Denied("a request to a proxy")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            asked = ", ".join(host.decode("latin-1") for host in hosts) or "no host"
            raise Denied(f"HTTP names {asked}, but the connection is to {self._hosts[0].decode()}")
        wanted = [value.lower() for name, value in request.headers if name == b"upgrade"]
        if wanted and (wanted != [b"websocket"] or self._has_request):
            raise Denied("an upgrade to a protocol other than WebSocket, or after another request")
        self._upgrades, self._has_request = bool(wanted), True
