"""Ask the attach server of a session whether a terminal is attached."""

import _socket

from agent_dev.linux import unix_socket
from agent_dev.sandbox.attaching import protocol

SOCKET = "attach"  # in a session's folder
_PATIENCE = 1.0  # seconds for an answer
_ATTACH_PATIENCE = 10.0  # seconds until a client that does not leave is killed, and more


def is_detached(folder: str) -> bool | None:
    """Return whether no terminal is attached to the session with this folder; None if it cannot be detached."""
    try:
        connection = unix_socket.connect_to(f"{folder}/{SOCKET}", protocol.KIND)
        connection.settimeout(_PATIENCE)
        connection.send(protocol.ASK)
        return connection.recv(1) == protocol.DETACHED
    except OSError:
        return None  # not detachable, or it has just ended


def request_attachment(folder: str, *, takes_over: bool) -> _socket.socket:
    """Return a connection on which the session's server is asked to attach us. Raises OSError."""
    connection = unix_socket.connect_to(f"{folder}/{SOCKET}", protocol.KIND)
    connection.settimeout(_ATTACH_PATIENCE)
    connection.send(protocol.TAKE_OVER if takes_over else protocol.ATTACH)
    return connection
