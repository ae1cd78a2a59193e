"""Small JSON files in `$XDG_CACHE_HOME/agent-dev` that save a start from asking or parsing again; losing them costs only time."""

import os
import stat

from agent_dev.fs import fast_json as quick_json

MOST = 100  # entries kept in one file, the newest


def folder(environ: dict[str, str]) -> str:
    """Return `$XDG_CACHE_HOME/agent-dev`, or that below ~/.cache."""
    base = environ.get("XDG_CACHE_HOME", "")
    return (base if base.startswith("/") else environ.get("HOME", "") + "/.cache") + "/agent-dev"


def read(path: str) -> dict[str, object]:
    """Return what was kept; nothing when there is none, when it is torn or when others could have written it."""
    if not path:
        return {}
    try:
        with open(path, "rb", 0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return {}
            kept = quick_json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def write(path: str, kept: dict[str, object]) -> None:
    """Keep a table by temp and rename; a cache that cannot be written is asked again next time."""
    temp = f"{path}.{os.getpid()}"
    data = quick_json.dumps(dict(list(kept.items())[-MOST:]))
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
