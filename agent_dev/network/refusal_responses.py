"""Responses that refuse a connection immediately, in its own protocol: a TLS alert or an HTTP response."""

from agent_dev.network.inspection import looks_like_http
from agent_dev.network.protocols.client_hello import TLS_HANDSHAKE

_TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x31"  # fatal, access_denied
FIRST_BYTES = 16


def refusal_bytes(first: bytes, text: str) -> bytes:
    """Return the bytes that refuse a connection whose first bytes are `first`; b"" if only a reset is possible."""
    if first[:1] == bytes((TLS_HANDSHAKE,)):
        return _TLS_ALERT
    return http_refusal(text) if looks_like_http(first) else b""


def http_refusal(text: str) -> bytes:
    """Return an HTTP response with a reason."""
    body = text.encode("ascii", "backslashreplace") + b"\n"
    head = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body
