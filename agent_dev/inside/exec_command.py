"""Replace this process with a command, as if Python had not run before. A part of scripts that run in the sandbox."""

import os
import signal
import sys

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_IGNORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)  # ignored by Python, and inherited by its children


def exec_command(command: "list[str]") -> None:
    """Execute a command with the original environment. Never returns."""
    for number in _IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, _environment())
    except FileNotFoundError:
        exit_with(f"{command[0]}: not found", _NOT_FOUND)
    except OSError as error:
        exit_with(f"{command[0]}: {error.strerror}", _NOT_EXECUTABLE)


def _environment() -> "dict[bytes, bytes]":
    """Return the original environment: Python adds variables in the C locale."""
    with open("/proc/self/environ", "rb") as file:
        pairs = (item.partition(b"=") for item in file.read().split(b"\0") if item)
        return {name: value for name, _, value in pairs}


def exit_with(message: str, code: int) -> None:
    """Print a message and exit."""
    sys.stderr.write(f"agent-dev: {message}\n")
    sys.exit(code)
