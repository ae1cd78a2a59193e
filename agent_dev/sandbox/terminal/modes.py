"""Set a terminal's raw modes, and restore the user's, even if a shell took the raw ones for the user's."""

import os
import termios
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Modes = list[int | list[bytes | int]]  # tcgetattr's result

INPUT = 0
_OUTPUT, _CONTROL, _LOCAL, _SPECIAL = 1, 2, 3, 6  # indices in tcgetattr's result
_PROMPT_DELAY = 0.1  # seconds in which a shell sets the modes for its prompt
_COMMAND_TIMEOUT = 600.0  # seconds in which the user types the next command
_INTERVAL = 0.005  # seconds: shorter than the start of a program that reads the modes


def as_raw(modes: Modes) -> Modes:
    """Return the raw modes as cfmakeraw(3) makes them."""
    raw: Any = [*modes]
    off = termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP | termios.INLCR | termios.IGNCR
    raw[INPUT] &= ~(off | termios.ICRNL | termios.IXON)
    raw[_OUTPUT] &= ~termios.OPOST
    raw[_CONTROL] = raw[_CONTROL] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    raw[_LOCAL] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    raw[_SPECIAL] = [*raw[_SPECIAL]]
    raw[_SPECIAL][termios.VMIN], raw[_SPECIAL][termios.VTIME] = 1, 0
    result: Modes = raw
    return result


def restore_after_shell(fd: int, user_modes: Modes) -> None:
    """Restore the user's modes after a shell took back the terminal while it was raw. Raises termios.error after a hangup.

    A shell that edits lines itself derives its editor's modes from those that it found, and those of the next command, after
    which it keeps what the command leaves. zsh and fish make the latter canonical, but without signals.
    """
    time.sleep(_PROMPT_DELAY)
    raw = as_raw(user_modes)
    if not _may_be_derived_from_raw(termios.tcgetattr(fd), user_modes):
        return
    shell, end = _foreground(fd), time.monotonic() + _COMMAND_TIMEOUT
    while time.monotonic() < end:
        current = termios.tcgetattr(fd)
        if current == raw or (_has(current, termios.ICANON) and _has(user_modes, termios.ISIG) > _has(current, termios.ISIG)):
            termios.tcsetattr(fd, termios.TCSANOW, user_modes)
            return
        if _has(current, termios.ICANON) or not _has(user_modes, termios.ICANON):
            return  # those of a command, or of a shell that edits no lines
        is_raw_prompt = _is_output_raw(current) and not _is_output_raw(user_modes)
        if is_raw_prompt and _foreground(fd) == shell:  # not those of an editor that the user has started
            termios.tcsetattr(fd, termios.TCSANOW, _as_line_edited(current, user_modes))
        time.sleep(_INTERVAL)


def _foreground(fd: int) -> int:
    """Return a terminal's process group in the foreground; -1 if it is not our controlling terminal."""
    try:
        return os.tcgetpgrp(fd)
    except OSError:
        return -1


def _may_be_derived_from_raw(modes: Modes, user_modes: Modes) -> bool:
    """Return whether modes lack what raw ones lack. fish's prompt lacks IEXTEN in any case."""
    lacks_flags = any(_has(user_modes, flag) and not _has(modes, flag) for flag in (termios.IEXTEN, termios.ISIG))
    return lacks_flags or (_is_output_raw(modes) and not _is_output_raw(user_modes))


def _has(modes: Modes, flag: int) -> bool:
    local = modes[_LOCAL]
    return isinstance(local, int) and bool(local & flag)


def _is_output_raw(modes: Modes) -> bool:
    flags = modes[_OUTPUT]
    return isinstance(flags, int) and not flags & termios.OPOST


def _as_line_edited(modes: Modes, user_modes: Modes) -> Modes:
    """Convert readline's modes that were derived from raw modes into those derived from the user's."""
    edited: Any = [*modes]
    user: Any = user_modes
    edited[INPUT] |= user[INPUT] & ~(termios.ICRNL | termios.INLCR)
    edited[_OUTPUT] |= user[_OUTPUT]
    edited[_LOCAL] |= user[_LOCAL] & ~(termios.ICANON | termios.ECHO)
    result: Modes = edited
    return result
