"""Unix sockets at paths of any length, addressed by a descriptor of the directory and the name in it.

Uses `_socket`, the C half of `socket`, which would import selectors and enum.
"""

import _socket
import os


def listen_at(path: str, kind: int, backlog: int) -> int:
    """Return a listening, non-inheritable socket at a path, in place of an earlier one. Raises OSError."""
    folder, name = os.path.split(path)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove_socket(path)
        server = _socket.socket(_socket.AF_UNIX, kind | _socket.SOCK_CLOEXEC)
        server.bind(f"/proc/self/fd/{fd}/{name}")
        server.listen(backlog)
        return server.detach()
    finally:
        os.close(fd)


def connect_to(path: str, kind: int) -> _socket.socket:
    """Return a connection to the socket at a path. Raises OSError: ENOENT, or ECONNREFUSED when nothing listens any more."""
    folder, name = os.path.split(path)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection = _socket.socket(_socket.AF_UNIX, kind | _socket.SOCK_CLOEXEC)
        connection.connect(f"/proc/self/fd/{fd}/{name}")
        return connection
    finally:
        os.close(fd)


def remove_socket(path: str) -> None:
    """Remove the socket at a path, if there is one."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
