"""Read the commands of a git push (receive-pack, gitprotocol-pack(5)), and refuse those that no pattern allows. Pure."""

import zlib

from agent_dev.network.access import Denied
from agent_dev.wildcard import matches_stars

_HEADS = "refs/heads/"
_MAX_COMMANDS = 1 << 20  # bytes
_HEX = frozenset(b"0123456789abcdef")
_ID_LENGTHS = (40, 64)
_BAND = 60000  # bytes of one packet of a side band


class PushRefused(Denied):
    """A refused push; `refs`: all of its refs, `capabilities`: what the client's git supports."""

    def __init__(self, reason: str, refs: tuple[str, ...] = (), capabilities: frozenset[str] = frozenset()) -> None:
        super().__init__(reason)
        self.refs, self.capabilities = refs, capabilities


class PushCheck:
    """Reads the beginning of a push; `patterns` match branches, or refs if they begin with `refs/`."""

    def __init__(self, patterns: tuple[str, ...], *, is_gzip: bool) -> None:
        self._patterns = tuple(one if one.startswith("refs/") else _HEADS + one for one in patterns)
        self._unpack = zlib.decompressobj(31) if is_gzip else None
        self._data, self._at = bytearray(), 0
        self._commands: list[tuple[str, bool]] = []  # ref, whether it is deleted
        self._capabilities: frozenset[str] = frozenset()

    def feed(self, data: bytes) -> bool:
        """Return whether all commands are read and allowed. Raises PushRefused."""
        try:
            self._data += self._unpack.decompress(data, _MAX_COMMANDS) if self._unpack else data
        except zlib.error:
            raise PushRefused("the push is not valid gzip") from None
        while (line := self._next_line()) is not None:
            if not line:
                self._decide()
                return True
            self._read(line)
        if len(self._data) >= _MAX_COMMANDS:
            raise PushRefused("the push has too many refs")
        return False

    def finish(self) -> None:
        """Raise PushRefused: the request ended before the commands were complete."""
        raise PushRefused("the push is incomplete")

    def _next_line(self) -> bytes | None:
        """Return the next pkt-line, b"" for a flush; None if it is incomplete."""
        head = bytes(self._data[self._at : self._at + 4])
        if len(head) < 4:
            return None
        if not set(head) <= _HEX:
            raise PushRefused("the push is not valid")
        size = int(head, 16)
        if size == 0:
            self._at += 4
            return b""
        if size <= 4:
            raise PushRefused("the push is not valid")
        if len(self._data) < self._at + size:
            return None
        line = bytes(self._data[self._at + 4 : self._at + size])
        self._at += size
        return line

    def _read(self, line: bytes) -> None:
        if line.startswith(b"shallow "):
            return
        if line.startswith(b"push-cert"):
            raise PushRefused("signed pushes are not supported")
        text, nul, capabilities = line.partition(b"\0")
        if nul:
            if self._commands:
                raise PushRefused("the push is not valid")
            self._capabilities = frozenset(capabilities.decode("ascii", "replace").split())
        old, _, rest = text.removesuffix(b"\n").partition(b" ")
        new, _, ref = rest.partition(b" ")
        if not _is_id(old) or not _is_id(new) or len(old) != len(new):
            raise PushRefused("the push is not valid")
        self._commands.append((_ref_name(ref), set(new) == {ord("0")}))

    def _decide(self) -> None:
        for ref, is_deleted in self._commands:
            if is_deleted:
                self._refuse(f"deleting {ref} is not allowed")
            if not any(matches_stars(ref, pattern) for pattern in self._patterns):
                allowed = ", ".join(one.removeprefix(_HEADS) for one in self._patterns)
                self._refuse(f"a push to {ref} is not allowed, only to {allowed}")

    def _refuse(self, reason: str) -> None:
        raise PushRefused(reason, tuple(ref for ref, _ in self._commands), self._capabilities)


def report(refused: PushRefused, host: str) -> bytes:
    """Return a refusal as git's status report, so that git shows the reason; b"" if the client does not support that."""
    if not refused.capabilities & {"report-status", "report-status-v2"} or not refused.refs:
        return b""
    reason = f"agent-dev: {host}: {refused}".encode("ascii", "backslashreplace")[:900]
    lines = _packet(b"unpack ok\n") + b"".join(_packet(b"ng %b %b\n" % (ref.encode(), reason)) for ref in refused.refs) + b"0000"
    if "side-band-64k" not in refused.capabilities:
        return lines
    pieces = [lines[at : at + _BAND] for at in range(0, len(lines), _BAND)]
    return b"".join(_packet(b"\1" + piece) for piece in pieces) + b"0000"


def _packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def _is_id(word: bytes) -> bool:
    return len(word) in _ID_LENGTHS and set(word) <= _HEX


def _ref_name(ref: bytes) -> str:
    try:
        name = ref.decode()
    except UnicodeDecodeError:
        raise PushRefused("the name of a ref is not valid UTF-8") from None
    if not name.startswith("refs/") or ".." in name or any(char <= " " or char in "~^:?*[\\\x7f" for char in name):
        raise PushRefused("the push is not valid: a ref has an invalid name")
    return name
