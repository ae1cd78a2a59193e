"""`--debug`: each external command is shown before it runs, with secrets masked."""

import os

from agent_dev.sandbox.plan import BASE_ENV, PROXY_ENV

_HARMLESS = (*BASE_ENV, *PROXY_ENV, "HOME", "USER", "LOGNAME", "SHELL", "PATH", "AGENT_DEV_SESSION", "TERMINFO_DIRS")
_on = False


def switch_on() -> None:
    """Show commands from now on."""
    global _on  # noqa: PLW0603  (one switch of the whole process, set once by the command line)
    _on = True


def show(words: "tuple[str, ...] | list[str]") -> None:
    """Write a command to stderr if `--debug` was given."""
    if _on:
        from shlex import join  # only when debugging: it imports re

        os.write(2, f"agent-dev: runs {join(masked(tuple(words)))}\n".encode("utf-8", "backslashreplace"))


def masked(words: tuple[str, ...]) -> tuple[str, ...]:
    """Replace the values of variables but of those that every agent gets, and what stands before the @ of an address.

    What a profile or `--env` lets in may be a secret whatever its name is, and what is shown here ends in bug reports.
    """
    shown = [_without_password(word) for word in words]
    for number, word in enumerate(words[:-2]):
        if word == "--setenv" and words[number + 1] not in _HARMLESS:
            shown[number + 2] = "***"
    return tuple(shown)


def _without_password(word: str) -> str:
    scheme, mark, rest = word.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{mark}***@{place.rpartition('@')[2]}{slash}{path}" if "@" in place else word
