"""Escape sequences that reset a terminal after an agent (xterm's ctlseqs, ECMA-48, kitty's keyboard protocol)."""

from agent_dev.value import Value

# Ends anything unfinished: a string, VT52 mode, a synchronized update, output to a printer or a status line.
_BEGIN = b"\x18\x1b\\\x1b<\x1b[?2026l\x1b[4i\x1b[0$}"
# Each screen has its own keyboard flags, so both are reset. Leaving the alternate screen restores the cursor saved on entry,
# even an old one: so it is entered first, which does nothing if it is already active.
_KEYBOARD = b"\x1b[<99u\x1b[=0;1u"
_LEAVE_SCREEN = b"\x1b[?1049h\x1b[?1049l"
# DECSTR resets origin mode and margins without moving the cursor. Terminals without it need explicit margins, which move the
# cursor, so it is saved.
_MARGINS = b"\x1b[!p\x1b7\x1b[?69l\x1b[r\x1b8"
_OFF = (5, 9, 45, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2031, 2048, 9001, 1)
_MODES = b"".join(b"\x1b[?%dl" % number for number in _OFF)
# Locked keyboard, insert mode, local echo, line feeds; keypad, xterm's keys; wrapping, repeating, cursor and its shape;
# tab stops, 7-bit replies; character sets, hyperlink, colours.
_REST = (
    b"\x1b[2l\x1b[4l\x1b[12h\x1b[20l\x1b>\x1b[>1m\x1b[>2m\x1b[>4m\x1b[?7h\x1b[?8h\x1b[?25h\x1b[0 q"
    b"\x1b[?5W\x1b F\x1b(B\x1b)B\x0f\x1b]8;;\x1b\\\x1b]22;\x1b\\\x1b[0m"
)
_SELECT_UTF8 = b"\x1b%G"
_COLOURS = b"".join(b"\x1b]%d\x1b\\" % number for number in (104, 105, 110, 111, 112, 113, 114, 117, 119))
_CONSOLE_COLOURS = b"\x1b]R\x1b\\"
# The title is pushed before an agent's first sequence. If the agent popped it, the title stays empty.
SAVE_TITLE = b"\x1b[22;0t"
_RESTORE_TITLE = b"\x1b]0;\x1b\\\x1b[23;0t"

# Title and icon, directory, link, message, clipboard, prompt and editor marks: none of them sets a colour.
_COLOURLESS = {b"0", b"1", b"2", b"7", b"8", b"9", b"52", b"133", b"633", b"777", b"1337"}
_INCOMPLETE = (b"\x1b", b"\xc2")  # the next chunk may complete a command
_MIN_ROWS, _MIN_COLUMNS = 4, 20

Size = tuple[int, int]  # rows, columns


class OutputScanner:
    """Records what an agent's output may have changed in a terminal; in case of doubt, it counts as changed."""

    def __init__(self) -> None:
        self.has_sequences = False
        self.has_colours = False

    def scan(self, data: bytes | bytearray, size: int | None = None) -> None:
        """Scan a chunk of output: its first `size` bytes, or all of it."""
        end = len(data) if size is None else size
        if self.has_colours:
            return
        # C2 starts a control character above 7F. Unrolled: this runs for every 4 KB of output.
        if data.find(b"\x1b", 0, end) < 0 and data.find(b"\x0e", 0, end) < 0 and data.find(b"\xc2", 0, end) < 0:
            return
        self.has_sequences = True
        if data.find(b"\x1b]", 0, end) >= 0 or data.find(b"\x9d", 0, end) >= 0 or data.endswith(_INCOMPLETE, 0, end):
            self.has_colours = _may_have_colours(bytes(data[:end]))


def _may_have_colours(data: bytes) -> bool:
    """Return whether output has an operating system command that may change colours."""
    if data.endswith(_INCOMPLETE) or b"\xc2\x9d" in data:
        return True
    for part in data.split(b"\x1b]")[1:]:
        number, semicolon, _ = part[:6].partition(b";")
        if not semicolon or number not in _COLOURLESS:
            return True
    return False


class TerminalState(Value):
    """The terminal to reset: UTF-8 or not, Linux console or not, its size at the start and now."""

    is_utf8: bool = True
    is_console: bool = False
    start_size: Size = (0, 0)
    current_size: Size = (0, 0)


def reset_sequences(output: OutputScanner, target: TerminalState) -> bytes:
    """Return the sequences that reset a terminal after this output; empty if the output had none."""
    if not output.has_sequences:
        return b""
    parts = [_BEGIN, _KEYBOARD, _LEAVE_SCREEN, _KEYBOARD, _MARGINS, _MODES, _REST]
    if target.is_utf8:
        parts.append(_SELECT_UTF8)
    if output.has_colours:
        parts.append(_CONSOLE_COLOURS if target.is_console else _COLOURS)
    if is_tiny(target.current_size) and not is_tiny(target.start_size):
        parts.append(b"\x1b[8;%d;%dt" % target.start_size)
    return b"".join((*parts, _RESTORE_TITLE))


def is_tiny(size: Size) -> bool:
    """Return whether a window is too small to be intended."""
    return size[0] < _MIN_ROWS or size[1] < _MIN_COLUMNS
