"""The gateway's process until it is needed: it holds the sandbox's sockets, in which connections and DNS queries wait.

    launcher ─ READY ─▶ the agent starts ─ first connection, or a moment ─▶ load and serve

Loading takes as long as the rest of a start. So the agent does not wait for it, and a run that ends at once does without it. It
does wait with credentials, because without their keys it must not start, and when a library has changed and may be broken.
"""

import _socket
import gc
import os
import select
import sys

from agent_dev.linux.helper_process import FAILED, READY
from agent_dev.network import libraries
from agent_dev.network.gateway_options import LOG, UNUSED, GatewayOptions
from agent_dev.network.passing_fds import receive_fds
from agent_dev.paths import is_below
from agent_dev.session.store import QUESTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_dev.network.service import GatewayParts

_MOMENT = 10  # ms, after which the gateway loads in any case: a run that ends at once takes less

Published = list[tuple[int, int]]


def run(control: _socket.socket, options: GatewayOptions, published: Published) -> None:
    """Serve a sandbox; return when the launcher closes its end. `published`: listening sockets, each with a port inside."""
    gc.disable()  # loading creates no garbage, and collections take a tenth of it; service.run enables them again
    try:
        parts = _prepare(options)
    except (OSError, ValueError) as error:
        control.send(FAILED + str(error).encode("utf-8", "replace"))
        return
    control.send(READY)
    message, fds = receive_fds(control)
    if not fds:
        return
    if parts is None and not is_needed(control, [*fds, *(fd for fd, _ in published)]):
        control.send(UNUSED)
        return
    from agent_dev.network import service  # takes long

    service.run(control, parts or service.load(options), service.GatewaySockets(fds, published), int(message.removeprefix(READY)))


def _prepare(options: GatewayOptions) -> "GatewayParts | None":
    """Do before the agent starts what can fail: check libraries, open the log, read keys. Raises OSError, ValueError."""
    sys.path[:] = search_path(options.notifications.untrusted)
    if not libraries.are_unchanged(options.libraries_file):
        libraries.load(options.libraries_file)
    os.close(os.open(f"{options.folder}/{LOG}", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    if os.path.isdir(f"{options.folder}/{QUESTIONS}"):
        from agent_dev.session import approvals  # only if something was asked before

        approvals.remove_all(options.folder)
    if options.broker is None:
        return None
    from agent_dev.network import service  # reads the keys

    try:
        return service.load(options)
    except (OSError, ValueError):
        raise
    except Exception as error:  # noqa: BLE001  (a broken library may raise anything)
        raise ValueError(libraries.failure_reason(error)) from None


def search_path(untrusted: "Iterable[str]") -> list[str]:
    """Return where libraries may be loaded from while the agent runs: Python's own directories, and none that it could write."""
    own = (f"{sys.prefix}/", f"{sys.base_prefix}/")
    folders = [os.path.realpath(one) for one in untrusted]
    return [one for one in sys.path if one.startswith(own) or not any(is_below(os.path.realpath(one), top) for top in folders)]


def is_needed(control: _socket.socket, fds: list[int]) -> bool:
    """Wait until the gateway is needed; return False if the run has ended and nothing has connected."""
    poll = select.poll()
    for fd in (control.fileno(), *fds):
        poll.register(fd, select.POLLIN)
    ready = [fd for fd, _ in poll.poll(_MOMENT)]
    return ready != [control.fileno()]
