"""Inspect and reset the agent home: changes, autostart files, and a new home that keeps the logins."""

import fcntl
import json
import os
import time

from agent_dev.config import load
from agent_dev.config.options import RunOptions, settings_request
from agent_dev.config.profile import Profile
from agent_dev.errors import HomeBusy, Refused
from agent_dev.fs import dir_tree
from agent_dev.home import index, index_paths
from agent_dev.home.autostart import LOGIN_KEYS, OTHER_LOGINS, AutostartRules, HomeChange, compare_marks, is_program
from agent_dev.linux import streams, syscalls, users
from agent_dev.paths import expand, is_below
from agent_dev.quick_dataclass import dataclass
from agent_dev.sandbox.plan import SYSTEM_PATH, agent_home_path
from agent_dev.session.sessions import CommandContext

_LARGEST_LOGIN = 4 << 20  # bytes
_MOST_LOGINS = 64  # files of a directory
_BUSY_TIMEOUT = 5.0  # seconds to wait for an ended session that is still removing its mount points
_NEW_SUFFIX = ".agent-dev-fresh"  # suffix of the new home before the exchange, and of the old one after it
_INTERVAL = 0.02  # seconds between two checks


@dataclass(frozen=True, slots=True)
class HomeSummary:
    """An agent home: its path, its number of files, and its autostart files as (path, reason)."""

    path: str
    files: int
    autostart: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HomeChanges:
    """The changes since the last session started; `is_known`: there is an index, else everything is listed as new."""

    path: str
    changes: tuple[HomeChange, ...]
    is_known: bool


@dataclass(frozen=True, slots=True)
class ResetResult:
    """A home that was reset: the path of the old one, and the logins that were kept."""

    path: str
    trash: str
    kept_logins: tuple[str, ...]


def inspect_home(context: CommandContext, options: RunOptions, agent: str) -> HomeSummary:
    """Return a home and its autostart files."""
    home_path, profile = find_home(context, options, agent)
    if not _has_home(home_path):
        return HomeSummary(home_path, 0, ())
    marks = index.read_home(home_path)
    lasting = _lasting(profile, context)
    rows = ((path, lasting.find_reason(path, is_program=is_program(mark))) for path, mark in sorted(marks.items()))
    return HomeSummary(home_path, len(marks), tuple((path, why) for path, why in rows if why))


def diff_home(context: CommandContext, options: RunOptions, agent: str) -> HomeChanges:
    """Return the changes in a home since its last session started."""
    home_path, profile = find_home(context, options, agent)
    if not _has_home(home_path):
        return HomeChanges(home_path, (), is_known=True)
    before = index.read_previous(context.store.path, home_path)
    now = index.read_home(home_path)
    return HomeChanges(home_path, compare_marks(before or {}, now, _lasting(profile, context)), is_known=before is not None)


def reset_home(context: CommandContext, options: RunOptions, agent: str, logins: tuple[str, ...] | None) -> ResetResult:
    """Move a home to the trash; with `logins`, files below it, create a new one with only these and other known logins.

    Raises HomeBusy while a session uses it, Refused for a path that cannot be an agent home.
    """
    home_path, _ = find_home(context, options, agent)
    check_home(home_path, context)
    if not os.path.isdir(home_path):
        return ResetResult(home_path, "", ())
    lock = _lock(context.store.path, home_path)
    try:
        index.remove_indexes(context.store.path, home_path)
        if os.path.lexists(f"{home_path}{_NEW_SUFFIX}"):
            _move_to_trash(context.store.trash, f"{home_path}{_NEW_SUFFIX}")  # left by a killed reset
        keeps = logins is not None
        kept_logins = _keep_logins(home_path, f"{home_path}{_NEW_SUFFIX}", logins or ()) if keeps else ()
        old = _exchange(home_path) if keeps else home_path
        trash = _move_to_trash(context.store.trash, old)
    finally:
        os.close(lock)
    return ResetResult(home_path, trash, kept_logins)


def _exchange(home_path: str) -> str:
    """Exchange the new home and the old one atomically; return the path of the old one."""
    new_home = f"{home_path}{_NEW_SUFFIX}"
    root_fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        syscalls.rename(root_fd, os.fsencode(new_home), root_fd, os.fsencode(home_path), syscalls.EXCHANGE)
    finally:
        os.close(root_fd)
    return new_home


