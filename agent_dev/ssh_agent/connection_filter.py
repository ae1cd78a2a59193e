"""Decide on the requests of one connection to the filter. Pure except for the verification of signatures.

OpenSSH 8.9 and newer first reports the host of a connection (session-bind). The data to sign must then belong to that session.
"""

import hmac
from collections.abc import Callable, Mapping

from agent_dev.config.ssh_rules import SshHost
from agent_dev.quick_dataclass import dataclass
from agent_dev.ssh_agent import messages
from agent_dev.ssh_agent.messages import GitSignature, Login, Malformed, Reader

Verify = Callable[[bytes, bytes, bytes], bool]  # key, signature, data


class SshRequestRefused(Exception):
    """A refused request; the text is the reason."""


@dataclass(frozen=True, slots=True)
class FilterRules:
    """The keys of allowed hosts, the fingerprints of usable keys (none: all), and whether git may sign."""

    hosts: Mapping[bytes, tuple[SshHost, ...]]
    keys: frozenset[str]
    signs_git: bool

    def may_use(self, key: bytes) -> bool:
        """Return whether a key of the user's may be used."""
        return not self.keys or messages.fingerprint(key) in self.keys


class ConnectionFilter:
    """Decides on the requests of one connection. Its state: the host that the connection is bound to."""

    def __init__(self, rules: FilterRules, verify: Verify) -> None:
        self._rules, self._verify = rules, verify
        self._session, self._host_key = b"", b""
        self._is_spoilt = False  # it was bound to something that is not allowed, so nothing is signed

    def may_use(self, key: bytes) -> bool:
        """Return whether a key of the user's may be used."""
        return self._rules.may_use(key)

    def check(self, request: bytes) -> str:
        """Return a description of a request's purpose; "" for a list of keys. Raises SshRequestRefused, Malformed."""
        reader = Reader(request)
        kind = reader.byte()
        if kind == messages.LIST:
            reader.end()
            if self._is_spoilt:
                raise SshRequestRefused("a list of keys, for a host that is not allowed")
            return ""
        if kind == messages.EXTENSION:
            return self._bind(reader)
        if kind == messages.SIGN:
            return self._sign(reader)
        raise SshRequestRefused(f"a request of another kind: {kind}")

    def _bind(self, reader: Reader) -> str:
        if reader.string() != messages.SESSION_BIND:
            raise SshRequestRefused("an extension other than session-bind")
        binding, was_bound = messages.parse_binding(reader), bool(self._session)
        self._is_spoilt = True
        if was_bound:
            raise SshRequestRefused("a second host on one connection: a jump, or a forwarded agent")
        self._session = binding.session or b"-"
        if binding.is_forwarding:
            raise SshRequestRefused("forwarding the agent to a host")
        if binding.key not in self._rules.hosts:
            raise SshRequestRefused(f"a host with the key {messages.fingerprint(binding.key)}, which no allowed host has")
        if not binding.session or not self._verify(binding.key, binding.signature, binding.session):
            raise SshRequestRefused("a host whose key did not sign the session")
        self._host_key, self._is_spoilt = binding.key, False
        return f"connect to {self._rules.hosts[binding.key][0].host}"

    def _sign(self, reader: Reader) -> str:
        key, data, _flags = reader.string(), reader.string(), reader.number()
        reader.end()
        if not self._rules.may_use(key):
            raise SshRequestRefused(f"the key {messages.fingerprint(key)}, which `keys` does not name")
        try:
            meaning = messages.parse_signed(data, key)
        except Malformed as error:
            raise SshRequestRefused(f"a signature for another purpose ({error})") from None
        if isinstance(meaning, GitSignature):
            if not (self._rules.signs_git and meaning.purpose == b"git"):
                raise SshRequestRefused(f"a signature for {meaning.purpose.decode('ascii', 'replace')!r}")
            return "sign a commit or tag"
        return self._check_login(meaning)

    def _check_login(self, login: Login) -> str:
        if not self._host_key:
            raise SshRequestRefused("a login without a session binding: OpenSSH 8.9 or newer sends one")
        if self._is_spoilt or not hmac.compare_digest(login.session, self._session):
            raise SshRequestRefused("a login to a host other than that of the session binding")
        if login.host_key not in (b"", self._host_key):
            raise SshRequestRefused("a login bound to another host key")
        user = login.user.decode("utf-8", "replace")
        host = next((one for one in self._rules.hosts[self._host_key] if one.user in ("", user)), None)
        if host is None:
            raise SshRequestRefused(f"a login as {user!r}, a user that no entry of `hosts` names")
        return f"log in as {user} to {host.host}"
