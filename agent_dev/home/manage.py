"""The agent home between sessions: what changed in it, what of it runs by itself, and a fresh one with the logins kept."""

import fcntl
import json
import os
import time
from dataclasses import dataclass

from agent_dev.config import load
from agent_dev.config.profile import Profile
from agent_dev.errors import HomeBusy, Refused
from agent_dev.fs import dir_tree as files
from agent_dev.home import index as home_index
from agent_dev.home.autostart import LOGIN_KEYS, LOGINS, Lasting, Step, is_program, steps
from agent_dev.linux import syscalls as kernel
from agent_dev.run.prepare import Options, flags
from agent_dev.sandbox import machine
from agent_dev.sandbox.plan import SYSTEM_PATH, expand, home_place, is_below
from agent_dev.session.sessions import Here

_LARGEST_LOGIN = 4 << 20  # bytes

_TIDYING = 5.0  # seconds for which a session that is over may still remove mount points from its home
_LOOK = 0.02  # seconds between two looks whether it does


@dataclass(frozen=True, slots=True)
class Home:
    """An agent home: where, how much it holds, and what of it runs by itself, as (path, why)."""

    path: str
    files: int
    lasting: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """What differs since before the last session; `is_known`: there is an index, else all is shown as new."""

    path: str
    steps: tuple[Step, ...]
    is_known: bool


@dataclass(frozen=True, slots=True)
class Fresh:
    """A home that was reset: where the old one lies, and which logins were kept."""

    path: str
    trash: str
    kept: tuple[str, ...]


def look(where: Here, options: Options, agent: str) -> Home:
    """Return what a home is and what of it runs by itself."""
    place, profile = _place(where, options, agent)
    if not os.path.isdir(place):
        return Home(place, 0, ())
    marks = home_index.look(place)
    lasting = _lasting(profile, where)
    rows = ((path, lasting.why(path, is_program=is_program(mark))) for path, mark in sorted(marks.items()))
    return Home(place, len(marks), tuple((path, why) for path, why in rows if why))


def diff(where: Here, options: Options, agent: str) -> Changed:
    """Return what changed in a home since before its last session."""
    place, profile = _place(where, options, agent)
    if not os.path.isdir(place):
        return Changed(place, (), is_known=True)
    before = home_index.before(where.store.path, place)
    now = home_index.look(place)
    return Changed(place, steps(before or {}, now, _lasting(profile, where)), is_known=before is not None)


def reset(where: Here, options: Options, agent: str, *, keep_login: bool) -> Fresh:
    """Move a home to the trash; with `keep_login` make a new one that holds only what logs its agents in.

    Raises HomeBusy while a session uses it, Refused for a place that cannot be an agent home.
    """
    place, _ = _place(where, options, agent)
    if not os.path.isdir(place):
        return Fresh(place, "", ())
    _check(place, where)
    lock = _lock(where.store.path, place)
    try:
        home_index.forget(where.store.path, place)
        trash = _aside(where.store.trash, place)
    finally:
        os.close(lock)
    return Fresh(place, trash, _keep_logins(trash, place) if keep_login else ())


def _place(where: Here, options: Options, agent: str) -> tuple[str, Profile]:
    home = machine.home(where.environ)
    request = load.Request(
        agent=agent,
        home=home,
        environ=where.environ,
        config=options.config,
        profile_file=options.profile_file,
        flags=flags(options),
    )
    profile = load.settings(request).profile
    return os.path.realpath(home_place(profile, home, where.root)), profile


def _lasting(profile: Profile, where: Here) -> Lasting:
    home = machine.home(where.environ)
    folders = (expand(path.rstrip("?"), home) for path in profile.path)
    inside = tuple(path[len(home) + 1 :] for path in folders if path.startswith(home + "/"))
    names: set[str] = set()
    for folder in SYSTEM_PATH:
        if os.path.isdir(folder):
            names.update(os.listdir(folder))
    return Lasting(inside, frozenset(names))


def _check(place: str, where: Here) -> None:
    home = machine.home(where.environ)
    if is_below(home, place) or is_below(where.store.path, place) or is_below(where.root, place):
        raise Refused(message=f"{place} holds more than an agent home does", hint="move it away by hand")


def _lock(state: str, place: str) -> int:
    """Hold a home against sessions, which share its lock."""
    os.makedirs(f"{state}/homes", 0o700, exist_ok=True)
    lock = os.open(home_index.place(state, place), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _TIDYING
    while not _locked(lock):
        if time.monotonic() > deadline:
            os.close(lock)
            raise HomeBusy(path=place, hint="agent-dev sessions --all lists what is running")
        time.sleep(_LOOK)
    return lock


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _aside(trash: str, place: str) -> str:
    """Move a directory into the trash; onto another file system nothing can be moved, so there beside its place."""
    os.makedirs(trash, 0o700, exist_ok=True)
    name = f"home-{time.strftime('%y%m%d-%H%M%S', time.gmtime())}"
    for target in (f"{trash}/{name}", f"{place}.{name}"):
        count = 0
        while True:
            try:
                _rename(place, f"{target}.{count}" if count else target)
            except FileExistsError:
                count += 1
            except OSError:
                break
            else:
                return f"{target}.{count}" if count else target
    raise Refused(message=f"{place} cannot be moved away", hint="move it by hand")


def _rename(old: str, new: str) -> None:
    here = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        kernel.rename(here, os.fsencode(old), here, os.fsencode(new), kernel.NOREPLACE)
    finally:
        os.close(here)


def _keep_logins(old: str, place: str) -> tuple[str, ...]:
    os.mkdir(place, 0o700)
    tree = files.Tree(old)
    kept = []
    try:
        for name in (*LOGINS, *LOGIN_KEYS):
            data = _login(tree, name)
            if data is None:
                continue
            path = f"{place}/{name}"
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                files.write_all(fd, data)
            finally:
                os.close(fd)
            kept.append(name)
    finally:
        tree.close()
    return tuple(kept)


def _login(tree: files.Tree, name: str) -> bytes | None:
    """Return what of a file logs its agent in; the agent wrote it, so no link is followed and no settings come along."""
    path = os.fsencode(name)
    try:
        entry = tree.look(path, attributes=False)
        data = tree.read(path, _LARGEST_LOGIN) if entry is not None and entry.type == "file" else None
    except OSError:
        return None
    if data is None or name not in LOGIN_KEYS:
        return data
    try:
        held = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(held, dict):
        return None
    taken = {key: held[key] for key in LOGIN_KEYS[name] if key in held}
    return json.dumps(taken, indent=1).encode() if taken else None
