"""A Unix socket that forwards to a server on this machine, for tests.harness.internet, which has its own loopback."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def bridge(port: int, path: Path) -> Iterator[None]:
    """Forward connections from a Unix socket to a port of 127.0.0.1."""
    place = ("127.0.0.1", port)

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # one of them may be gone
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def carry(client: socket.socket) -> None:
        with client, socket.create_connection(place) as one:
            thread = threading.Thread(target=copy, args=(one, client), daemon=True)
            thread.start()
            copy(client, one)
            thread.join()

    def serve() -> None:
        with suppress(OSError):  # at the end
            while True:
                threading.Thread(target=carry, args=(server.accept()[0],), daemon=True).start()

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        threading.Thread(target=serve, daemon=True).start()
        yield
