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
    """Write a message to stderr; control characters of file names or an agent's text are escaped."""
    try:
        os.write(2, f"agent-dev: {visible(line)}\n".encode("utf-8", "replace"))
    except OSError:
        return  # the terminal is gone


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
