"""The rules for the user's ssh-agent: the values of `ssh:`. Pure."""

from agent_dev.value import Value

SSH_PORT = 22
FINGERPRINT = "SHA256:"
_MAX_PORT = 65535


class SshHost(Value):
    """A host that may be logged in to, by any user if none is named."""

    host: str
    port: int = SSH_PORT
    user: str = ""

    @property
    def known_name(self) -> str:
        """Return the name of the host in known_hosts."""
        return self.host if self.port == SSH_PORT else f"[{self.host}]:{self.port}"

    def __str__(self) -> str:
        return f"{self.user}@{self.host}" if self.user else self.host


class SshRules(Value):
    """Hosts, keys as fingerprints or paths of public keys (none: all), and whether git's signatures are allowed."""

    hosts: tuple[SshHost, ...] = ()
    keys: tuple[str, ...] = ()
    signs_git: bool = False


def ssh_rules(values: "tuple[tuple[str, object], ...]") -> SshRules:
    """Return the rules that checked values of `ssh:` describe."""
    found = dict(values)
    hosts, keys = (tuple(map(str, found.get(name, ()))) for name in ("hosts", "keys"))  # type: ignore[call-overload]
    return SshRules(tuple(map(parse_host, hosts)), keys, bool(found.get("sign_git", False)))


def parse_host(text: str) -> SshHost:
    """Return the host of `[USER@]HOST[:PORT]` or `[USER@][ADDRESS]:PORT`. Raises ValueError."""
    user, at, place = text.rpartition("@")
    if at and not user:
        raise ValueError(f"{text}: no user before the @")
    host, port = place, str(SSH_PORT)
    if place.startswith("["):
        host, bracket, rest = place[1:].partition("]")
        if not bracket or rest[:1] not in ("", ":"):
            raise ValueError(f"{text}: an address with a port is written [ADDRESS]:PORT")
        port = rest[1:] if rest else port
    elif place.count(":") == 1:
        host, _, port = place.partition(":")
    if not host or any(char.isspace() or char in "*?,!|/" or not char.isprintable() for char in user + host):
        raise ValueError(f"{text}: {host or 'nothing'} is not a host name")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= _MAX_PORT):
        raise ValueError(f"{text}: {port or 'nothing'} is not a port")
    return SshHost(host.lower(), int(port), user)
