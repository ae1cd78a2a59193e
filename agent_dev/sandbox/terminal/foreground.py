"""Foreground tests for a terminal, and the relay's commands."""

import os

from agent_dev.linux import signals

SUSPEND, RESUME, FOREGROUND, END = b"s", b"r", b"f", b"e"  # commands to the relay; it replies to each with one byte


def is_controlling(fd: int) -> bool:
    """Return whether a descriptor refers to our controlling terminal."""
    try:
        os.tcgetpgrp(fd)
    except OSError:
        return False
    return True


def is_other_terminal(fd: int) -> bool:
    """Return whether a descriptor refers to a terminal other than our controlling one; other processes may read that."""
    return os.isatty(fd) and not is_controlling(fd)


def is_in_foreground(fd: int) -> bool:
    """Return whether our process group is in the foreground of the terminal; False after a hangup."""
    try:
        return fd >= 0 and os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def open_terminal() -> int:
    """Open our controlling terminal; return its descriptor, -1 if we have none."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return -1


def move_to_foreground(group: int, terminal: int = -1) -> None:
    """Make a process group the foreground group of our controlling terminal, and close our descriptor of it."""
    before = signals.ignore(signals.TTOU)
    fd = open_terminal() if terminal < 0 else terminal
    try:
        os.tcsetpgrp(fd, group)
        os.close(fd)
    except OSError:
        return  # no terminal, or the group is gone
    finally:
        signals.restore(signals.TTOU, before)
