"""Read the server name of a TLS ClientHello with the `ssl` module, so that no parser of ours handles hostile bytes.

A server context without a certificate gets what the client sent. The library reports the name before it needs a
certificate; the handshake ends there, and nothing is sent.
"""

import ssl

_MAX_SIZE = 65536
TLS_HANDSHAKE = 0x16  # first byte of a TLS connection


class ClientHelloReader:
    """Reads a ClientHello in pieces. After `feed` has returned True, `name` is the server name, "" for none."""

    def __init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.sni_callback = self._on_name
        self._incoming = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, ssl.MemoryBIO(), server_side=True)
        self._size, self._is_read = 0, False
        self.name = ""

    def _on_name(self, _tls: object, name: str | None, _context: object) -> int:
        self._is_read, self.name = True, name or ""
        return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE

    def feed(self, data: bytes) -> bool:
        """Return whether the ClientHello is complete. Raises ValueError for other data."""
        self._size += len(data)
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            if self._size > _MAX_SIZE:
                raise ValueError("the ClientHello is too long") from None
            return False
        except ssl.SSLError as error:
            if self._is_read:
                return True
            raise ValueError(f"not a ClientHello: {error.reason}") from None
        raise ValueError("not a ClientHello")
