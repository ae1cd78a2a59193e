"""The launcher's handle on the ssh-agent filter, a process that is forked early so that it loads while the sandbox is built."""

import _socket
import os

from agent_dev.errors import CannotStart
from agent_dev.linux import signals, unix_socket
from agent_dev.linux.helper_process import FAILED, READY, start_helper
from agent_dev.ssh_agent.filter_options import SOCKET_NAME, FilterOptions

_BACKLOG = 32


class SshFilter:
    """The launcher's handle on the filter. Wait until it is ready, then kill it."""

    def __init__(self, options: FilterOptions) -> None:
        self._path = f"{options.folder}/{SOCKET_NAME}"
        listener = unix_socket.listen_at(self._path, _socket.SOCK_STREAM, _BACKLOG)

        def serve(control: _socket.socket) -> None:
            from agent_dev.ssh_agent import server  # only in this process

            server.run(control, listener, options)

        self.pid, self._control = start_helper(serve, [listener])
        os.close(listener)

    def wait_until_ready(self) -> None:
        """Wait until it serves. Raises CannotStart if it cannot; the agent must not be started then."""
        message = self._control.recv(1 << 12)
        if message != READY:
            reason = message.removeprefix(FAILED).decode("utf-8", "replace") or "the filter process ended"
            hint = "connect once to each host in `ssh:` outside the sandbox, to add its key to known_hosts"
            raise CannotStart(message=f"share ssh-agent: {reason}", hint=hint)

    def kill(self) -> None:
        """End the filter and every connection through it."""
        if self.pid:
            os.kill(self.pid, signals.KILL)
            os.waitpid(self.pid, 0)
            self._control.close()
            unix_socket.remove_socket(self._path)
            self.pid = 0
