"""Ports of the sandbox that are published on this machine: the entries of `publish:`. Pure.

    PORT    OUTSIDE:INSIDE    ADDRESS:OUTSIDE:INSIDE    [IPv6]:OUTSIDE:INSIDE    auto

With a trailing `?`, a port that is in use outside is left out. `auto` publishes every port that a program inside listens on.
"""

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

AUTO = "auto"
LOOPBACK = "127.0.0.1"
_MAX_PORT = 65535


class PublishedPort(Value):
    """A port of the sandbox, and where it is published."""

    text: str
    address: str
    outside: int
    inside: int
    is_optional: bool = False

    @property
    def is_local(self) -> bool:
        """Return whether only this machine reaches it."""
        return self.address == "::1" or self.address.startswith("127.")


def parse_published(text: str) -> PublishedPort | None:
    """Return the port that an entry describes; None for `auto`. Raises ValueError with what is wrong."""
    if text == AUTO:
        return None
    body = text.removesuffix("?")
    address, ports = _split_address(text, body)
    outside, colon, inside = ports.partition(":")
    number = _port(text, outside)
    return PublishedPort(text, address, number, _port(text, inside) if colon else number, body != text)


def fixed_ports(texts: "Iterable[str]") -> tuple[PublishedPort, ...]:
    """Return the ports that entries name, without `auto`. Raises ValueError."""
    return tuple(port for text in texts if (port := parse_published(text)))


def _split_address(text: str, body: str) -> tuple[str, str]:
    if body.startswith("["):
        address, bracket, ports = body[1:].partition("]:")
        if not bracket or ":" not in ports:
            raise ValueError(f"{text}: a port at an IPv6 address is written [ADDRESS]:OUTSIDE:INSIDE")
    elif body.count(":") == 2:
        address, _, ports = body.partition(":")
    else:
        return LOOPBACK, body
    from ipaddress import ip_address  # deferred: most entries have no address

    try:
        return str(ip_address(address)), ports
    except ValueError:
        raise ValueError(f"{text}: {address or 'nothing'} is not an address of this machine") from None


def _port(text: str, word: str) -> int:
    if not (word.isascii() and word.isdecimal() and word[0] != "0" and 0 < int(word) <= _MAX_PORT):
        raise ValueError(f"{text}: {word or 'nothing'} is not a port (1 to {_MAX_PORT}), and not {AUTO}")
    return int(word)
