"""Messages between the attach server of a session and its clients: sequenced packets, whose first byte is the type."""

import _socket
import array
import sys

from agent_dev.value import Value

KIND = _socket.SOCK_SEQPACKET
MAX_MESSAGE = 1 << 16  # bytes
# From a client.
ASK, ATTACH, TAKE_OVER = b"?", b"a", b"o"  # the first message: ask for the state, attach, attach in place of another client
OUTPUT_DONE = b"d"  # in reply to END: all output is written
# From the server.
DETACHED, ATTACHED = b"0", b"1"  # the state, or the refusal of ATTACH
GREETING = b"g"  # with a Greeting, the pty and the history
RUNNING, SUSPEND, BELL, END, TAKEN = b"r", b"s", b"\a", b"e", b"t"
RESULT = b"="  # with what the launcher reports at its end
_FDS = 2


class Greeting(Value):
    """The server's greeting: the launcher's pid, the session's id and name, whether its agent may write to the clipboard."""

    launcher: int
    session: str
    name: str
    may_copy: bool = True

    def encode(self) -> bytes:
        """Return the greeting as a message."""
        parts = (GREETING, b"%d" % self.launcher, self.session.encode(), self.name.encode(), b"%d" % self.may_copy)
        return b"\0".join(parts)


def parse_greeting(message: bytes) -> Greeting | None:
    """Return the greeting in a message; None if it is another message."""
    kind, *parts = message.split(b"\0")
    if kind != GREETING or len(parts) != 4:
        return None
    return Greeting(int(parts[0]), parts[1].decode(), parts[2].decode(), parts[3] == b"1")


def send_fds(connection: _socket.socket, message: bytes, fds: tuple[int, ...]) -> None:
    """Send a message with descriptors."""
    connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", fds))])


def receive_fds(connection: _socket.socket) -> tuple[bytes, tuple[int, ...]]:
    """Return a message and the descriptors sent with it."""
    data, ancillary, _, _ = connection.recvmsg(MAX_MESSAGE, _socket.CMSG_SPACE(4 * _FDS), _socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, block in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            fds.frombytes(block[: len(block) // 4 * 4])
    return data, tuple(fds)


def peer(connection: _socket.socket) -> tuple[int, int]:
    """Return the pid and the user of the process at the other end."""
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], sys.byteorder), int.from_bytes(credentials[4:8], sys.byteorder)
