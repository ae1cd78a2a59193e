"""Find the detach key in what the user types.

Programs can switch terminals to other encodings of keys: kitty's keyboard protocol and xterm's modifyOtherKeys.
"""

import re

from agent_dev.config.detach_key import TerminalKey

_ENCODED = re.compile(rb"\x1b\[(\d+)(?::\d*)*(?:;(\d+)(?::(\d))?)?(?:;[\d:]*)?u|\x1b\[27;(\d+);(\d+)~|.", re.DOTALL)
_SHIFT, _CTRL, _LOCKS = 1, 4, 64 | 128  # modifiers, caps and num lock
_RELEASE = b"3"
_MODIFIER_KEYS = range(57358, 57455)  # of kitty's protocol: keys that are only modifiers or locks


class DetachKey:
    """Finds the detach key in input. Its first key, typed twice in a row, is sent once."""

    def __init__(self, first: TerminalKey, second: TerminalKey) -> None:
        self._first, self._second = first, second
        self._held = b""  # the first key, until the next
        self._plain = bytes([ord(first.character.upper()) & 0x1F])

    def split(self, data: bytes) -> tuple[bytes, bool]:
        """Return the part of the input that is for the agent, and whether the detach key follows."""
        if not self._held and self._plain not in data and b"\x1b[" not in data:
            return data, False
        passed = b""
        for match in _ENCODED.finditer(data):
            key = _decode(match)
            if not self._held:
                if key == self._first:
                    self._held = match[0]
                else:
                    passed += match[0]
            elif key is None or not key.is_release:
                if key == self._second:
                    return passed, True
                passed += match[0] if key == self._first else self._held + match[0]
                self._held = b""
        return passed, False


def _decode(match: "re.Match[bytes]") -> TerminalKey | None:
    """Return the key that some input encodes; None for other input."""
    if match[1] is not None:
        code, modifiers, event = int(match[1]), int(match[2] or 1), match[3]
    elif match[4] is not None:
        code, modifiers, event = int(match[5]), int(match[4]), None
    else:
        byte = match[0][0]
        return TerminalKey(chr(byte | 0x40).lower(), has_ctrl=True) if byte < 0x20 else TerminalKey(chr(byte))
    if code in _MODIFIER_KEYS or event == _RELEASE:
        return TerminalKey("", is_release=True)
    held = (modifiers - 1) & ~_LOCKS
    if held & ~_SHIFT not in (0, _CTRL) or code > 0x10FFFF:
        return None
    return TerminalKey(chr(code), has_ctrl=bool(held & _CTRL))
