"""Names of sessions, merges and profiles on this machine, for completion. Nothing is locked, repaired or written."""

import os

from agent_dev.cli import options as cli_options
from agent_dev.config import load
from agent_dev.config.options import RunOptions, options_layer
from agent_dev.errors import AgentDevError
from agent_dev.git import repository
from agent_dev.linux import users
from agent_dev.paths import absolute, expand
from agent_dev.session import store
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MANY = 200  # sessions or merges that are read, the newest


class Place(Value):
    """The state directory, and the root and home of the command line that is completed."""

    store: store.Store
    root: str
    home: str
    environ: dict[str, str]


def find_place(options: "tuple[tuple[str, str], ...]", environ: dict[str, str]) -> Place:
    """Return the place that the options of a command line and the environment name. Raises AgentDevError."""
    typed = cli_options.from_options([one for one in options if one[0] in ("-C", "--config")])
    home = users.home_directory(environ)
    request = load.SettingsRequest(
        agent="", home=home, environ=environ, config=typed.config, flags=options_layer(RunOptions()), is_read_only=True
    )
    state = load.load_settings(request).profile.state
    root = repository.find_location(os.path.realpath(absolute(typed.directory))).root
    return Place(store.state_store(expand(state, home), environ), root, home, environ)


def list_words(source: str, place: Place) -> "list[tuple[str, str]]":
    """Return the words of one source with their descriptions, the newest first."""
    if source in ("profile", "agent", "package"):
        return [(name, "profile") for name in _profiles(place, source)]
    if source == "merge":
        return list(_merges(place))
    if source in _STATES:
        return list(_sessions(place, source))
    return []


def _profiles(place: Place, source: str) -> "Iterator[str]":
    """Yield the names of profiles: of all, of those that can be started, or of those that can be installed."""
    for name in load.list_profile_names(place.home, place.environ):
        if source == "profile" or (name != load.DEFAULT_PROFILE and (source == "agent" or _has_package(name, place))):
            yield name


def _has_package(name: str, place: Place) -> bool:
    request = load.SettingsRequest(agent=name, home=place.home, environ=place.environ, is_read_only=True)
    try:
        profile = load.load_settings(request).profile
    except AgentDevError:
        return False  # `agent-dev profiles` shows its problems
    return profile.has_package and bool(profile.command)


_STATES = {
    "session": (store.RUNNING, store.WAITING),
    "running": (store.RUNNING,),
    "discarded": (),
}  # as recorded: killed ones run


def _sessions(place: Place, source: str) -> "Iterator[tuple[str, str]]":
    """Yield the names and ids of this repository's sessions."""
    folder = place.store.trash if source == "discarded" else place.store.sessions
    for session in reversed(store.all_sessions(place.store, folder)[-_MANY:]):
        try:
            record = store.read_record(session)
        except AgentDevError:
            continue  # damaged, or an old home in the trash
        state, name = str(record.get("state")), str(record.get("name") or "")
        if not store.has_root(record, place.root) or (_STATES[source] and state not in _STATES[source]):
            continue
        about = store.DISCARDED if source == "discarded" else state
        if name:
            yield name, f"{about} session"
        yield session.id, f"{about} session"


def _merges(place: Place) -> "Iterator[tuple[str, str]]":
    """Yield the ids of this repository's merges."""
    from agent_dev.merge_engine import journal_codec, journal_file  # 40 ms, and only undo and redo complete merges

    names = sorted(os.listdir(place.store.merges), reverse=True)
    for name in names[:_MANY]:
        try:
            header = journal_file.read_header(f"{place.store.merges}/{name}")
        except (OSError, journal_codec.CorruptJournalError):
            continue
        if header is not None and place.root in [root[0] for root in header.roots]:
            yield name, "merge"
