"""Messages of the ssh-agent protocol (RFC 4251, draft-ietf-sshm-ssh-agent; OpenSSH's PROTOCOL.agent, PROTOCOL.sshsig). Pure."""

import base64
import hashlib
import struct

from agent_dev.quick_dataclass import dataclass

FAILURE, SUCCESS = b"\x05", b"\x06"
LIST, KEYS, SIGN, EXTENSION = 11, 12, 13, 27
MAX_SIZE = 256 << 10  # bytes of a message
SESSION_BIND = b"session-bind@openssh.com"
_USERAUTH_REQUEST = 50
_SIGNATURE_MAGIC = b"SSHSIG"
_METHODS = (b"publickey", b"publickey-hostbound-v00@openssh.com")


class Malformed(ValueError):
    """A message that violates the protocol."""


class Reader:
    """Reads the fields of a message in order. Raises Malformed."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        if len(self._data) < size:
            raise Malformed("a message ends too early")
        found, self._data = self._data[:size], self._data[size:]
        return found

    def byte(self) -> int:
        """Return a byte as a number."""
        return self.take(1)[0]

    def number(self) -> int:
        """Return a 32-bit number."""
        return int.from_bytes(self.take(4), "big")

    def string(self) -> bytes:
        """Return a string, which is preceded by its length."""
        return self.take(self.number())

    def end(self) -> None:
        """Check that nothing is left."""
        if self._data:
            raise Malformed("a message has more than its fields")


def pack(data: bytes) -> bytes:
    """Return a string preceded by its length."""
    return struct.pack(">I", len(data)) + data


def fingerprint(key: bytes) -> str:
    """Return a public key's fingerprint, as `ssh-add -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Binding:
    """A client's statement about the host of a connection: the host's key has signed the session's identifier."""

    key: bytes
    session: bytes
    signature: bytes
    is_forwarding: bool


def parse_binding(reader: Reader) -> Binding:
    """Return the rest of a session-bind request. Raises Malformed."""
    found = Binding(reader.string(), reader.string(), reader.string(), reader.byte() != 0)
    reader.end()
    return found


@dataclass(frozen=True, slots=True)
class GitSignature:
    """Data to sign in the SSHSIG format; `purpose`: `git` for commits and tags."""

    purpose: bytes


@dataclass(frozen=True, slots=True)
class Login:
    """Data to sign for a login (RFC 4252, section 7); `host_key`: b"" except in the hostbound form."""

    session: bytes
    user: bytes
    host_key: bytes


def parse_signed(data: bytes, key: bytes) -> GitSignature | Login:
    """Return the meaning of data that a key is asked to sign. Raises Malformed for anything else."""
    reader = Reader(data)
    if data.startswith(_SIGNATURE_MAGIC):
        reader.take(len(_SIGNATURE_MAGIC))
        purpose, _reserved, _algorithm, _digest = (reader.string() for _ in range(4))
        reader.end()
        return GitSignature(purpose)
    session = reader.string()
    if reader.byte() != _USERAUTH_REQUEST:
        raise Malformed("not a login")
    user, service, method = (reader.string() for _ in range(3))
    if service != b"ssh-connection" or method not in _METHODS or reader.byte() != 1:
        raise Malformed("not a login with a key")
    _algorithm, used = reader.string(), reader.string()
    host_key = reader.string() if method == _METHODS[1] else b""
    reader.end()
    if used != key:
        raise Malformed("a login with another key")
    return Login(session, user, host_key)


def parse_keys(response: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys of an agent's list, each with its comment. Raises Malformed."""
    reader = Reader(response)
    if reader.byte() != KEYS:
        raise Malformed("not a list of keys")
    found = [(reader.string(), reader.string()) for _ in range(min(reader.number(), MAX_SIZE))]
    reader.end()
    return found


def pack_keys(keys: list[tuple[bytes, bytes]]) -> bytes:
    """Return an agent's list of keys."""
    return bytes((KEYS,)) + struct.pack(">I", len(keys)) + b"".join(pack(key) + pack(comment) for key, comment in keys)
