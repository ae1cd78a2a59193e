"""The opener: a process in the sandbox's network namespace that only creates sockets there for the gateway.

A socket belongs to the network namespace of the process that created it. The gateway connects these sockets to servers inside.
"""

import _socket
import os

from agent_dev.linux import process, signals
from agent_dev.network.passing_fds import send_fds

IPV4, IPV6 = b"4", b"6"  # requests
MADE, FAILED = b"+", b"!"  # responses
_KIND = _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK
_FAMILIES = {IPV4: _socket.AF_INET, IPV6: _socket.AF_INET6}


def run(requests: _socket.socket) -> None:
    """Answer requests until the gateway or the launcher has ended."""
    signals.set_alarm(0)
    process.close_all_but({requests.fileno()})
    while family := requests.recv(1):
        try:
            made = _socket.socket(_FAMILIES[family], _KIND).detach()
        except (OSError, KeyError):
            requests.send(FAILED)
        else:
            send_fds(requests, MADE, [made])
            os.close(made)
