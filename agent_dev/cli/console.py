"""Write to the user's terminal."""

import os
import sys

from agent_dev.errors import AgentDevError
from agent_dev.sanitize import visible

_is_quiet = False


def silence() -> None:
    """Omit notices, progress and confirmations from now on, as `-q` asks."""
    global _is_quiet  # noqa: PLW0603  (one terminal for the whole process)
    _is_quiet = True
    from agent_dev import progress  # not on the launch path

    progress.silence()


def is_quiet() -> bool:
    """Return whether notices and confirmations are omitted."""
    return _is_quiet


def notify(line: str) -> None:
    """Write a notice to stderr, unless the user asked for quiet: something that went as it should."""
    if not _is_quiet:
        warn(line)


def warn(line: str) -> None:
    """Write a message to stderr, wrapped on a terminal; control characters of file names or an agent's text are escaped."""
    text = f"agent-dev: {visible(line)}"
    try:
        os.write(2, f"{_wrapped(text)}\n".encode("utf-8", "replace"))
    except OSError:
        return  # the terminal is gone


def _wrapped(text: str) -> str:
    """Return a text as rows that fit the terminal: it would break words and commands at its edge."""
    width = os.get_terminal_size(2).columns if os.isatty(2) else 0
    if not 0 < width < len(text):
        return text
    from agent_dev.cli.wrapping import wrap_line  # rarely needed

    return "\n".join(wrap_line(text, width, "    "))


def write_stdout(text: str) -> None:
    """Write data to stdout."""
    sys.stdout.write(text)
    sys.stdout.flush()


def report_error(error: AgentDevError) -> None:
    """Print an error and its hint."""
    for line in error.message.splitlines():
        warn(line)
    if error.hint:
        warn(f"hint: {visible(error.hint)}")
