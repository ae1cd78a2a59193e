"""The version of OpenSSH: since 8.9, ssh reports the host of each connection to the ssh-agent (session-bind)."""

import re
import subprocess

_BINDING = (8, 9)
_TIMEOUT = 10  # seconds


def read_version(program: str, environ: dict[str, str]) -> str:
    """Return the output of `ssh -V`; "" if it cannot be run."""
    try:
        done = subprocess.run((program, "-V"), env=environ, capture_output=True, check=False, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr.decode("utf-8", "replace")


def parse_version(text: str) -> tuple[int, int] | None:
    """Return the version in the output of `ssh -V`; None for another program. Pure."""
    match = re.match(r"OpenSSH_(\d{1,4})\.(\d{1,4})", text)
    return (int(match[1]), int(match[2])) if match else None


def binds_sessions(version: tuple[int, int]) -> bool:
    """Return whether a version reports the host to the ssh-agent. Pure."""
    return version >= _BINDING
