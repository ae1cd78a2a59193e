"""Write to the user's terminal."""

import os
import sys

from agent_dev.errors import AgentDevError
from agent_dev.sanitize import visible


def notify(line: str) -> None:
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
        notify(line)
    if error.hint:
        notify(f"hint: {visible(error.hint)}")
