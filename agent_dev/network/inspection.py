"""Inspect what a client sends to an allowed name: TLS and every HTTP request must be for the same host."""

from typing import Protocol

from agent_dev.network.access import Denied
from agent_dev.network.protocols.client_hello import TLS_HANDSHAKE, ClientHelloReader

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


def looks_like_http(first: bytes) -> bool:
    """Return whether a connection begins with an HTTP request; servers skip empty lines before it."""
    return first.lstrip(b"\r\n").startswith(_METHODS)


class _Inspector(Protocol):
    @property
    def is_open(self) -> bool: ...

    def feed(self, data: bytes) -> bytes: ...

    def on_response(self, data: bytes) -> bytes: ...


class Opaque:
    """Forwards everything, for a protocol that is not inspected."""

    is_open = True

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

    @property
    def is_open(self) -> bool:
        """True if everything that follows is forwarded unchanged."""
        return self._inspector is not None and self._inspector.is_open

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
            from agent_dev.network.protocols.http_inspection import HttpInspector  # takes 10 ms, and most connections are TLS

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
        self.is_open = False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to forward. Raises Denied."""
        if self.is_open:
            return data
        self._held += data
        try:
            is_complete = self._reader.feed(data)
        except ValueError as error:
            raise Denied(str(error)) from None
        if not is_complete:
            return b""
        asked = self._reader.name.lower().removesuffix(".")
        if asked not in ("", self._name):
            raise Denied(f"TLS names {asked}, but the connection is to {self._name}")
        self.is_open = True
        return self._held

    def on_response(self, _data: bytes) -> bytes:
        """Return nothing."""
        return b""
