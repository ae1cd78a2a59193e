"""The host of brokered keys on this machine, without a network of the tests' own: behind a proxy, which alone knows its name."""

import os
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.servers import brokered_host
from tests.harness.servers.proxies import connect


class _Proxy(socketserver.StreamRequestHandler):
    """Connects every CONNECT request to the host."""

    port = 0

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        connect(self.request, "127.0.0.1", self.port, b"HTTP/1.1 200 OK\r\n\r\n")


@contextmanager
def git_host(folder: Path, certificate: Path) -> Iterator[str]:
    """Serve the bare repositories of a folder; yield the URL of the proxy that leads there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    os.environ[brokered_host.FOLDER] = str(folder)
    host = brokered_host.start(context, ("127.0.0.1", 0))
    handler = type("_Proxy", (_Proxy,), {"port": host.server_address[1]})
    try:
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as proxy:
            proxy.daemon_threads = True
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{proxy.server_address[1]}"
            proxy.shutdown()
    finally:
        host.shutdown()
        host.server_close()
        del os.environ[brokered_host.FOLDER]
