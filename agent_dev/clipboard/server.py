"""The server's process: read the clipboard on request, pass on images alone, log each request, and alert the user.

One way: a request is one of six fixed lines, and nothing of it reaches the clipboard or the program that reads it.
"""

import _socket
import socket

from agent_dev.clipboard import images, programs
from agent_dev.clipboard.options import ClipboardOptions
from agent_dev.linux.helper_process import READY
from agent_dev.session import events, store
from agent_dev.session.alerts import Alerts

_TIMEOUT = 10  # seconds for a client to send its request, and to read a part of the reply
_MAX_REQUESTS = 1000  # of a run: each is a line of the log
_MAX_LISTING = 1 << 20  # bytes of a list of types
_MAX_MESSAGE = 64  # bytes of the relay's pid
_TITLE = "agent-dev: the agent read an image from your clipboard"


def run(control: _socket.socket, listener: int, options: ClipboardOptions) -> None:
    """Serve until the launcher ends this process."""
    control.send(READY)
    session = store.Session(options.folder.rpartition("/")[2], options.folder, -1)
    server = _Server(options, session, control)
    with socket.socket(fileno=listener) as listening:
        while True:
            client, _ = listening.accept()
            with client:
                client.settimeout(_TIMEOUT)
                try:
                    server.serve(client)
                except OSError:
                    continue  # it did not read its reply


class _Server:
    """Answers one client after the other: a reply is `ok SIZE` or `no REASON`, a newline, and SIZE bytes."""

    def __init__(self, options: ClipboardOptions, session: store.Session, control: _socket.socket) -> None:
        self._options, self._session, self._control = options, session, control
        self._alerts: Alerts | None = None  # created for the first image
        self._requests = 0

    def serve(self, client: socket.socket) -> None:
        """Answer the request of a client."""
        line = _receive_line(client)
        if self._requests >= _MAX_REQUESTS:
            client.sendall(b"no too many requests in this run\n")
            return
        self._requests += 1
        try:
            kind = images.parse_request(line)
            data = self._types() if kind == images.LIST else self._image(kind)
        except ValueError as error:
            self._log("deny", str(error))
            client.sendall(f"no {error}\n".encode())
            return
        if kind == images.LIST:
            self._log("allow", f"types of images: {', '.join(data.decode().split()) or 'none'}")
        else:
            text = f"{kind}, {len(data)} bytes"
            self._log("allow", text, is_image=True)
            self._alert(text)
        client.sendall(b"ok %d\n" % len(data) + data)

    def _types(self) -> bytes:
        listing = self._read(programs.list_command(self._options.program), _MAX_LISTING)
        return "".join(f"{one}\n" for one in images.offered_types(listing)).encode()

    def _image(self, kind: str) -> bytes:
        data = self._read(programs.read_command(self._options.program, kind), images.MAX_SIZE)
        if not data:
            raise ValueError(f"the clipboard holds no {kind}")
        if not images.is_image(kind, data):
            raise ValueError(f"the clipboard's contents are not {kind}")
        return data

    def _read(self, command: tuple[str, ...], limit: int) -> bytes:
        """Return the output of the program. Raises ValueError with a reason that tells nothing of the host."""
        try:
            return programs.read_output(command, self._options.notifications.environ, limit)
        except programs.TooLarge:
            raise ValueError(f"the clipboard holds more than {limit >> 20} MiB") from None
        except TimeoutError:
            raise ValueError("the clipboard did not answer in time") from None
        except OSError:
            raise ValueError("the clipboard cannot be read") from None

    def _log(self, decision: str, text: str, *, is_image: bool = False) -> None:
        events.log_event(self._session, events.CLIPBOARD, decision=decision, text=text, image=is_image)

    def _alert(self, text: str) -> None:
        if self._alerts is None:
            self._alerts = Alerts(self._options.notifications, int(self._control.recv(_MAX_MESSAGE) or b"0"))
        self._alerts.announce(_TITLE, text)


def _receive_line(client: socket.socket) -> bytes:
    """Return a request without its newline. Raises TimeoutError, OSError."""
    data = b""
    while b"\n" not in data and len(data) < images.MAX_REQUEST:
        piece = client.recv(images.MAX_REQUEST - len(data))
        if not piece:
            break
        data += piece
    return data.partition(b"\n")[0]
