"""Find moments at which a terminal can get a BEL without breaking an incomplete sequence of the agent's output."""

_STRINGS = b"]P^_X"  # after ESC: OSC, DCS, PM, APC, SOS
_CANCEL = (b"\x18", b"\x1a")
_MAX_KEPT = 64  # bytes of an incomplete sequence
_MAX_UTF8 = 4  # bytes of a character


class OutputEnd:
    """The incomplete end of an agent's output."""

    def __init__(self) -> None:
        self._open = b""  # an incomplete sequence, from its ESC
        self._last = b""

    def add(self, data: bytearray, size: int) -> None:
        """Add a chunk of output: the first `size` bytes. This runs for all output, so it only searches for ESC."""
        start = data.rfind(b"\x1b", 0, size)
        self._last = (self._last + data[max(0, size - _MAX_UTF8) : size])[-_MAX_UTF8:]
        if start >= 0:
            self._open = bytes(data[start:size])
        elif self._open:
            self._open += bytes(data[:size])
        else:
            return
        if _is_complete(self._open[1:]):
            self._open = b""
        elif len(self._open) > _MAX_KEPT:
            self._open = self._open[:2]

    def can_ring(self) -> bool:
        """Return whether no string is open, and no sequence or character is incomplete."""
        return not self._open and not _has_partial_character(self._last)


def _is_complete(sequence: bytes) -> bool:
    """Return whether a sequence is complete, from the byte after its ESC."""
    if sequence[:1] in (b"", b"["):
        return any(0x40 <= byte <= 0x7E for byte in sequence[1:])
    if sequence[0] in _STRINGS:
        ends = (*_CANCEL, b"\a") if sequence[:1] == b"]" else _CANCEL  # or another ESC; the byte 9C may be part of UTF-8
        return any(end in sequence for end in ends)
    return any(0x30 <= byte <= 0x7E for byte in sequence)  # after intermediate bytes


def _has_partial_character(output: bytes) -> bool:
    """Return whether output ends within a UTF-8 character."""
    for length in range(1, min(_MAX_UTF8, len(output)) + 1):
        byte = output[-length]
        if byte < 0x80:
            return False
        if byte >= 0xC0:
            return length < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
    return False
