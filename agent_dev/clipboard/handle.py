"""The launcher's handle on the clipboard's server, a process that is forked early so that it loads while the sandbox is built."""

from agent_dev.clipboard.options import SOCKET_NAME, ClipboardOptions
from agent_dev.errors import CannotStart
from agent_dev.linux.socket_helper import SocketHelper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

_BACKLOG = 8


class ClipboardServer(SocketHelper):
    """The launcher's handle on the server. Wait until it is ready, tell it the terminal's relay, then kill it."""

    def __init__(self, options: ClipboardOptions) -> None:
        def serve(control: "socket", listener: int) -> None:
            from agent_dev.clipboard import server  # only in this process

            server.run(control, listener, options)

        super().__init__(f"{options.folder}/{SOCKET_NAME}", _BACKLOG, serve)

    def wait_until_ready(self) -> None:
        """Wait until it serves. Raises CannotStart if it cannot; the agent must not be started then."""
        reason = self.failure()
        if reason:
            raise CannotStart(message=f"share clipboard-images: {reason}")

    def attach(self, relay: int) -> None:
        """Tell the server the process of the terminal's relay, which rings the bell; 0 without a terminal."""
        try:
            self.control.send(str(relay).encode())
        except OSError:
            return  # the server has died: the agent gets no images
