"""A TLS server with keys, for tests.harness.internet: it returns what it received, streams, switches protocols, and serves git.

A key is right if it is REAL, in any header or as the password of Basic.
"""

import base64
import json
import os
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADDRESS = "93.184.215.20"
API, GIT = "keys.example.org", "git.example.org"
UNCERTIFIED = "uncertified.example.org"  # a name that is not in the server's certificate
FOLDER = "AGENT_DEV_TEST_HOSTED"  # a variable: the directory of bare repositories
REAL = "REAL-KEY-3f9c1d27a65b480e"
_BLOCK = bytes(1 << 16)
_PATIENCE = 20  # seconds


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = threading.Semaphore(0)  # events that the client has received

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.headers["Upgrade"]:
            self._switch()
        elif path == "/events":
            self._stream()
        elif path == "/seen":
            self.seen.release()
            self._echo()
        elif path.startswith("/large/"):
            self._send_large(int(path.rpartition("/")[2]))
        elif ".git/" in path:
            self._serve_git()
        else:
            self._echo()

    do_POST = do_PUT = do_HEAD = do_GET  # noqa: N815  (names of the base class)

    def _body(self) -> bytes:
        if self.headers["Transfer-Encoding"]:
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def _echo(self) -> None:
        """Answer with the request, in which `(real)` replaces the real key, so that the answer does not contain it."""
        found = {name.lower(): value.replace(REAL, "(real)") for name, value in self.headers.items()}
        basic = found.get("authorization", "")
        if basic.startswith("Basic "):
            found["authorization"] = base64.b64decode(basic[6:]).decode().replace(REAL, "(real)")
        body = self._body()
        printed = {"method": self.command, "path": self.path.replace(REAL, "(real)"), "headers": found, "body": len(body)}
        self._answer(json.dumps(printed).encode(), "application/json")

    def _answer(self, data: bytes, kind: str, status: int = 200, more: tuple[tuple[str, str], ...] = ()) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))), *more):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_large(self, blocks: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(blocks * len(_BLOCK)))
        self.end_headers()
        for _ in range(blocks):
            self.wfile.write(_BLOCK)

    def _stream(self) -> None:
        """Send three events, each only when the client has reported the one before, by `/seen` on another connection."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(3):
            if number and not self.seen.acquire(timeout=_PATIENCE):
                raise TimeoutError
            event = b"data: %d\n\n" % number
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _switch(self) -> None:
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        while data := self.connection.recv(100):
            self.connection.sendall(data)
        self.close_connection = True

    def _serve_git(self) -> None:
        """Run git http-backend (CGI); without the real key, ask for it."""
        body = self._body()
        word = self.headers["Authorization"] or ""
        if not word.startswith("Basic ") or base64.b64decode(word[6:]).decode() != f"x-access-token:{REAL}":
            self._answer(b"", "text/plain", 401, (("WWW-Authenticate", 'Basic realm="git"'),))
            return
        path, _, query = self.path.partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": os.environ[FOLDER], "GIT_HTTP_EXPORT_ALL": "1"}
        env |= {"REMOTE_USER": "agent", "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query}
        env |= {"CONTENT_TYPE": self.headers["Content-Type"] or "", "CONTENT_LENGTH": str(len(body))}
        env |= {"HTTP_CONTENT_ENCODING": self.headers["Content-Encoding"] or ""}
        env |= {"GIT_PROTOCOL": self.headers["Git-Protocol"] or "", "GIT_CONFIG_GLOBAL": "/dev/null"}
        env |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self._answer(data, fields.get("Content-Type", "text/plain"), int(fields.get("Status", "200").split()[0]))

    def log_message(self, *_words: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, context: ssl.SSLContext, place: tuple[str, int]) -> None:
        super().__init__(place, _Handler)
        self._context = context

    def finish_request(self, request: object, address: object) -> None:
        """Serve one connection, in its own thread."""
        try:
            with self._context.wrap_socket(request, server_side=True) as tls:  # type: ignore[arg-type]
                super().finish_request(tls, address)
        except OSError:
            pass  # the client is gone, or does not speak TLS


def start(context: ssl.SSLContext, place: tuple[str, int] = (ADDRESS, 443)) -> _Server:
    """Start the server."""
    server = _Server(context, place)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
