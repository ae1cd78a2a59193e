"""Facts about this computer and its user, for a plan."""

import os
import pwd

from agent_dev.errors import CannotStart
from agent_dev.fs import cache
from agent_dev.sandbox import etc
from agent_dev.sandbox.bwrap import BY_BWRAP, BY_LAUNCHER, HAS_OVERLAY
from agent_dev.sandbox.plan import ORDINARY, ORDINARY_NAME, Machine, is_below

_SYSTEM = ("/usr", "/opt", "/nix", "/gnu")
_LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


def look(environ: dict[str, str], untrusted: tuple[str, ...]) -> Machine:
    """Return the facts; no program is taken from an `untrusted` place. Raises CannotStart for a missing bubblewrap or home."""
    user_home = home(environ)
    links, system = _top_level()
    user, shell = _account(environ)
    program = bwrap(environ, untrusted)
    version = bwrap_version(program, environ)
    _check_way(environ, version)
    return Machine(
        uid=os.getuid(),
        gid=os.getgid(),
        user=user,
        home=user_home,
        shell=shell,
        bwrap=program,
        bwrap_version=version,
        links=links,
        system=system,
        etc=etc.mounts(environ, _users(user, user_home, shell)),
    )


def home(environ: dict[str, str]) -> str:
    """Return the user's home. Raises CannotStart for none: it is never made, neither by us nor for what we keep below it."""
    place = environ.get("HOME", "")
    if not place.startswith("/"):
        raise CannotStart(message="HOME is not set to an absolute path", hint="set HOME")
    if not os.path.isdir(place):
        raise CannotStart(message=f"HOME is {place}, which is no directory", hint="make it, or set HOME to one that is there")
    return os.path.realpath(place)


def user_name(uid: int) -> str:
    """Return the name of an account, its number when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def bwrap_version(path: str, environ: dict[str, str]) -> tuple[int, int, int]:
    """Return a bubblewrap's version; asked once for each file, since asking costs as much as starting it."""
    found = os.stat(path)
    key = f"{path}:{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"
    place = f"{cache.folder(environ)}/bwrap.json"
    kept = cache.read(place)
    match kept.get(key):
        case [int(major), int(minor), int(patch)]:
            return (major, minor, patch)
        case _:  # not asked yet
            pass
    version = _ask_version(path)
    cache.write(place, {**kept, key: list(version)})
    return version


def _ask_version(path: str) -> tuple[int, int, int]:
    answer, w = os.pipe()
    pid = os.posix_spawn(path, ("bwrap", "--version"), {}, file_actions=[(os.POSIX_SPAWN_DUP2, w, 1)])
    os.close(w)
    with os.fdopen(answer, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    os.waitpid(pid, 0)
    numbers = [int(part) for part in text.strip().removeprefix("bubblewrap ").split(".")[:3] if part.isdigit()]
    if len(numbers) < 2:
        raise CannotStart(message=f"{path} does not say its version, so it is no bubblewrap")
    return (numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0)


def bwrap(environ: dict[str, str], untrusted: tuple[str, ...] = ()) -> str:
    """Return the absolute path of bubblewrap: AGENT_DEV_BWRAP, else the first on PATH."""
    chosen = environ.get("AGENT_DEV_BWRAP")
    if chosen:
        if not os.path.isfile(chosen) or not os.access(chosen, os.X_OK):
            why = "cannot be executed" if os.path.isfile(chosen) else "is no file"
            raise CannotStart(message=f"AGENT_DEV_BWRAP is {chosen}, which {why}", hint="unset it, or name a bubblewrap")
        return os.path.abspath(chosen)
    found = program("bwrap", environ, untrusted)
    if found is None:
        raise CannotStart(message="bubblewrap (bwrap) is not installed", hint=_install_hint())
    return found


def _check_way(environ: dict[str, str], version: tuple[int, int, int]) -> None:
    way = environ.get("AGENT_DEV_OVERLAY")
    if way and way not in (BY_BWRAP, BY_LAUNCHER):
        raise CannotStart(message=f"AGENT_DEV_OVERLAY is {way}: it is {BY_LAUNCHER} or {BY_BWRAP}", hint="unset it")
    if way == BY_BWRAP and version < HAS_OVERLAY:
        raise CannotStart(message="AGENT_DEV_OVERLAY is bwrap, and this bubblewrap has no overlays", hint="0.11 or newer has")


def program(name: str, environ: dict[str, str], untrusted: tuple[str, ...] = ()) -> str | None:
    """Return a program of the host by absolute path, never one from a relative or agent-writable directory of PATH.

    The agent home of agents that have none of their own is never trusted, whichever is in use.
    """
    places = (*untrusted, os.path.realpath(environ.get("HOME", "/") + "/aihome"))
    for folder in environ.get("PATH", os.defpath).split(":"):
        path = f"{folder}/{name}"
        if folder.startswith("/") and os.access(path, os.X_OK) and os.path.isfile(path):
            real = os.path.realpath(path)
            if not any(is_below(real, place) or is_below(path, place) for place in places):
                return path
    return None


def _install_hint() -> str:
    if os.path.exists("/usr/bin/dnf"):
        return "sudo dnf install bubblewrap"
    return "sudo apt install bubblewrap" if os.path.exists("/usr/bin/apt-get") else "install your distribution's bubblewrap"


def _top_level() -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    links: list[tuple[str, str]] = []
    system = [path for path in _SYSTEM if os.path.isdir(path)]
    for path in _LINKED:
        try:
            links.append((path, os.readlink(path)))
        except FileNotFoundError:
            continue
        except OSError:
            system.append(path)  # a real directory: a distribution without merged /usr
    return tuple(links), tuple(system)


def _account(environ: dict[str, str]) -> tuple[str, str]:
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return environ.get("USER") or "user", "/bin/sh"
    shell = entry.pw_shell
    return entry.pw_name, shell if any(is_below(shell, place) for place in ("/bin", "/usr", "/sbin")) else "/bin/sh"


def _users(user: str, home: str, shell: str) -> tuple[tuple[str, bytes], ...]:
    """Make passwd and group of nobody but root, the user and nobody: the others' names are not the agent's business."""
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        uid, gid, user = ORDINARY, ORDINARY, ORDINARY_NAME
    people = {0: ("root", 0, "/root", "/bin/sh"), 65534: ("nobody", 65534, "/nonexistent", "/usr/sbin/nologin")}
    people[uid] = (user, gid, home, shell)
    passwd = "".join(f"{name}:x:{number}:{group}::{at}:{sh}\n" for number, (name, group, at, sh) in people.items())
    groups = {0: "root", 65534: "nogroup"} | {gid: "root" if gid == 0 else user}
    group = "".join(f"{name}:x:{number}:\n" for number, name in groups.items())
    return (("passwd", os.fsencode(passwd)), ("group", os.fsencode(group)))
