"""The launcher's handle on the ssh-agent filter, a process that is forked early so that it loads while the sandbox is built."""

from agent_dev.errors import CannotStart
from agent_dev.linux.socket_helper import SocketHelper
from agent_dev.ssh_agent.filter_options import SOCKET_NAME, FilterOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

_BACKLOG = 32


class SshFilter(SocketHelper):
    """The launcher's handle on the filter. Wait until it is ready, and kill it when the agent has exited."""

    def __init__(self, options: FilterOptions) -> None:
        def serve(control: "socket", listener: int) -> None:
            from agent_dev.ssh_agent import server  # only in this process

            server.run(control, listener, options)

        super().__init__(f"{options.folder}/{SOCKET_NAME}", _BACKLOG, serve)

    def wait_until_ready(self) -> None:
        """Wait until it serves. Raises CannotStart if it cannot; the agent must not be started then."""
        reason = self.failure()
        if reason:
            hint = "connect once to each host in `ssh:` outside the sandbox, to add its key to known_hosts"
            raise CannotStart(message=f"share ssh-agent: {reason}", hint=hint)
