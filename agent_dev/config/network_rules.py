"""Rules of `allow:` and `deny:`: names, addresses, ports of the host's loopback, and Unix sockets. Pure.

    NAME[:PORT,…] [private]    *.NAME[:PORT,…]    ADDRESS[/BITS][:PORT,…]    [IPv6]:PORT
    localhost:PORT [as PORT]   unix:PATH

Without a port, a rule of `allow:` means 443 and one of `deny:` all ports. `private` lets an exact name lead to private addresses.
"""

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    Address = IPv4Address | IPv6Address
    Network = IPv4Network | IPv6Network

HTTPS = 443
_DNS = 53
SOCKET_PREFIX = "unix:"
_PRIVATE_WORD = " private"
_LOCAL = "localhost"
_MAY_BE_ADDRESS = frozenset(":/")  # in a text with letters
_MAX_NAME, _MAX_LABEL, _MAX_PORT = 253, 63, 65535


class NameRule(Value):
    """A host name, lower case without a final dot, or `*.NAME` for all names below it; no ports: all."""

    text: str
    name: str
    ports: tuple[int, ...]
    is_private: bool = False

    def matches(self, name: str, port: int) -> bool:
        """Return whether the rule names a host and port."""
        is_same = name.endswith(self.name[1:]) if self.name.startswith("*.") else name == self.name
        return is_same and (not self.ports or port in self.ports)


class AddressRule(Value):
    """An address or network; no ports: all."""

    text: str
    network: "Network"
    ports: tuple[int, ...]

    def matches(self, address: "Address", port: int) -> bool:
        """Return whether the rule names an address and port."""
        return address in self.network and (not self.ports or port in self.ports)


class LocalRule(Value):
    """A port of the host's loopback, and the port of the sandbox's loopback that leads to it."""

    text: str
    port: int
    inside: int


class SocketRule(Value):
    """A Unix socket of the host."""

    text: str
    path: str


Rule = NameRule | AddressRule | LocalRule | SocketRule


class RuleSet(Value):
    """The rules of one sandbox; a rule of `deny` wins."""

    allow: tuple[Rule, ...]
    deny: tuple[Rule, ...] = ()

    def denying(self, port: int, *, name: str = "", address: "Address | None" = None) -> "NameRule | AddressRule | None":
        """Return the rule that denies a name or address; None if none does."""
        return next(_matching(self.deny, port, name, address), None)

    def allowing(self, port: int, *, name: str = "", address: "Address | None" = None) -> "NameRule | AddressRule | None":
        """Return the rule that allows most of a name or address, whatever their order; None if none does."""
        return max(_matching(self.allow, port, name, address), key=_extent, default=None)


def _matching(rules: "Iterable[Rule]", port: int, name: str, address: "Address | None") -> "Iterator[NameRule | AddressRule]":
    for rule in rules:
        match rule:
            case NameRule() if name and rule.matches(name, port):
                yield rule
            case AddressRule() if address is not None and rule.matches(address, port):
                yield rule
            case _:
                continue


def _extent(rule: NameRule | AddressRule) -> int:
    """Compare how much rules allow of a name or address: a small network also its private addresses (network/addresses)."""
    return rule.is_private if isinstance(rule, NameRule) else rule.network.prefixlen


def parse_rules(allow: "Iterable[str]", deny: "Iterable[str]" = ()) -> RuleSet:
    """Return the rules of a sandbox. Raises ValueError."""
    return RuleSet(tuple(map(parse_rule, allow)), tuple(parse_rule(text, is_deny=True) for text in deny))


def parse_rule(text: str, *, is_deny: bool = False) -> Rule:
    """Return the rule that a text describes. Raises ValueError with what is wrong."""
    body = text.removesuffix(_PRIVATE_WORD)
    if "://" in body:
        raise ValueError(f"{text}: a URL is not a rule: HOST[:PORT,…]")
    if body == _LOCAL or body.startswith(_LOCAL + ":") or _is_socket(body):
        if is_deny or body != text:
            raise ValueError(
                f"{text}: only a name can be private" if body != text else f"{text}: cannot be denied, only not allowed"
            )
        return _socket_rule(text) if _is_socket(body) else _local_rule(text)
    host, ports = _split(body)
    numbers = tuple(parse_port(text, word) for word in ports.split(",")) if ports else (() if is_deny else (HTTPS,))
    network = parse_network(host)
    if network is None:
        return _name_rule(text, host, numbers, is_private=body != text)
    if body != text:
        raise ValueError(f"{text}: only a name can be private; an address is named as it is")
    if network.is_loopback:
        raise ValueError(f"{text}: a port of this machine's loopback is written localhost:PORT")
    return AddressRule(text, network, numbers)


