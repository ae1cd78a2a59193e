"""An HTTP and a SOCKS5 proxy for tests.harness.internet. Both require USER and PASSWORD.

They resolve names of their own, which only they know, and send their response together with the server's first bytes.
"""

import base64
import socket
import socketserver
import struct
import threading

USER, PASSWORD = "ada", "p:w%d"
HTTP_PORT, SOCKS_PORT = 3128, 1080
ONLY_HERE = {"inner.example.org": "93.184.215.15", "metadata.example.org": "169.254.169.254"}
_TOKEN = b"Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode())


def _carry(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one of them is gone


def connect(client: socket.socket, host: str, port: int, response: bytes) -> None:
    """Connect to a server, and send the response with its first bytes, if it speaks first."""
    with socket.create_connection((ONLY_HERE.get(host, host), port), 10) as server:
        server.settimeout(0.2)
        try:
            response += server.recv(65536)
        except TimeoutError:
            pass  # the client speaks first
        server.settimeout(None)
        client.sendall(response)
        thread = threading.Thread(target=_carry, args=(client, server), daemon=True)
        thread.start()
        _carry(server, client)
        thread.join()


class _HttpProxy(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        method, place, _ = self.rfile.readline().split()
        headers = {}
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b": ")
            headers[name.lower()] = value
        if headers.get(b"proxy-authorization") != _TOKEN:
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n")
        elif method != b"CONNECT":
            self.wfile.write(b"HTTP/1.1 405 Only CONNECT\r\n\r\n")
        else:
            host, _, port = place.decode().rpartition(":")
            connect(self.request, host.strip("[]"), int(port), b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")


class _SocksProxy(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        _, count = self.rfile.read(2)
        if 2 not in self.rfile.read(count):
            self.wfile.write(b"\5\xff")
            return
        self.wfile.write(b"\5\2")
        _, size = self.rfile.read(2)
        user = self.rfile.read(size)
        password = self.rfile.read(self.rfile.read(1)[0])
        is_right = (user.decode(), password.decode()) == (USER, PASSWORD)
        self.wfile.write(b"\1\0" if is_right else b"\1\1")
        if not is_right:
            return
        kind = self.rfile.read(4)[3]
        if kind == 3:
            host = self.rfile.read(self.rfile.read(1)[0]).decode()
        else:
            host = socket.inet_ntop(
                *((socket.AF_INET, self.rfile.read(4)) if kind == 1 else (socket.AF_INET6, self.rfile.read(16)))
            )
        (port,) = struct.unpack(">H", self.rfile.read(2))
        connect(self.request, host, port, b"\5\0\0\3\4name\0\0")


class _ProxyServer(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address = True, True

    def handle_error(self, *_: object) -> None:
        """Print nothing: the client sees a closed connection."""


def serve_proxies() -> list[socketserver.BaseServer]:
    """Start both; return the servers."""
    servers = [_ProxyServer(("127.0.0.1", port), kind) for port, kind in ((HTTP_PORT, _HttpProxy), (SOCKS_PORT, _SocksProxy))]
    for one in servers:
        threading.Thread(target=one.serve_forever, daemon=True).start()
    return [*servers]
