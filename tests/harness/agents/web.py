"""Base classes of web servers on 127.0.0.1 for tests."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Listener(ThreadingHTTPServer):
    """A server that does not wait for its clients, and ignores disconnects."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    def end_held_answers(self) -> None:
        """End the held answers."""

    def handle_error(self, *_: object) -> None:
        """Ignore errors."""


class QuietHandler:
    """A handler mix-in that keeps stderr clean."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class PathListener(Listener):
    """A server of files: `answer` returns the bytes at a path, None for 404. Without an `authorization` that is set: 401."""

    authorization = ""

    def __init__(self, answer: Callable[[str], bytes | None]) -> None:
        self.answer = answer
        super().__init__(_PathHandler)


class _PathHandler(QuietHandler, BaseHTTPRequestHandler):
    server: PathListener

    def do_GET(self) -> None:
        is_known = self.server.authorization in ("", self.headers["Authorization"])
        data = self.server.answer(self.path) if is_known else None
        self.send_response(401 if not is_known else 404 if data is None else 200)
        self.send_header("Content-Type", _content_type(self.path))
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")


def _content_type(path: str) -> str:
    if path.endswith((".tgz", ".whl")):
        return "application/octet-stream"
    return "text/html" if path.startswith("/simple") else "application/json"


class TestServer:
    """A server as a context manager, at `url`."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{listener.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.end_held_answers()
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()
