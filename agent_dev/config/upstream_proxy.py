"""The proxy through which the gateway connects, and the hosts that it reaches without it. Pure.

http://[USER:PASSWORD@]HOST[:PORT]    socks5h://[USER:PASSWORD@]HOST[:PORT]    none
"""

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NONE = "none"
HTTP, SOCKS = "http", "socks5h"
_PORTS = {HTTP: 3128, SOCKS: 1080}
_MAX_PORT = 65535
_VARIABLES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_EXCEPTIONS = ("no_proxy", "NO_PROXY")


class UpstreamProxy(Value):
    """A proxy. Its text has no password: it can be shown and logged."""

    kind: str
    host: str
    port: int
    user: str = ""
    password: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.kind}://{f'{self.user}:…@' if self.user else ''}{host}:{self.port}"

    def __repr__(self) -> str:
        return f"UpstreamProxy({self})"


def parse_proxy(text: str) -> UpstreamProxy | None:
    """Return the proxy that a text describes; None for `none`. Raises ValueError, whose text has no password."""
    if text == NONE:
        return None
    kind, separator, rest = text.partition("://")
    kind = SOCKS if kind == "socks5" else kind  # of a variable: the proxy resolves names in any case
    if not separator or kind not in _PORTS:
        raise ValueError(f"a proxy is written {HTTP}://HOST:PORT or {SOCKS}://HOST:PORT, or {NONE}")
    credentials, _, place = rest.rstrip("/").rpartition("@")
    user, _, password = credentials.partition(":")
    host, port = _split(place, _PORTS[kind])
    if not host or any(not char.isprintable() or char.isspace() or char in "/@?#" for char in host):
        raise ValueError("the proxy has no valid host")
    return UpstreamProxy(kind, host, port, _decode(user), _decode(password))


def proxy_from_environment(environ: "Mapping[str, str]") -> tuple[str, str, tuple[str, ...]]:
    """Return the name of the variable that names a proxy, its value, and the exceptions; empty without one."""
    name = next((name for name in _VARIABLES if environ.get(name)), "")
    words = next((environ[one] for one in _EXCEPTIONS if environ.get(one)), "")
    return name, environ.get(name, ""), tuple(word for part in words.split(",") if (word := part.strip()))


def is_excepted(host: str, port: int, words: tuple[str, ...]) -> bool:
    """Return whether a host, a name or an address, is reached without the proxy.

    A word is `*`, a name with all names below it, an address or a network; `:PORT` limits it.
    """
    return any(_matches(host, port, word.lower()) for word in words)


def _matches(host: str, port: int, word: str) -> bool:
    from ipaddress import ip_address, ip_network  # deferred: only with a proxy

    if word == "*":
        return True
    try:
        return ip_address(host) in ip_network(word.strip("[]"), strict=False)
    except ValueError:
        pass
    name, colon, number = word.rpartition(":") if word.count(":") == 1 else (word, "", "")
    bare = name.removeprefix("*").removeprefix(".")
    return bool(bare) and (host == bare or host.endswith(f".{bare}")) and (not colon or number == str(port))


def _split(place: str, default: int) -> tuple[str, int]:
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = place.partition(":")
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port) <= _MAX_PORT):
        raise ValueError("the proxy's port is not a port")
    return host, int(port) if port else default


def _decode(text: str) -> str:
    from urllib.parse import unquote  # deferred: only with a proxy

    found = unquote(text)
    if any(char < " " or char == "\x7f" for char in found):
        raise ValueError("the proxy's user or password has a control character")
    return found
