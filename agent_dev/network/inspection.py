"""Inspect what a client sends to an allowed name: TLS and every HTTP request must be for the same host."""

from typing import Protocol

import h11

from agent_dev.network.access import Denied
from agent_dev.network.client_hello import TLS_HANDSHAKE, ClientHelloReader

HTTP, HTTPS = 80, 443
# The registered methods (RFC 9110, RFC 4918 and others), and some that caches and media players use.
_METHODS = tuple(
    method + b" "
    for method in (
        b"GET POST PUT HEAD DELETE PATCH OPTIONS TRACE CONNECT PROPFIND PROPPATCH REPORT MKCOL COPY MOVE LOCK UNLOCK SEARCH ACL "
        b"BASELINE-CONTROL BIND CHECKIN CHECKOUT LABEL LINK MERGE MKACTIVITY MKCALENDAR MKREDIRECTREF MKWORKSPACE ORDERPATCH PRI "
        b"QUERY REBIND UNBIND UNCHECKOUT UNLINK UPDATE UPDATEREDIRECTREF VERSION-CONTROL PURGE BAN SUBSCRIBE UNSUBSCRIBE NOTIFY "
        b"M-SEARCH SOURCE"
    ).split()
)
_MAX_HEAD = 65536
_SWITCHING = b"HTTP/1.1 101"


def looks_like_http(first: bytes) -> bool:
    """Return whether a connection begins with an HTTP request; servers skip empty lines before it."""
    return first.lstrip(b"\r\n").startswith(_METHODS)


class _Inspector(Protocol):
    def feed(self, data: bytes) -> bytes: ...

    def on_response(self, data: bytes) -> bytes: ...


class Opaque:
    """Forwards everything, for a protocol that is not inspected."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to forward."""
        return data

    def on_response(self, _data: bytes) -> bytes:
        """Return bytes that were held back until the server's response."""
        return b""


class Inspection:
    """Inspects one connection; `feed` returns the bytes that may be forwarded, and holds the others back."""

    def __init__(self, name: str, port: int) -> None:
        self._name, self._port = name, port
        self._held = b""
        self._inspector: _Inspector | None = None
        self.protocol = ""  # "tls", "http" or "": how a refusal is worded

    @property
    def client_speaks_first(self) -> bool:
        """True if no connection to the server is needed before the client has sent something."""
        return self._port in (HTTP, HTTPS)

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to forward. Raises Denied."""
        if self._inspector is None:
            data = self._held + data
            self._inspector = self._select(data)
            if self._inspector is None:
                self._held = data
                return b""
        return self._inspector.feed(data)

    def on_response(self, data: bytes) -> bytes:
        """Process the server's bytes; return bytes to forward that were held back until then. Raises Denied."""
        return self._inspector.on_response(data) if self._inspector else b""

    def _select(self, data: bytes) -> _Inspector | None:
        """Return the inspector for the protocol of these first bytes; None if more are needed."""
        if data[:1] == bytes((TLS_HANDSHAKE,)):
            self.protocol = "tls"
            return TlsInspector(self._name)
        if self._port == HTTP or looks_like_http(data):
            self.protocol = "http"
            return HttpInspector(self._name, self._port)
        if data and any(method.startswith(data.lstrip(b"\r\n")) for method in _METHODS):
            if len(data) > _MAX_HEAD:
                raise Denied("only empty lines")
            return None
        return Opaque()


class TlsInspector:
    """Holds a TLS connection back until its ClientHello is complete and names the host, or no host."""

    def __init__(self, name: str) -> None:
        self._name, self._reader, self._held = name, ClientHelloReader(), b""
        self._is_open = False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to forward. Raises Denied."""
        if self._is_open:
            return data
        self._held += data
        try:
            self._is_open = self._reader.feed(data)
        except ValueError as error:
            raise Denied(str(error)) from None
        if not self._is_open:
            return b""
        asked = self._reader.name.lower().removesuffix(".")
        if asked not in ("", self._name):
            raise Denied(f"TLS names {asked}, but the connection is to {self._name}")
        return self._held

    def on_response(self, _data: bytes) -> bytes:
        """Return nothing."""
        return b""


class HttpInspector:
    """Checks the Host of every request, including later and pipelined ones; holds each request back until it is checked."""

    def __init__(self, name: str, port: int) -> None:
        self._hosts = (name.encode(), b"%b:%d" % (name.encode(), port))
        self._held = b""
        self._request = self._new_request()
        self._upgrades = False  # the last request is an upgrade to another protocol
        self._is_switched = self._has_request = False

    @staticmethod
    def _new_request() -> h11.Connection:
        return h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to forward. Raises Denied."""
        if self._is_switched:
            return data
        self._held += data
        if self._upgrades:
            if len(self._held) > _MAX_HEAD:
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
        self._is_switched = data.startswith(_SWITCHING)
        if self._is_switched:
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
