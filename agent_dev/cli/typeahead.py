"""Drop keys that were typed before a prompt."""

import termios
from contextlib import suppress


def drop_typeahead(fd: int = 0) -> None:
    """Drop unread terminal input; a pipe or file keeps its bytes."""
    with suppress(termios.error):
        termios.tcflush(fd, termios.TCIFLUSH)
