"""The disk use of agent-dev's state, by kind."""

import os
from collections.abc import Iterator

from agent_dev.bug_report.crash import crash_folder
from agent_dev.fs import cache
from agent_dev.fs.disk_usage import disk_usage
from agent_dev.fs.state_files import list_names
from agent_dev.session import store
from agent_dev.session.store import Store

_LOGS = ("events.jsonl", "commands.jsonl", "network.jsonl")


def measure_state(state: Store, environ: dict[str, str]) -> Iterator[tuple[str, int, int]]:
    """Return each kind of state with the number of its entries and its bytes.

    Checkpoints and logs are also part of their sessions. `other`: all of the state directory that is of no other kind.
    """
    sessions = store.all_sessions(state)
    merged = {one.folder for one in sessions if store.is_merged(one)}
    crashes = crash_folder(environ)
    kinds = {
        "open sessions": tuple(one.folder for one in sessions if one.folder not in merged),
        "merged sessions": tuple(one.folder for one in sessions if one.folder in merged),
        "checkpoints": tuple(filter(os.path.isdir, (f"{one.folder}/checkpoints" for one in sessions))),
        "logs": tuple(filter(os.path.isfile, (f"{one.folder}/{name}" for one in sessions for name in _LOGS))),
        "merges": _entries(state.merges),
        "trash": _entries(state.trash),
        "snapshots": _entries(f"{state.path}/snapshots"),
        "crash reports": _entries(crashes),
        "caches": _entries(cache.folder(environ)),
    }
    shown = (state.sessions, state.merges, state.trash, f"{state.path}/snapshots", crashes)
    kinds["other"] = tuple(path for path in _entries(state.path) if path not in shown)
    for kind, paths in kinds.items():
        yield kind, len(paths), sum(map(_size, paths))


def _entries(folder: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in list_names(folder))


def _size(path: str) -> int:
    try:
        return disk_usage(path)
    except OSError:
        return 0  # another process removed it, or it is unreadable
