"""The clipboard of the user's terminal, which a program reads and writes by OSC 52 (xterm's ctlseqs).

A sequence that reads it is never passed on, because the answer would become input of the sandbox. Writing needs permission.
"""

_IGNORED = bytes({*range(0x20), 0x7F} - {0x07, 0x18, 0x1A, 0x1B})  # control characters that terminals skip within a sequence
_ESC = 0x1B
_ENDS = (b"\a", b"\x18", b"\x1a", b"\x1b")
_DIGITS = b"0123456789"
_C1_OSC = b"\xc2\x9d"  # OSC as one character, in UTF-8
_MAX_SEQUENCE = 1 << 20  # bytes; terminals refuse more, too
_MAX_DIGITS = 9
_CLIPBOARD, _ITERM = 52, 1337


class ClipboardFilter:
    """Removes forbidden clipboard sequences from an agent's output, which arrives in chunks."""

    def __init__(self, *, may_write: bool) -> None:
        self._may_write = may_write
        self._held = b""  # a sequence that is not complete yet

    def concerns(self, data: bytearray, size: int) -> bool:
        """Return whether the first `size` bytes of output must be filtered; this runs for all output."""
        return bool(self._held) or (
            (data.find(b"\x1b", 0, size) >= 0 or data.find(b"\xc2", 0, size) >= 0) and _may_start(bytes(data[:size]))
        )

    def filter(self, data: bytes) -> bytes:
        """Return the output to pass on. A sequence that the chunk does not complete is held back."""
        data, self._held = self._held + data, b""
        passed, position = [], 0
        while (start := _find_start(data, position)) >= 0:
            passed.append(data[position:start])
            end = self._find_end(data, start)
            if end < 0:
                self._held = data[start : start + _MAX_SEQUENCE + 1]
                return b"".join(passed)
            if end - start <= _MAX_SEQUENCE and self._is_passed(data[start:end]):
                passed.append(data[start:end])
            position = end
        passed.append(data[position:])
        return b"".join(passed)

    def _find_end(self, data: bytes, start: int) -> int:
        """Return the end of a sequence, -1 if it is incomplete; only a clipboard OSC is read beyond its number."""
        number, rest = _number(data, start)
        if rest < 0:
            return -1
        if number not in (_CLIPBOARD, _ITERM):
            return rest
        end = min((place for byte in _ENDS if (place := data.find(byte, rest)) >= 0), default=-1)
        if end < 0 or data[end] != _ESC:
            return end + 1 or -1
        return -1 if end + 1 == len(data) else end + 1 + (data[end + 1] == 0x5C)  # ST, or another sequence

    def _is_passed(self, sequence: bytes) -> bool:
        number, _ = _number(sequence, 0)
        text = sequence.translate(None, _IGNORED)
        if number == _CLIPBOARD:
            return self._may_write and b"?" not in text
        return number != _ITERM or self._may_write or b";Copy" not in text


def _may_start(data: bytes) -> bool:
    """Return whether output may begin an OSC."""
    text = data.translate(None, _IGNORED)
    return b"\x1b]" in text or _C1_OSC in text or text.endswith((b"\x1b", b"\xc2"))


def _find_start(data: bytes, position: int) -> int:
    found = [place for place in (data.find(b"\x1b", position), data.find(b"\xc2", position)) if place >= 0]
    return min(found, default=-1)


def _number(data: bytes, start: int) -> tuple[int, int]:
    """Return the number of an OSC and where its text begins; (-1, where to continue) if it is not one, (-1, -1) if incomplete."""
    position = _skip(data, start + 1)
    if position >= len(data):
        return -1, -1
    if (data[start] == _ESC and data[position] != 0x5D) or (data[start] != _ESC and data[start + 1 : start + 2] != _C1_OSC[1:]):
        return -1, start + 1
    digits, position = b"", _skip(data, position + 1)
    while position < len(data) and data[position] in _DIGITS and len(digits) < _MAX_SEQUENCE:
        digits += data[position : position + 1]
        position = _skip(data, position + 1)
    if position >= len(data):
        return -1, -1
    if len(digits) > _MAX_DIGITS:
        return _CLIPBOARD, position  # in a terminal, the number may overflow to 52
    return int(digits or b"-1"), position


def _skip(data: bytes, position: int) -> int:
    while position < len(data) and data[position] in _IGNORED:
        position += 1
    return position
