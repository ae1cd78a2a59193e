"""A web server of a test's on 127.0.0.1: what all of them have in common."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Listener(ThreadingHTTPServer):
    """Waits for none of its clients, and says nothing of one that went away."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    def let_go(self) -> None:
        """End the answers that are held."""

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


class Quiet:
    """A handler's part that keeps stderr for the tests."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Served:
    """A server: as a context manager it listens, at `url`."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{listener.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.let_go()
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()
