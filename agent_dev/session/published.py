"""The published ports of a running session, which its gateway lists in a file."""

import json

from agent_dev.session import store
from agent_dev.value import Value

_MAX_SIZE = 1 << 16
_MAX_PORT = 65535


class ListedPort(Value):
    """A port of the sandbox, and where it is published."""

    inside: int
    address: str
    outside: int


def read_published(folder: str) -> tuple[ListedPort, ...]:
    """Return the ports that a session publishes; none if the file is missing or damaged."""
    try:
        with open(f"{folder}/{store.PUBLISHED}", "rb", 0) as file:
            rows = json.loads(file.read(_MAX_SIZE))
        return tuple(ListedPort(_port(inside), str(address), _port(outside)) for inside, address, outside in rows)
    except (OSError, ValueError, TypeError, RecursionError):
        return ()


def url_of(port: ListedPort, session: str) -> str:
    """Return the address of a port for a browser.

    Browsers resolve every name below localhost to 127.0.0.1, and keep the cookies of each apart.
    """
    label = "".join(char if char.isascii() and char.isalnum() else "-" for char in session.lower()).strip("-")[:63].rstrip("-")
    if port.address == "127.0.0.1":
        return f"http://{label + '.' if label else ''}localhost:{port.outside}"
    return f"http://[{port.address}]:{port.outside}" if ":" in port.address else f"http://{port.address}:{port.outside}"


def _port(value: object) -> int:
    if not isinstance(value, int) or not 0 < value <= _MAX_PORT:
        raise ValueError("not a port")
    return value