def _is_socket(text: str) -> bool:
    """Return whether a rule names a socket, and not ports of a host with the name `unix`."""
    return text.startswith(SOCKET_PREFIX) and not text.removeprefix(SOCKET_PREFIX).replace(",", "").isdecimal()


def _name_rule(text: str, host: str, ports: tuple[int, ...], *, is_private: bool) -> NameRule:
    name = canonical_name(host, is_wildcard_allowed=True)
    if is_private and name.startswith("*."):
        raise ValueError(f"{text}: only an exact name can be private")
    return NameRule(text, name, ports, is_private)


def _socket_rule(text: str) -> SocketRule:
    path = text.removeprefix(SOCKET_PREFIX)
    if not path.startswith("/") or path.endswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")):
        raise ValueError(f"{text}: the path of a socket begins with / and has no empty part, `.` or `..`")
    return SocketRule(text, path)


def _local_rule(text: str) -> LocalRule:
    outside, separator, inside = text.removeprefix(_LOCAL).removeprefix(":").partition(" as ")
    if not outside:
        raise ValueError(f"{text}: needs a port: localhost:5432")
    port = parse_port(text, outside)
    rule = LocalRule(text, port, parse_port(text, inside) if separator else port)
    if rule.inside == _DNS:
        raise ValueError(f"{text}: DNS is answered at port 53 inside; write localhost:{port} as PORT")
    return rule


def _split(text: str) -> tuple[str, str]:
    """Return host and ports; an IPv6 address is in brackets or has no port."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or rest == ":":
            raise ValueError(f"{text}: an IPv6 address with a port is written [ADDRESS]:PORT")
        if parse_network(host) is None:
            raise ValueError(f"{text}: {host} is not an address")
        return host, rest[1:]
    if text.count(":") == 1:
        host, _, ports = text.partition(":")
        if not ports:
            raise ValueError(f"{text}: no port after the colon")
        return host, ports
    return text, ""


def parse_port(text: str, word: str) -> int:
    """Return a port, a word of a text. Raises ValueError."""
    if not (word.isascii() and word.isdecimal() and 0 < int(word) <= _MAX_PORT):
        raise ValueError(f"{text}: {word or 'nothing'} is not a port (1 to {_MAX_PORT})")
    return int(word)


def parse_network(text: str) -> "Network | None":
    """Return an address or network; None for a name. Raises ValueError for a network with host bits."""
    if not _MAY_BE_ADDRESS.intersection(text) and any(map(str.isalpha, text)):
        return None
    from ipaddress import ip_network  # deferred: it takes longer than all other rules

    try:
        return ip_network(text)
    except ValueError:
        if "/" not in text:
            return None
    try:
        right = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text} is not a network") from None
    raise ValueError(f"{text}: bits after the prefix are set; the network is {right}")


def canonical_name(name: str, *, is_wildcard_allowed: bool = False) -> str:
    """Return a host name as rules compare it: ASCII, lower case, without the final dot. Raises ValueError.

    A name whose last label is a number is none: resolvers read `127.1` or `0x7f000001` as an address.
    """
    is_wildcard = is_wildcard_allowed and name.startswith("*.")
    bare = (name[2:] if is_wildcard else name).removesuffix(".")
    try:
        bare = (bare if bare.isascii() else bare.encode("idna").decode()).lower()
    except UnicodeError:
        raise ValueError(f"{name} is not a host name") from None
    labels = bare.split(".")
    if len(bare) > _MAX_NAME or not all(map(_is_label, labels)) or _is_number(labels[-1]):
        raise ValueError(f"{name or 'an empty text'} is not a host name")
    if is_wildcard and len(labels) < 2:
        raise ValueError(f"{name}: a wildcard needs two labels: *.example.org")
    return ("*." if is_wildcard else "") + bare


def _is_label(label: str) -> bool:
    return 0 < len(label) <= _MAX_LABEL and label.replace("-", "").replace("_", "").isalnum() and not label.startswith("-")


def _is_number(label: str) -> bool:
    digits = label.removeprefix("0x")
    return label.isdecimal() or (digits != label and all(char in "0123456789abcdef" for char in digits))
