"""The user's terminal, lent to the agent and taken back as a shell does with its jobs (tcsetpgrp(3))."""

import os
import termios

from agent_dev.linux import signals

# What a program killed in the middle leaves on. Mouse, focus, bracketed paste, kitty keys and xterm's, the keys of cursor
# and keypad; then lines that wrap, the cursor, the letters instead of the lines of boxes, the colours.
_RESET = (
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[<u\x1b[>4m\x1b[?1l\x1b>"
    b"\x1b[?7h\x1b[?25h\x1b(B\x0f\x1b[0m"
)
# Both move the cursor. The end of a scrolling region goes to the top, so it is saved before. The end of the other screen
# goes to where the cursor was at its beginning, even when that was long ago: so it begins first, which on it does nothing.
_WHOLE_SCREEN = b"\x1b7\x1b[r\x1b8"
_LEAVE_SCREEN = b"\x1b[?1049h\x1b[?1049l"

Modes = list[int | list[bytes | int]]


class Terminal:
    """The controlling terminal, or none. Lent only when we are in front, taken back only when we lent it."""

    def __init__(self) -> None:
        try:
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            self._fd = -1
        self._ours = os.getpgrp()
        self._modes: Modes | None = None  # the user's
        self._agents_modes: Modes | None = None
        self.is_lent = False
        self.was_lent = False

    def exists(self) -> bool:
        """Whether there is a terminal at all."""
        return self._fd >= 0

    def _is_in_front(self) -> bool:
        try:
            return self._fd >= 0 and os.tcgetpgrp(self._fd) == self._ours
        except OSError:
            return False  # hung up

    def lend(self, group: int) -> None:
        """Put a process group in front, with the modes it had when it was last there."""
        if not self._is_in_front():
            return
        try:
            self._modes = termios.tcgetattr(self._fd)
            if self._agents_modes is not None:
                self._set_modes(self._agents_modes)
            self._set_group(group)
            self.is_lent = self.was_lent = True
        except (OSError, termios.error):
            return

    def take_back(self, *, keep_modes: bool = False) -> None:
        """Put ourselves in front again, with the user's modes; `keep_modes` remembers the agent's for `lend`."""
        if not self.is_lent:
            return
        self.is_lent = False
        try:
            if keep_modes:
                self._agents_modes = termios.tcgetattr(self._fd)
            self._set_group(self._ours)
            if self._modes is not None:
                self._set_modes(self._modes)
        except (OSError, termios.error):
            return  # hung up

    def reset(self, *, leave_screen: bool) -> None:
        """Switch off what an agent may have left on."""
        if self.was_lent:
            try:
                os.write(self._fd, (_LEAVE_SCREEN if leave_screen else b"") + _WHOLE_SCREEN + _RESET)
            except OSError:
                return

    def _set_group(self, group: int) -> None:
        before = signals.ignore(signals.TTOU)
        try:
            os.tcsetpgrp(self._fd, group)
        finally:
            signals.restore(signals.TTOU, before)

    def _set_modes(self, modes: Modes) -> None:
        before = signals.ignore(signals.TTOU)
        try:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, modes)
        finally:
            signals.restore(signals.TTOU, before)
