"""The interfaces of the supervisor, the gateway and other servers outside for the code that starts and ends a sandbox."""

from agent_dev.value import Value


class CommandLogSummary(Value):
    """Summary of the command log: its end, as in session.json (`chain` empty: no entry), and how many commands were denied."""

    count: int = 0
    chain: str = ""
    dropped: int = 0
    denied: int = 0
    digest: str = ""  # digest of the rules


class GatewayReport(Value):
    """The gateway's report at the end: its log's lines, the last one's chain, lost lines, denied connections, learned rules."""

    count: int
    chain: str
    dropped: int
    denied: int
    learned: tuple[str, ...]


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class SupervisorHandle(Protocol):
        """The launcher's handle on the supervisor (`supervisor.handle.Supervisor`)."""

        has_policy: bool
        has_renames: bool
        has_lookups: bool
        overlays: tuple[tuple[str, str], ...]  # path inside, upper

        def attach(self, pid: int, listener: int, relay: int) -> None:
            """Attach the supervisor to a sandbox and the relay of its terminal (a pid, 0 for none)."""

        def raise_if_dead(self) -> None:
            """Raise CannotStart when the supervisor has died."""

        def has_denied(self) -> bool:
            """Return whether the command to start was denied."""

        def finish(self, *, is_kept: bool) -> CommandLogSummary:
            """Finish the log and return its summary."""

        def kill(self) -> None:
            """Kill the supervisor."""

    class SshAgentFilter(Protocol):
        """The filter in front of the user's ssh-agent."""

        def wait_until_ready(self) -> None:
            """Wait until it serves. Raises CannotStart if it cannot."""

        def kill(self) -> None:
            """End it and every connection through it."""

    class ClipboardImages(Protocol):
        """The server of images of the user's clipboard."""

        def wait_until_ready(self) -> None:
            """Wait until it serves. Raises CannotStart if it cannot."""

        def attach(self, relay: int) -> None:
            """Tell it the relay of the terminal (a pid, 0 for none)."""

        def kill(self) -> None:
            """End it and every connection through it."""

    class NetworkGateway(Protocol):
        """The gateway of a sandbox with a network of its own."""

        def attach(self, pid: int, relay: int) -> None:
            """Give it the network of a process that bubblewrap made, and a terminal's relay. Raises CannotStart."""

        def end(self) -> "GatewayReport | None":
            """End every connection and write the log; return a report, None if the gateway has died."""

        def has_died(self) -> bool:
            """Return whether it has ended by itself."""

        def stop(self) -> None:
            """Kill it without waiting for its end."""

        def kill(self) -> None:
            """End it and every connection through it."""
