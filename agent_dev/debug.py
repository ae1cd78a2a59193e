"""Print each external command before it runs (`--debug`), with secrets masked."""

import os

from agent_dev.environment import BASE_ENV, PROXY_ENV
from agent_dev.sanitize import visible

_HARMLESS = (*BASE_ENV, *PROXY_ENV, "HOME", "USER", "LOGNAME", "SHELL", "PATH", "AGENT_DEV_SESSION", "TERMINFO_DIRS")
_on = False


def enable() -> None:
    """Print commands from now on."""
    global _on  # noqa: PLW0603  (one flag for the whole process, set once by the command line)
    _on = True


def print_command(argv: "tuple[str, ...] | list[str]") -> None:
    """Write a command to stderr if `--debug` is on."""
    if _on:
        from shlex import join  # deferred: imports re

        line = visible(join(mask_command(tuple(argv))))  # may contain names that the agent chose
        os.write(2, f"agent-dev: running {line}\n".encode("utf-8", "backslashreplace"))


def mask_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command with secrets masked: values of variables that not every agent gets, and credentials in URLs.

    A variable passed through by a profile or `--env` may be a secret whatever its name, and this output ends up in bug reports.
    """
    shown = [_without_password(argument) for argument in argv]
    for number, argument in enumerate(argv[:-2]):
        if argument == "--setenv" and argv[number + 1] not in _HARMLESS:
            shown[number + 2] = "***"
    return tuple(shown)


def _without_password(argument: str) -> str:
    scheme, separator, rest = argument.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}***@{authority.rpartition('@')[2]}{slash}{path}" if "@" in authority else argument
