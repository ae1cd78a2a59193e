"""Sessions of a repository: finding, listing, stopping and discarding them."""

import os
import select
import time
from dataclasses import dataclass

from agent_dev.config import load
from agent_dev.config.profile import Profile
from agent_dev.errors import NoSession, SessionBusy, UnknownSession, UnreadableSession
from agent_dev.git import repository as repo
from agent_dev.inside.control import socket_file as door
from agent_dev.linux import pid_namespace as leftovers
from agent_dev.linux import signals
from agent_dev.run.prepare import Options, flags
from agent_dev.sandbox import machine
from agent_dev.sandbox.plan import expand
from agent_dev.session import removal as ended
from agent_dev.session import store

OPEN = (store.RUNNING, store.WAITING, store.KILLED)
_PATIENCE = 10_000  # ms
_MOMENT = 2_000  # ms: for a command that only looks
_LOOK = 0.02  # seconds between two looks at a lock


@dataclass(frozen=True, slots=True)
class Here:
    """Where a command works: the state directory, the root, the user's environment."""

    store: store.Store
    root: str
    cwd: str
    environ: dict[str, str]
    profile: Profile = Profile(name="default")  # noqa: RUF009  (a frozen value)


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as lists show it. `problem` says why a record cannot be read; then all else is empty."""

    session: store.Session
    record: store.Record
    state: str
    problem: str = ""

    @property
    def name(self) -> str:
        """The name the user gave, else the id."""
        return str(self.record.get("name") or self.session.id)


def here(options: Options, environ: dict[str, str]) -> Here:
    """Return where a command works. Raises Refused for a directory that is none."""
    home = machine.home(environ)
    request = load.Request(agent="", home=home, environ=environ, config=options.config, flags=flags(options))
    profile = load.settings(request).profile
    cwd = os.path.realpath(repo.absolute(options.directory))
    return Here(store.place(expand(profile.state, home), environ), repo.find(cwd).root, cwd, environ, profile)


def listed(place: store.Store) -> tuple[Listed, ...]:
    """Return all sessions, oldest first, with the state that is true now."""
    found = []
    ended.sweep(place)
    for session in store.all_sessions(place):
        try:
            record = store.read(session)
        except UnreadableSession as error:
            if os.path.lexists(f"{session.folder}/session.json"):  # else just being made, or soon swept
                found.append(Listed(session, store.BLANK, "unreadable", error.message))
            continue
        found.append(Listed(session, record, state(session, record)))
    return tuple(found)


def state(session: store.Session, record: store.Record) -> str:
    """Return a session's state: one that says it runs but is held by nobody, or has no launcher any more, was killed."""
    said = str(record.get("state"))
    if said != store.RUNNING or (store.is_held(session) and store.is_led(record)):
        return said
    try:
        said = str(store.read(session).get("state"))  # it may have ended, and said so, between the two looks
    except UnreadableSession:
        pass
    return store.KILLED if said == store.RUNNING else said


def of_root(where: Here, *, every: bool = False) -> tuple[Listed, ...]:
    """Return the sessions of this repository that are not over; `every`: of all repositories, merged ones too."""
    return tuple(one for one in listed(where.store) if every or (one.record.get("root") == where.root and one.state in OPEN))


def find(where: Here, name: str = "", states: tuple[str, ...] = OPEN) -> Listed:
    """Return the session of that id or name, else the newest of this repository. Raises UnknownSession or NoSession."""
    everything = listed(where.store)
    if name:
        found = is_session(everything, name)
        if found is None:
            raise UnknownSession(name=name, hint="agent-dev sessions --all lists them")
        if found.problem:
            raise UnreadableSession(session=name, reason=found.problem)
        return found
    mine = [one for one in everything if one.record.get("root") == where.root and one.state in states]
    if not mine:
        raise NoSession(
            root=where.root,
            state="running" if states == (store.RUNNING,) else "waiting",
            hint="agent-dev sessions --all lists those of other places",
        )
    return mine[-1]


def is_session(everything: tuple[Listed, ...], name: str) -> Listed | None:
    """Return the session that a word means: an id, else the newest of that name."""
    by_id = [one for one in everything if one.session.id == name]
    by_name = [one for one in everything if one.record.get("name") == name]
    return next(iter(by_id or by_name[-1:]), None)


def hold(one: Listed) -> Listed:
    """Hold an ended session for work on it, after ending what a dead launcher left. Raises SessionBusy."""
    until = time.monotonic() + _patience(one.state)
    while time.monotonic() < until and store.is_held(one.session):
        time.sleep(_LOOK)
    session = store.hold(one.session)
    life = one.record.get("life")
    if one.state == store.KILLED and life:
        leftovers.end(leftovers.Life(*life))
        ended.drop_scaffold(session)
    finish_rollback(session)
    return Listed(session, store.read(session), one.state)


def _patience(state: str) -> float:
    """Return how many seconds to wait for who holds a session: its launcher longest, whose base is still being taken."""
    if state == store.RUNNING:
        return 0
    return (_PATIENCE if state == store.KILLED else _MOMENT) / 1000


def is_unfinished(session: store.Session) -> bool:
    """Whether a rollback was killed, or a transaction of the agent's was never ended."""
    return any(os.path.lexists(f"{session.folder}/{name}") for name in ("rollback.pending", "rollback.shown", door.MARK))


def finish_rollback(session: store.Session) -> str:
    """Go on with a rollback that was killed: what it left is neither the one state nor the other. Return what there is to say."""
    if not is_unfinished(session):
        return ""
    from agent_dev.checkpoint import rollback  # rare, and they import this module
    from agent_dev.inside.control import serve as nested  # rare, and they import this module

    if os.path.lexists(f"{session.folder}/rollback.pending"):
        rollback.go_on(session)
    if os.path.lexists(f"{session.folder}/rollback.shown"):
        rollback.tidy(session)
    return nested.finish(session) if door.marked(session) else ""


def stop(where: Here, one: Listed) -> Listed:
    """End a running session as its own launcher would, and return it as it is then."""
    if one.state != store.RUNNING:
        return one
    launcher = one.record.get("launcher")
    try:
        fd = os.pidfd_open(launcher)
    except OSError:
        fd = -1
    if fd >= 0 and store.is_held(one.session):
        signals.send_by_descriptor(fd, signals.TERM)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(_PATIENCE):
            raise SessionBusy(
                session=one.session.id, what="still running", hint=f"its launcher, process {launcher}, does not end"
            )
        os.close(fd)
    again = [other for other in listed(where.store) if other.session.id == one.session.id]
    return again[0] if again else Listed(one.session, one.record, "")


def discard(where: Here, one: Listed) -> str:
    """Move an ended session into the trash; return where it lies. Raises SessionBusy."""
    held = hold(one)
    place = ended.to_trash(where.store, held.session)
    try:
        store.write(held.session.but(folder=place), {**held.record, "state": store.DISCARDED})
    except OSError:
        pass  # a full disk: that it lies in the trash says the same
    store.let_go(held.session)
    return place
