"""Read host keys from the user's known_hosts files with ssh-keygen, which supports hashed names, patterns and markers."""

import base64
import binascii
import os
import subprocess
from pathlib import Path

from agent_dev.config.ssh_rules import FINGERPRINT, SshHost
from agent_dev.ssh_agent.messages import fingerprint

_SYSTEM = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_TIMEOUT = 10  # seconds
_REVOKED, _AUTHORITY = "@revoked", "@cert-authority"


def known_hosts_files(home: str) -> tuple[str, ...]:
    """Return the known_hosts files that exist."""
    return tuple(path for path in (f"{home}/.ssh/known_hosts", f"{home}/.ssh/known_hosts2", *_SYSTEM) if os.path.isfile(path))


def read_host_keys(program: str, files: tuple[str, ...], hosts: tuple[SshHost, ...]) -> dict[bytes, tuple[SshHost, ...]]:
    """Return the host keys, each with the hosts that have it. Raises ValueError for a host without a key, OSError."""
    found: dict[bytes, tuple[SshHost, ...]] = {}
    for host in hosts:
        lines = [line for path in files for line in _find(program, path, host.known_name)]
        revoked = {key for mark, key in lines if mark == _REVOKED}
        keys = {key for mark, key in lines if not mark} - revoked
        if not keys:
            raise ValueError(f"{host.known_name} has no key in known_hosts")
        for key in keys:
            found[key] = (*found.get(key, ()), host)
    return found


def _find(program: str, path: str, name: str) -> list[tuple[str, bytes]]:
    """Return the lines about a host: marker and key."""
    command = (program, "-F", name, "-f", path)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_TIMEOUT)
    rows = (line.split() for line in done.stdout.decode("utf-8", "replace").splitlines() if not line.startswith("#"))
    return [row for words in rows if (row := _parse(words))]


def _parse(words: list[str]) -> tuple[str, bytes] | None:
    mark = words.pop(0) if words[:1] and words[0].startswith("@") else ""
    if len(words) < 3 or mark == _AUTHORITY:
        return None
    try:
        return mark, base64.b64decode(words[2], validate=True)
    except binascii.Error:
        return None


def fingerprints(keys: tuple[str, ...], home: str) -> frozenset[str]:
    """Return the fingerprints of keys, named by fingerprint or by the path of the public key. Raises ValueError, OSError."""
    return frozenset(one if one.startswith(FINGERPRINT) else _of_file(one, home) for one in keys)


def _of_file(text: str, home: str) -> str:
    path = home + text[1:] if text.startswith("~/") else text
    words = Path(path).read_text(encoding="utf-8", errors="replace").split()
    try:
        return fingerprint(base64.b64decode(words[1], validate=True))
    except (IndexError, binascii.Error):
        raise ValueError(f"{text} is not a public key") from None
