"""Find and list the sessions of a repository, with their current states."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from agent_dev import paths
from agent_dev.config import load
from agent_dev.config.options import RunOptions, options_layer
from agent_dev.config.profile import Profile
from agent_dev.errors import AgentDevError, NoSession, UnknownSession, UnreadableSession, UsageError
from agent_dev.git import repository
from agent_dev.linux import users
from agent_dev.paths import expand
from agent_dev.quick_dataclass import dataclass, field, replace
from agent_dev.session import removal, store

OPEN = (store.RUNNING, store.WAITING, store.KILLED)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The context of a command: state directory, root, current directory, environment, profile and its origins."""

    store: store.Store
    root: str
    cwd: str
    environ: dict[str, str]
    profile: Profile = Profile(name="default")
    origins: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session as lists show it. `problem`: why its record is unreadable; then everything else is empty.

    `has_shared_name`: another open session of the repository has the same name, as after an undo of the merge of an older one.
    """

    session: store.Session
    record: store.Record
    state: str
    problem: str = ""
    has_shared_name: bool = False

    @property
    def name(self) -> str:
        """The name the user gave, else the id: commands accept it as the name of the session."""
        return self.session.id if self.has_shared_name else str(self.record.get("name") or self.session.id)


def command_context(options: RunOptions, environ: dict[str, str]) -> CommandContext:
    """Return the context of a command. Raises Refused if the directory does not exist, NewerState."""
    home = users.home_directory(environ)
    request = load.SettingsRequest(agent="", home=home, environ=environ, config=options.config, flags=options_layer(options))
    settings = load.load_settings(request)
    profile = settings.profile
    cwd = os.path.realpath(paths.absolute(options.directory))
    state = store.state_store(expand(profile.state, home), environ)
    store.require_known_format(state)
    return CommandContext(state, repository.find_location(cwd).root, cwd, environ, profile, settings.origins)


def list_sessions(session_store: store.Store) -> tuple[ListedSession, ...]:
    """Return all sessions, oldest first, with their current states."""
    removal.sweep_leftovers(session_store)
    return tuple(filter(None, map(_listed, store.all_sessions(session_store))))


def _listed(session: store.Session) -> ListedSession | None:
    """Return a session with its current state; None if it has no record: it is being created, or will be swept."""
    try:
        record = store.read_record(session)
    except UnreadableSession as error:
        is_damaged = store.may_have_record(session.folder)
        return ListedSession(session, store.BLANK, "damaged", str(error.values["reason"])) if is_damaged else None
    return ListedSession(session, record, current_state(session, record))


def newest_sessions(
    session_store: store.Store, roots: Sequence[str], states: tuple[str, ...], count: int
) -> tuple[ListedSession, ...]:
    """Return the newest undamaged sessions of one of these roots in these states, at most `count`, oldest first."""
    found: list[ListedSession] = []
    for session in reversed(store.all_sessions(session_store)):
        one = _listed(session) if store.has_in_record(session, roots) else None
        if one and one.state in states and any(store.has_root(one.record, root) for root in roots):
            found.insert(0, one)
            if len(found) == count:
                break
    return tuple(found)


def current_state(session: store.Session, record: store.Record) -> str:
    """Return a session's state; it was killed if it is recorded as running, but its lock is free or its launcher is gone."""
    recorded = str(record.get("state"))
    if recorded != store.RUNNING or (store.is_locked(session) and store.has_launcher(record)):
        return recorded
    try:
        recorded = str(store.read_record(session).get("state"))  # it may have ended between the two checks
    except UnreadableSession:
        pass
    return store.KILLED if recorded == store.RUNNING else recorded


def sessions_of_repository(context: CommandContext, *, every: bool = False) -> tuple[ListedSession, ...]:
    """Return the open sessions of this repository; `every`: all sessions of all repositories.

    Damaged ones are always included, since their repository is unknown.
    """

    def is_included(one: ListedSession) -> bool:
        return every or bool(one.problem) or (store.has_root(one.record, context.root) and one.state in OPEN)

    return _mark_shared_names(filter(is_included, list_sessions(context.store)))


def _mark_shared_names(found: Iterable[ListedSession]) -> tuple[ListedSession, ...]:
    """Return sessions, marked if another open one among them has the same name and repository."""
    keyed = [(one, (one.record["root"], one.record.get("name"))) for one in found]
    counts = Counter(key for one, key in keyed if one.state in OPEN and key[1])
    return tuple(replace(one, has_shared_name=True) if one.state in OPEN and counts[key] > 1 else one for one, key in keyed)


