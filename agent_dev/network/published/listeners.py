"""Open the published ports on the host before the agent is started.

It uses `_socket`, since it is on the launch path (docs/decisions/0002-launch-path-imports.md).
"""

import _socket
import errno
import os

from agent_dev.config.published_ports import PublishedPort
from agent_dev.errors import CannotStart

_BACKLOG = 128
_V6ONLY = 26


def open_listeners(ports: tuple[PublishedPort, ...]) -> list[tuple[int, int]]:
    """Return a listening socket for each port, with the port inside. Raises CannotStart if one cannot be opened.

    An optional port that is in use is skipped.
    """
    opened: list[tuple[int, int]] = []
    for port in ports:
        try:
            opened.append((listen(port.address, port.outside), port.inside))
        except OSError as error:
            if port.is_optional and error.errno == errno.EADDRINUSE:
                continue
            for fd, _ in opened:
                os.close(fd)
            raise _explain(port, error) from None
    return opened


def listen(address: str, port: int) -> int:
    """Return a listening socket; port 0: any free port. Raises OSError."""
    is_six = ":" in address
    made = _socket.socket(_socket.AF_INET6 if is_six else _socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        if is_six:
            made.setsockopt(_socket.IPPROTO_IPV6, _V6ONLY, 1)
        made.bind((address, port))
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made.detach()


def _explain(port: PublishedPort, error: OSError) -> CannotStart:
    place = f"port {port.outside} of {port.address}"
    if error.errno == errno.EADDRINUSE:
        free = port.outside + 1 if port.outside < 65535 else port.outside - 1
        hint = f"--publish {free}:{port.inside}, or --publish {port.text}? to skip it if in use" if not port.is_optional else ""
        return CannotStart(message=f"publish: {place} is in use", hint=hint)
    if error.errno == errno.EACCES:
        return CannotStart(message=f"publish: no permission to use {place}", hint=f"--publish {8000 + port.inside}:{port.inside}")
    return CannotStart(message=f"publish: {place}: {error.strerror}", hint="use an address of this machine, such as 127.0.0.1")
