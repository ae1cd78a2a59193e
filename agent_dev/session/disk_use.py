"""The disk use of agent-dev's state, by kind."""

import os
from collections.abc import Iterator

from agent_dev.fs import cache
from agent_dev.fs.disk_usage import disk_usage
from agent_dev.fs.state_files import list_names
from agent_dev.session.store import Store


def measure_state(state: Store, environ: dict[str, str]) -> Iterator[tuple[str, int, int]]:
    """Return each kind of state with the number of its entries and its bytes; checkpoints are also part of their sessions."""
    checkpoints = tuple(f"{state.sessions}/{name}/checkpoints" for name in list_names(state.sessions))
    kinds = {
        "sessions": _entries(state.sessions),
        "checkpoints": tuple(filter(os.path.isdir, checkpoints)),
        "merges": _entries(state.merges),
        "trash": _entries(state.trash),
        "caches": _entries(cache.folder(environ)),
    }
    for kind, paths in kinds.items():
        yield kind, len(paths), sum(map(_size, paths))


def _entries(folder: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in list_names(folder))


def _size(path: str) -> int:
    try:
        return disk_usage(path)
    except OSError:
        return 0  # another process removed it, or it is unreadable