def sessions_of_work_trees(context: CommandContext) -> tuple[ListedSession, ...]:
    """Return the open sessions of this repository, also those in its other work trees, and damaged ones."""
    git = repository.find_git_dir(context.root)

    def is_included(one: ListedSession) -> bool:
        is_of_repository = git is not None and any(entry["common"] == git.common for entry in one.record["git"])
        return bool(one.problem) or (one.state in OPEN and (is_of_repository or store.has_root(one.record, context.root)))

    return _mark_shared_names(filter(is_included, list_sessions(context.store)))


def find_session(
    context: CommandContext, name: str = "", states: tuple[str, ...] = OPEN, *, damaged: bool = False
) -> ListedSession:
    """Return the session with an id or name, else the newest of this repository; `damaged`: also find damaged ones.

    Raises UnknownSession, NoSession or, for a damaged one, UnreadableSession.
    """
    if removal.has_leftovers(context.store):
        removal.sweep_leftovers(context.store)
    if name:
        found = find_by_name(context, name)
        if found is None:
            raise UnknownSession(name=name, hint="agent-dev sessions --all lists them")
        if found.problem and not damaged:
            store.read_record(found.session)  # raises UnreadableSession
        return _mark_shared_name(context, found) if name == found.session.id else found  # found by its name, that is unique
    own = newest_sessions(context.store, (context.root,), states, 1)
    if not own:
        damaged_ones = [one.session.id for one in list_sessions(context.store) if one.problem]
        raise NoSession(
            root=context.root,
            state="running" if states == (store.RUNNING,) else "waiting",
            hint=f"session {damaged_ones[-1]} is damaged: agent-dev sessions"
            if damaged_ones
            else "agent-dev sessions --all lists those of other repositories",
        )
    return _mark_shared_name(context, own[0])


def _mark_shared_name(context: CommandContext, one: ListedSession) -> ListedSession:
    """Return a session, marked if another open one of its repository has the same name."""
    name = one.record.get("name")
    if not name or one.state not in OPEN:
        return one
    return replace(one, has_shared_name=len(open_with_name(replace(context, root=one.record["root"]), name)) > 1)


def find_by_name(context: CommandContext, name: str) -> ListedSession | None:
    """Return the session that an id or a name means in this repository, or None."""
    own = store.Session(name, f"{context.store.sessions}/{name}")
    if "/" not in name and store.may_have_record(own.folder):
        return _listed(own)  # by its id: no other record must be read
    return match_session(_mentioning(context, name), name, context.root)


def require_overlay(one: ListedSession) -> None:
    """Raise AgentDevError for a session without an overlay, whose agent works in the real tree."""
    if store.is_direct(one.record):
        message = f"session {one.name} works in the real tree: it has no overlay"
        raise AgentDevError(message=message, hint="agent-dev restore --dry-run lists its changes")


def open_with_name(context: CommandContext, name: str) -> tuple[ListedSession, ...]:
    """Return the open sessions of this repository that the user gave this name; of a thousand, few records are parsed."""
    return tuple(one for one in all_with_name(context, name) if one.state in OPEN)


def all_with_name(context: CommandContext, name: str) -> tuple[ListedSession, ...]:
    """Return the sessions of this repository that have this name, also those that are merged."""
    found = (one for one in _mentioning(context, name) if one.record.get("name") == name)
    return tuple(one for one in found if store.has_root(one.record, context.root))


def _mentioning(context: CommandContext, name: str) -> tuple[ListedSession, ...]:
    """Return the sessions with this id, or with this text in their records."""
    return tuple(filter(None, map(_listed, store.mentioning_sessions(context.store, name))))


def match_session(all_found: tuple[ListedSession, ...], name: str, root: str) -> ListedSession | None:
    """Return the session with this id, else the one with this name, or None; first those of the repository, the open, the newest.

    Raises UsageError if two open sessions have the name: of the repository, or of others if it has none of that name.
    """
    by_id = [one for one in all_found if one.session.id == name]
    by_name = [one for one in all_found if one.record.get("name") == name]
    found = [one for one in by_name if store.has_root(one.record, root)] or by_name
    open_ones = [one for one in found if one.state in OPEN]
    if len(open_ones) > 1 and not by_id:
        ids = ", ".join(one.session.id for one in open_ones)
        raise UsageError(message=f"{len(open_ones)} open sessions have the name {name}: {ids}", hint="name one by its id")
    return next(iter(by_id or open_ones or found[-1:]), None)
