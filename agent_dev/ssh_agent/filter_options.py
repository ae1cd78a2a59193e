"""Options of the filter."""

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SOCKET_NAME = "ssh-agent"  # in the session's folder


class FilterOptions(Value):
    """The values of `ssh:`, the socket of the user's ssh-agent, the user's home and the session's folder."""

    rules: "tuple[tuple[str, Any], ...]"
    agent: str
    home: str
    folder: str
