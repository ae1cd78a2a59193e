"""Pass file descriptors to another process with a message (unix(7))."""

import _socket
import sys

MAX_FDS = 200  # SCM_MAX_FD is 253


def send_fds(connection: _socket.socket, data: bytes, fds: list[int]) -> None:
    """Send descriptors with a message."""
    packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    connection.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])


def receive_fds(connection: _socket.socket) -> tuple[bytes, list[int]]:
    """Return a message and its descriptors."""
    space = _socket.CMSG_SPACE(4 * MAX_FDS)
    data, ancillary, _, _ = connection.recvmsg(1 << 16, space, _socket.MSG_CMSG_CLOEXEC)
    fds = [
        int.from_bytes(block[at : at + 4], sys.byteorder)
        for level, kind, block in ancillary
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        for at in range(0, len(block) // 4 * 4, 4)
    ]
    return data, fds
