"""Collect information about a machine for a bug report."""

import os
import platform
from collections.abc import Iterator, Mapping
from importlib import metadata

from agent_dev import __version__

_LIBRARIES = ("textual", "pygit2", "pyyaml", "h11", "cryptography")
_TERMINAL = ("TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "SSH_TTY", "LANG", "LC_ALL")
_PRESENCE_ONLY = ("TMUX", "SSH_TTY")
_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def describe_versions() -> Iterator[str]:
    """Yield lines about agent-dev, Python, its libraries, the distribution and the kernel."""
    libraries = ", ".join(f"{name} {_version_of(name)}" for name in _LIBRARIES)
    yield f"agent-dev {__version__}, Python {platform.python_version()}, {libraries}"
    name = _os_release().get("PRETTY_NAME", "unknown distribution")
    kind = next((path for path in ("/.dockerenv", "/run/.containerenv") if os.path.exists(path)), "")
    yield f"{name}, Linux {platform.release()}, {platform.machine()}{f', container ({kind})' if kind else ''}"
    yield "root" if os.geteuid() == 0 else "ordinary user"


def describe_mounts(places: Mapping[str, str]) -> Iterator[str]:
    """Yield the type and options of the file system at each place; `places`: description → path."""
    mounts = _mounts()
    for meaning, path in places.items():
        here = os.path.realpath(path)
        point = max((point for point in mounts if here == point or here.startswith(point.rstrip("/") + "/")), key=len, default="")
        yield f"{meaning}: {mounts.get(point, 'unknown')}"


def describe_terminal(environ: Mapping[str, str]) -> str:
    """Return the variables that describe the terminal."""
    shown = (f"{name}={'…' if name in _PRESENCE_ONLY else environ[name]}" for name in _TERMINAL if environ.get(name))
    return " ".join(shown) or "no terminal"


def _version_of(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def _os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _mounts() -> dict[str, str]:
    """Return the type and options of each mount point (proc_pid_mountinfo(5)); the last mount hides earlier ones."""
    found = {}
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                found[_unescape(before.split()[4])] = f"{after.split()[0]} {before.split()[5]}"
    except (OSError, IndexError):
        return found
    return found


def _unescape(text: str) -> str:
    for escaped, char in _ESCAPES.items():
        text = text.replace(escaped, char)
    return text
