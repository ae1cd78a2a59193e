"""All directories that agent-dev keeps for a user, for `agent-dev clean --everything`."""

import fcntl
import os
from collections.abc import Iterator

from agent_dev.bug_report.crash import crash_folder
from agent_dev.config.load import config_folder
from agent_dev.errors import Refused
from agent_dev.fs import cache
from agent_dev.fs.disk_usage import disk_usage
from agent_dev.fs.rmtree import remove_session, remove_tree
from agent_dev.fs.state_files import list_names
from agent_dev.linux import users
from agent_dev.paths import worker_folder
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store
from agent_dev.session.sessions import OPEN, CommandContext, ListedSession, list_sessions

# All that agent-dev creates in the state directory. If `state:` names the directory, it may hold files of the user, too.
STATE_NAMES = (
    *("sessions", "merges", "pending", "trash", "gone", "snapshots", "fleet", "homes", "trust", "crashes", "covers"),
    *("format", "empty", "tick", "thinned", "names"),
)


@dataclass(frozen=True, slots=True)
class StatePlace:
    """A directory that agent-dev created: its content in words, its path, its size in bytes."""

    meaning: str
    path: str
    size: int


def find_places(where: CommandContext, homes: tuple[str, ...]) -> tuple[StatePlace, ...]:
    """Return the existing directories, the most easily replaced first. `homes`: agent homes. Raises Refused if a session runs."""
    waiting = sum(one.state in OPEN for one in _idle_sessions(where))
    unmerged = f"{waiting} with changes that are not merged" if waiting else "all merged"
    named = {
        cache.folder(where.environ): "caches",
        worker_folder(where.environ): "checkouts for tasks of other machines",
        where.store.path: f"sessions ({unmerged}), merges and the trash",
        **({} if _is_default(where) else {crash_folder(where.environ): "crash reports"}),
        config_folder(users.home_directory(where.environ), where.environ): "your settings and profiles",
        **dict.fromkeys(homes, "an agent home with its logins"),
    }
    return tuple(StatePlace(meaning, path, disk_usage(path)) for path, meaning in named.items() if os.path.isdir(path))


def remove_place(where: CommandContext, place: StatePlace) -> None:
    """Remove one of these directories. Raises Refused if a session has started since."""
    if place.path != where.store.path:
        remove_tree(place.path)
        if place.path == crash_folder(where.environ):
            _remove_empty(os.path.dirname(place.path))
        return
    lock = store.lock_creation(where.store, fcntl.LOCK_EX) if os.path.isdir(where.store.sessions) else -1
    try:
        _idle_sessions(where)
        for folder in _session_folders(where.store):
            remove_session(folder, is_last=True)  # also its objects on other file systems
        if _is_default(where):
            remove_tree(where.store.path)
        else:
            for name in STATE_NAMES:
                remove_tree(f"{where.store.path}/{name}")
            _remove_empty(where.store.path)
    finally:
        if lock >= 0:
            os.close(lock)


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return  # it holds files of the user


def _idle_sessions(where: CommandContext) -> tuple[ListedSession, ...]:
    """Return all sessions. Raises Refused if one is running."""
    found = list_sessions(where.store)
    running = [one.name for one in found if one.state == store.RUNNING]
    if running:
        raise Refused(message=f"session {running[0]} is running", hint=f"agent-dev stop {running[0]}")
    return found


def _is_default(where: CommandContext) -> bool:
    """Return whether the state directory is the one that agent-dev uses by itself, which is all its own."""
    return where.store.path == store.state_store("", where.environ).path


def _session_folders(state: store.Store) -> Iterator[str]:
    for parent in (state.sessions, state.trash):
        yield from (f"{parent}/{name}" for name in list_names(parent))
