"""Escape sequences in an agent's output, and the terminal modes that they leave in force."""

import re

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# A sequence ends at the next ESC at the latest: an unfinished one is dropped.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[([0-?]*[ -/]*)([@-~])|\]([^\x07\x1b]*)(?:\x07|\x1b\\)|[PX^_][^\x1b]*(?:\x1b\\)?|([ -/]*)([0-Z\\`-~])|[\[\]]?)"
)
_KNOWN_MODES = {
    *(b"1", b"5", b"6", b"7", b"25", b"45", b"47", b"66", b"1047", b"1049"),
    *(b"9", b"1000", b"1002", b"1003", b"1004", b"1005", b"1006", b"1015", b"1016", b"2004", b"2031"),
}
_ALTERNATE = (b"47", b"1047", b"1049")
_KEPT = 16  # colours, or sets of keyboard flags, that add up
_MAX_TITLE = 200  # bytes


class EscapeSequence(Value):
    """An escape sequence: `[` (CSI), `]` (OSC) or nothing (a short one), its parameters, its last byte, and all of it."""

    kind: bytes
    parameters: bytes
    final: bytes
    data: bytes


def parse_sequences(output: bytes) -> "Iterator[tuple[bytes, EscapeSequence | None]]":
    """Yield pairs of plain text and the sequence after it; None for one that is unfinished, or sends data to the terminal."""
    start = 0
    for match in _SEQUENCE.finditer(output):
        yield output[start : match.start()], _sequence(match)
        start = match.end()
    yield output[start:], None


def _sequence(match: "re.Match[bytes]") -> EscapeSequence | None:
    if match[2] is not None:
        return EscapeSequence(b"[", match[1], match[2], match[0])
    if match[3] is not None:
        return EscapeSequence(b"]", match[3], b"", match[0])
    return EscapeSequence(b"", match[4], match[5], match[0]) if match[5] is not None else None


def modes_after(output: bytes) -> bytes:
    """Return sequences that set the modes, colours, title and keyboard flags in force after this output; a bounded number."""
    if b"\x1b" not in output:
        return b""
    modes = _Modes()
    for _, sequence in parse_sequences(output):
        if sequence is not None:
            modes.add(sequence)
    return modes.as_sequences()


class _Modes:
    """The modes in force, in the order in which they were set."""

    def __init__(self) -> None:
        self._single: dict[bytes, bytes] = {}  # one sequence for each mode
        self._colours: list[bytes] = []
        self._keyboard: list[bytes] = []

    def as_sequences(self) -> bytes:
        """Return the sequences that set them."""
        return b"".join((*self._single.values(), *self._keyboard, *self._colours))

    def add(self, sequence: EscapeSequence) -> None:
        """Add a sequence, if it sets a mode."""
        kind, parameters, final = sequence.kind, sequence.parameters, sequence.final
        if kind == b"[":
            self._add_csi(parameters, final, sequence.data)
        elif kind == b"]":
            if parameters[:2] in (b"0;", b"1;", b"2;") and len(parameters) <= _MAX_TITLE:
                self._set(b"title", sequence.data)
        elif not parameters and final == b"c":
            self.__init__()  # type: ignore[misc]  # everything is reset
        elif not parameters and final in b"=>":
            self._set(b"keypad", sequence.data)
        elif parameters in (b"(", b")"):
            self._set(parameters, sequence.data)

    def _add_csi(self, parameters: bytes, final: bytes, data: bytes) -> None:
        if parameters[:1] == b"?" and final in b"hl":
            for number in parameters[1:].split(b";"):
                if number in _KNOWN_MODES:
                    name = b"alternate" if number in _ALTERNATE else number
                    self._set(name, b"\x1b[?%b%b" % (number, final))
        elif final == b"m":
            self._add_colours(parameters, data)
        elif final == b"u" and parameters[:1] in (b">", b"=", b"<"):
            self._keyboard = [*self._keyboard, data][-_KEPT:] if parameters[:1] != b"<" else self._keyboard[:-1]
        elif (parameters[-1:] == b" " and final == b"q") or (final == b"r" and parameters[:1] != b"?"):
            self._set(final, data)
        elif parameters == b"!" and final == b"p":
            self._single.clear()
            self._colours.clear()

    def _add_colours(self, parameters: bytes, data: bytes) -> None:
        if parameters[:1] == b">":
            self._set(b"keys", data)
        elif parameters in (b"", b"0"):
            self._colours.clear()
        elif parameters[:1] != b"?":
            before = [] if parameters.startswith(b"0;") else self._colours
            self._colours = [*before, data][-_KEPT:]

    def _set(self, name: bytes, data: bytes) -> None:
        if len(data) <= _MAX_TITLE:
            self._single.pop(name, None)
            self._single[name] = data
