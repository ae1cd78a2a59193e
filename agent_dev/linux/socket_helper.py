"""A helper process of the launcher that serves a Unix socket, which exists before the process is ready."""

import _socket
import os

from agent_dev.linux import signals, unix_socket
from agent_dev.linux.helper_process import FAILED, READY, start_helper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_MESSAGE = 1 << 12


class SocketHelper:
    """The launcher's handle on such a process. `serve` gets a control socket and the listening descriptor."""

    def __init__(self, path: str, backlog: int, serve: "Callable[[_socket.socket, int], None]") -> None:
        self._path = path
        listener = unix_socket.listen_at(path, _socket.SOCK_STREAM, backlog)
        self.pid, self.control = start_helper(lambda control: serve(control, listener), [listener])
        os.close(listener)

    def failure(self) -> str:
        """Wait until the process serves; return "", or the reason why it cannot."""
        message = self.control.recv(_MAX_MESSAGE)
        if message == READY:
            return ""
        return message.removeprefix(FAILED).decode("utf-8", "replace") or "the process ended"

    def kill(self) -> None:
        """End the process and every connection through it."""
        if self.pid:
            os.kill(self.pid, signals.KILL)
            os.waitpid(self.pid, 0)
            self.control.close()
            unix_socket.remove_socket(self._path)
            self.pid = 0
