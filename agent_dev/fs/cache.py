"""Small JSON caches in `$XDG_CACHE_HOME/agent-dev` that speed up the start; they can be deleted at any time."""

import os
import stat

from agent_dev.fs import checksummed_json

MAX_ENTRIES = 100  # entries per file; the newest are kept


def folder(environ: dict[str, str]) -> str:
    """Return `$XDG_CACHE_HOME/agent-dev`, by default `~/.cache/agent-dev`."""
    base = environ.get("XDG_CACHE_HOME", "")
    return (base if base.startswith("/") else environ.get("HOME", "") + "/.cache") + "/agent-dev"


def read(path: str) -> dict[str, object]:
    """Return the cached entries; none if the file is missing, damaged, or could have been written by others."""
    if not path:
        return {}
    try:
        with open(path, "rb", 0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return {}
            return checksummed_json.loads(file.read())
    except (OSError, ValueError):
        return {}


def write(path: str, entries: dict[str, object]) -> None:
    """Replace a cache file by rename; a failure is ignored."""
    temp = f"{path}.{os.getpid()}"
    data = checksummed_json.dumps(dict(list(entries.items())[-MAX_ENTRIES:]))
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
        os.rename(temp, path)
    except OSError:
        return