def find_home(context: CommandContext, options: RunOptions, agent: str) -> tuple[str, Profile]:
    """Return the path of an agent's home, and its profile."""
    home = users.home_directory(context.environ)
    profile = load.load_settings(settings_request(agent, home, context.environ, options)).profile
    return os.path.realpath(agent_home_path(profile, home, context.root)), profile


def _lasting(profile: Profile, context: CommandContext) -> AutostartRules:
    home = users.home_directory(context.environ)
    folders = (expand(path.rstrip("?"), home) for path in profile.path)
    path_folders = tuple(path[len(home) + 1 :] for path in folders if path.startswith(home + "/"))
    names: set[str] = set()
    for folder in SYSTEM_PATH:
        if os.path.isdir(folder):
            names.update(os.listdir(folder))
    return AutostartRules(path_folders, frozenset(names))


def check_home(home_path: str, context: CommandContext) -> None:
    """Raise Refused for a path that cannot be an agent home."""
    _has_home(home_path)
    home = users.home_directory(context.environ)
    if is_below(home, home_path) or is_below(context.store.path, home_path) or is_below(context.root, home_path):
        raise Refused(message=f"{home_path} contains more than an agent home", hint="move it away by hand")


def _has_home(home_path: str) -> bool:
    """Return whether an agent home exists. Raises Refused if it is not a directory."""
    is_directory = os.path.isdir(home_path)
    if not is_directory and os.path.exists(home_path):
        raise Refused(message=f"the agent home {home_path} is not a directory", hint="move it away, or use --home DIR")
    return is_directory


def _lock(state: str, home_path: str) -> int:
    """Lock a home exclusively; sessions share the lock."""
    os.makedirs(f"{state}/homes", 0o700, exist_ok=True)
    lock = os.open(index_paths.index_prefix(state, home_path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _BUSY_TIMEOUT
    while not _try_lock(lock):
        if time.monotonic() > deadline:
            os.close(lock)
            raise HomeBusy(path=home_path, hint="agent-dev sessions --all lists what is running")
        time.sleep(_INTERVAL)
    return lock


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _move_to_trash(trash: str, home_path: str) -> str:
    """Move a directory to the trash; if that is on another file system, rename it in its parent."""
    os.makedirs(trash, 0o700, exist_ok=True)
    name = f"home-{time.strftime('%y%m%d-%H%M%S', time.gmtime())}"
    for target in (f"{trash}/{name}", f"{home_path}.{name}"):
        count = 0
        while True:
            try:
                _rename(home_path, f"{target}.{count}" if count else target)
            except FileExistsError:
                count += 1
            except OSError:
                break
            else:
                return f"{target}.{count}" if count else target
    raise Refused(message=f"cannot move {home_path} away", hint="move it by hand")


def _rename(old: str, new: str) -> None:
    root_fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        syscalls.rename(root_fd, os.fsencode(old), root_fd, os.fsencode(new), syscalls.NOREPLACE)
    finally:
        os.close(root_fd)


def _keep_logins(old: str, home_path: str, logins: tuple[str, ...]) -> tuple[str, ...]:
    os.mkdir(home_path, 0o700)
    tree = dir_tree.Tree(old)
    copied = []
    try:
        wanted = dict.fromkeys((*logins, *OTHER_LOGINS, *LOGIN_KEYS))
        for name in (file for path in wanted for file in _files_at(tree, path)):
            data = _login(tree, name)
            if data is None:
                continue
            path = f"{home_path}/{name}"
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                streams.write_all(fd, data)
            finally:
                os.close(fd)
            copied.append(name)
    finally:
        tree.close()
    return tuple(copied)


def _files_at(tree: dir_tree.Tree, name: str) -> tuple[str, ...]:
    """Return the paths in a directory with logins, or the name itself if it is no directory."""
    try:
        fd = tree.open(os.fsencode(name), os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return (name,)
    try:
        return tuple(f"{name}/{file}" for file in sorted(os.listdir(fd))[:_MOST_LOGINS])
    finally:
        os.close(fd)


def _login(tree: dir_tree.Tree, name: str) -> bytes | None:
    """Return the login part of a file, without other settings; the agent wrote it, so links are not followed."""
    path = os.fsencode(name)
    try:
        entry = tree.entry_at(path, attributes=False)
        data = tree.read(path, _LARGEST_LOGIN) if entry is not None and entry.type == "file" else None
    except OSError:
        return None
    if data is None or name not in LOGIN_KEYS:
        return data
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    login = {key: document[key] for key in LOGIN_KEYS[name] if key in document}
    return json.dumps(login, indent=1).encode() if login else None
