"""The gateway's process until it is needed: it holds the sandbox's sockets, in which connections and DNS queries wait.

    launcher ─ READY ─▶ the agent starts ─ first connection, or a moment ─▶ load and serve

Loading takes as long as the rest of a start. So the agent does not wait for it, and a run that ends at once does without it. With
credentials it does wait: without their keys, it must not start.
"""

import _socket
import os
import select
import sys
from _frozen_importlib_external import PathFinder  # part of every interpreter; importlib.util takes 2 ms

from agent_dev.linux.helper_process import FAILED, READY
from agent_dev.network.gateway_options import LOG, GatewayOptions
from agent_dev.network.passing_fds import receive_fds
from agent_dev.paths import is_below
from agent_dev.session.store import QUESTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_dev.network.service import GatewayParts

_LIBRARIES = ("asyncio", "h11", "ssl")
_MOMENT = 20  # ms that a run which ends at once does not take

Published = list[tuple[int, int]]


def run(control: _socket.socket, options: GatewayOptions, published: Published) -> None:
    """Serve a sandbox; return when the launcher closes its end. `published`: listening sockets, each with a port inside."""
    try:
        parts = _prepare(options)
    except (OSError, ValueError) as error:
        control.send(FAILED + str(error).encode("utf-8", "replace"))
        return
    control.send(READY)
    message, fds = receive_fds(control)
    if not fds or (parts is None and _is_ended(control, [*fds, *(fd for fd, _ in published)])):
        return
    from agent_dev.network import service  # takes long

    service.run(control, parts or service.load(options), service.GatewaySockets(fds, published), int(message.removeprefix(READY)))


def _prepare(options: GatewayOptions) -> "GatewayParts | None":
    """Do before the agent starts what can fail: find libraries, open the log, read keys. Raises OSError, ValueError."""
    sys.path[:] = search_path(options.notifications.untrusted)
    missing = [name for name in _LIBRARIES if PathFinder.find_spec(name) is None]
    if missing:
        raise ValueError(f"{', '.join(missing)} is not installed")
    os.close(os.open(f"{options.folder}/{LOG}", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    if os.path.isdir(f"{options.folder}/{QUESTIONS}"):
        from agent_dev.session import approvals  # only if something was asked before

        approvals.remove_all(options.folder)
    if options.broker is None:
        return None
    from agent_dev.network import service  # reads the keys

    return service.load(options)


def search_path(untrusted: "Iterable[str]") -> list[str]:
    """Return where libraries may be loaded from while the agent runs: Python's own directories, and none that it could write."""
    own = (f"{sys.prefix}/", f"{sys.base_prefix}/")
    folders = [os.path.realpath(one) for one in untrusted]
    return [one for one in sys.path if one.startswith(own) or not any(is_below(os.path.realpath(one), top) for top in folders)]


def _is_ended(control: _socket.socket, fds: list[int]) -> bool:
    """Wait until the gateway is needed; return whether the sandbox has ended instead."""
    poll = select.poll()
    for fd in (control.fileno(), *fds):
        poll.register(fd, select.POLLIN)
    return any(fd == control.fileno() for fd, _ in poll.poll(_MOMENT))
