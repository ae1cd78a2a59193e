"""The report of `doctor --report`: versions, mounts, checks and settings, with paths and secrets masked."""

import getpass
import os
from collections.abc import Iterable, Iterator, Mapping

from agent_dev.bug_report.facts import describe_mounts, describe_terminal, describe_versions
from agent_dev.bug_report.masking import Identity, mask_text
from agent_dev.sanitize import visible


def identity(environ: Mapping[str, str], root: str) -> Identity:
    """Return the paths and names that identify this user."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    return Identity(os.path.realpath(environ.get("HOME", "/")), root, user, os.uname().nodename)


def make_report(checks: Iterable[str], settings: Iterable[str], places: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the report. `checks`: the lines of `doctor`; `settings`: the keys that the user has set."""
    reporter = identity(environ, places.get("repository", ""))
    return "\n".join(visible(mask_text(line, reporter)) for line in _lines(checks, settings, places, environ)) + "\n"


def _lines(
    checks: Iterable[str], settings: Iterable[str], places: Mapping[str, str], environ: Mapping[str, str]
) -> Iterator[str]:
    yield from describe_versions()
    yield f"terminal: {describe_terminal(environ)}"
    yield from describe_mounts(places)
    yield f"settings: {', '.join(settings) or 'none'}"
    yield from checks
