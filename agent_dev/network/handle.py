"""The launcher's handle on the gateway: starts it, passes it the sandbox's sockets, ends it.

The gateway is a separate process, forked early so that it loads while the sandbox is built.
"""

import os

from agent_dev.config.network_rules import LocalRule, parse_rule
from agent_dev.errors import CannotStart
from agent_dev.linux import signals
from agent_dev.linux.helper_process import FAILED, READY, start_helper
from agent_dev.network.gateway_options import END, GatewayOptions
from agent_dev.network.namespace import NamespaceSpec, prepare_namespace
from agent_dev.network.passing_fds import send_fds
from agent_dev.sandbox.supervisor_interface import GatewayReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

_MAX_REPORT = 1 << 20
_HINT = "run agent-dev doctor, or use --net none"


class GatewayHandle:
    """The launcher's handle on the gateway. Attach it to a sandbox, then kill it."""

    def __init__(self, options: GatewayOptions) -> None:
        """Start the gateway. Raises CannotStart if a port to publish is in use."""
        self._options, self._opener = options, 0
        published = _open_published(options.publish) if options.publish else []

        def serve(control: "_socket.socket") -> None:
            from agent_dev.network import service  # only in this process

            service.run(control, options, published)

        self.pid, self._control = start_helper(serve, [fd for fd, _ in published])
        for fd, _ in published:
            os.close(fd)

    def attach(self, pid: int, relay: int) -> None:
        """Connect the gateway to the network namespace of a process of bubblewrap; `relay`: the pid of its pty relay, 0 for none.

        Raises CannotStart; the agent must not be started then.
        """
        ports = tuple(rule.inside for rule in map(parse_rule, self._options.allow) if isinstance(rule, LocalRule))
        is_captured = self._options.mode != "none"
        try:
            prepared = prepare_namespace(pid, NamespaceSpec(ports, is_captured, bool(self._options.publish)))
            self._opener = prepared.opener
            try:
                message = self._control.recv(1 << 12)
                if message != READY:
                    reason = message.removeprefix(FAILED).decode("utf-8", "replace") or "the gateway process ended"
                    raise CannotStart(message=f"the sandbox's network cannot be set up: {reason}", hint=_HINT)
                send_fds(self._control, READY + str(relay).encode(), prepared.fds)
            finally:
                for fd in prepared.fds:
                    os.close(fd)
        except OSError as error:
            reason = error.strerror or str(error)
            raise CannotStart(message=f"the sandbox's network cannot be set up: {reason}", hint=_HINT) from None

    def end(self) -> GatewayReport | None:
        """End every connection and write the log. Return None if the gateway has died: the log may then be incomplete."""
        try:
            self._control.send(END)
            first, *learned = self._control.recv(_MAX_REPORT).decode().split("\n")
            count, chain, dropped, denied = first.split()
        except (OSError, ValueError):
            return None
        return GatewayReport(int(count), chain, int(dropped), int(denied), tuple(learned))

    def kill(self) -> None:
        """End the gateway and every connection through it."""
        for pid in filter(None, (self.pid, self._opener)):
            os.kill(pid, signals.KILL)
            os.waitpid(pid, 0)
        if self.pid:
            self._control.close()
        self.pid = self._opener = 0


def _open_published(texts: tuple[str, ...]) -> list[tuple[int, int]]:
    from agent_dev.config.published_ports import fixed_ports  # only with published ports
    from agent_dev.network.published import listeners

    return listeners.open_listeners(fixed_ports(texts))
