"""The launcher's handle on the gateway: starts it, passes it the sandbox's sockets, ends it.

Two processes are forked early, so that they are ready when the sandbox is built: the gateway, which waits for the sockets
(standby.py), and the helper that creates these in the sandbox's network namespace (namespace.py).
"""

import _socket
import os

from agent_dev.errors import CannotStart
from agent_dev.linux import signals
from agent_dev.linux.helper_process import FAILED, READY, start_helper
from agent_dev.network.gateway_options import END, LOG, UNUSED, GatewayOptions
from agent_dev.network.passing_fds import receive_fds, send_fds
from agent_dev.sandbox.supervisor_interface import GatewayReport

_MAX_REPORT = 1 << 20
_HINT = "run agent-dev doctor, or use --net none"
_KEY_HINT = "export the variable, or correct `credentials:` in config.yaml"


class GatewayHandle:
    """The launcher's handle on the gateway. Attach it to a sandbox, then kill it."""

    def __init__(self, options: GatewayOptions) -> None:
        """Start the gateway. Raises CannotStart if a port to publish is in use."""
        self._options, self._helper = options, 0
        published = _open_published(options.publish) if options.publish else []

        def serve(control: _socket.socket) -> None:
            from agent_dev.network import standby  # only in this process

            standby.run(control, options, published)

        def prepare(control: _socket.socket) -> None:
            from agent_dev.network import namespace  # only in this process

            namespace.serve(control, namespace.namespace_spec(options))

        self.pid, self._control = start_helper(serve, [fd for fd, _ in published])
        self._helper, self._namespace = start_helper(prepare, ())
        for fd, _ in published:
            os.close(fd)

    def attach(self, pid: int, relay: int) -> None:
        """Connect the gateway to the network namespace of a process of bubblewrap; `relay`: the pid of its pty relay, 0 for none.

        Raises CannotStart; the agent must not be started then.
        """
        try:
            self._namespace.send(b"%d" % pid)
            message, fds = receive_fds(self._namespace)
            try:
                _raise_failure(message, "the helper process died")
                _raise_failure(self._control.recv(1 << 12), "the gateway process ended")
                send_fds(self._control, READY + str(relay).encode(), fds)
            finally:
                for fd in fds:
                    os.close(fd)
        except OSError as error:
            raise setup_failure(error.strerror or str(error)) from None

    def end(self) -> GatewayReport | None:
        """End every connection and write the log. Return None if the gateway has died: the log may then be incomplete."""
        try:
            self._control.send(END)
            message = self._control.recv(_MAX_REPORT)
            if message == UNUSED:
                return self._report_without_connections()
            first, *learned = message.decode().split("\n")
            count, chain, dropped, denied = first.split()
        except (OSError, ValueError):
            return None
        return GatewayReport(int(count), chain, int(dropped), int(denied), tuple(learned))

    def _report_without_connections(self) -> GatewayReport | None:
        """Return the report of a gateway to which nothing has connected."""
        from agent_dev.session.hash_chain import LogWriter  # after the run

        try:
            log = LogWriter(f"{self._options.folder}/{LOG}")
        except OSError:
            return None
        log.close()
        return GatewayReport(log.end.count, log.end.chain, log.end.dropped, 0, ())

    def has_died(self) -> bool:
        """Return whether the gateway has ended by itself."""
        return bool(self.pid) and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def stop(self) -> None:
        """Kill the gateway without waiting for its end; `kill` waits."""
        for pid in filter(None, (self.pid, self._helper)):
            os.kill(pid, signals.KILL)

    def kill(self) -> None:
        """End the gateway and every connection through it."""
        self.stop()
        for pid in filter(None, (self.pid, self._helper)):
            os.waitpid(pid, 0)
        if self.pid:
            self._control.close()
            self._namespace.close()
        self.pid = self._helper = 0


def setup_failure(reason: str) -> CannotStart:
    """Return the error for a network that cannot be set up; the reason may be that of `sources.NoKey`."""
    hint = _KEY_HINT if reason.startswith("credentials: ") else _HINT
    return CannotStart(message=f"the sandbox's network cannot be set up: {reason}", hint=hint)


def _raise_failure(message: bytes, otherwise: str) -> None:
    """Raise CannotStart unless a process reports that it is ready; `otherwise`: the reason if it reports nothing."""
    if message != READY:
        raise setup_failure(message.removeprefix(FAILED).decode("utf-8", "replace") or otherwise)


def _open_published(texts: tuple[str, ...]) -> list[tuple[int, int]]:
    from agent_dev.config.published_ports import fixed_ports  # only with published ports
    from agent_dev.network.published import listeners

    return listeners.open_listeners(fixed_ports(texts))
