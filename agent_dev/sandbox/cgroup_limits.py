"""A control group for one sandbox: memory and processes of all of it together.

Where one can be made: below a group of ours, or of an ancestor that is delegated to us; else by the user's systemd, with the
call that `systemd-run --user --scope` makes, for a process that is there already. Without either, limits of single
processes (setrlimit) are all there is. Version 2, and version 1 where it has the controllers. docs/decisions/0013-limits.md.
"""

import os
import time

from agent_dev.linux import signals

_ROOT = "/sys/fs/cgroup"
_FILES = {  # limit → (controller, file of version 2, file of version 1)
    "memory": ("memory", "memory.max", "memory.limit_in_bytes"),
    "processes": ("pids", "pids.max", "pids.max"),
}
_PROPERTIES = {"memory": "MemoryMax", "processes": "TasksMax"}
_PATIENCE = 3.0  # s for systemd


class Group:
    """The groups that hold one sandbox; `hold` puts its first process in, `told` says what they refused, `close` ends them."""

    def __init__(self, name: str, limits: dict[str, int], busctl: str, environ: dict[str, str]) -> None:
        self._name, self._busctl, self._environ = named(name), busctl, environ
        self._limits = {limit: value for limit, value in limits.items() if limit in _FILES}
        self._folders: dict[str, str] = {}  # limit → the folder that holds it
        self._is_ours = True

    def hold(self, pid: int) -> None:
        """Put a process and all its future children in; as far as this machine lets us."""
        for limit, value in self._limits.items():
            folder = next(filter(None, (_made(place, self._name, limit, value) for place in places(_FILES[limit][0]))), "")
            if folder and put(folder, pid):
                self._folders[limit] = folder
            elif folder:
                os.rmdir(folder)
        if not self._folders and self._limits and self._busctl:
            self._ask_systemd(pid)

    def _ask_systemd(self, pid: int) -> None:
        unit = f"{self._name}.scope"
        manager = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
        limits = [word for limit, value in self._limits.items() for word in (_PROPERTIES[limit], "t", str(value))]
        words = ["busctl", "--user", "--quiet", "call", *manager, "StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail"]
        words += [str(1 + len(self._limits)), "PIDs", "au", "1", str(pid), *limits, "0"]
        quiet = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (1, 2)]
        asked = os.posix_spawn(self._busctl, words, self._environ, file_actions=quiet, setsigdef=(signals.PIPE,))
        if os.waitpid(asked, 0)[1]:
            return
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            folder = next((place for place in _groups(pid).values() if place.endswith(unit)), "")
            if folder:
                self._is_ours = False
                self._folders = dict.fromkeys(self._limits, folder)
                return
            time.sleep(0.01)

    @property
    def held(self) -> tuple[str, ...]:
        """The limits that hold for the whole sandbox."""
        return tuple(self._folders)

    def told(self) -> str:
        """Return the limit that processes were ended or refused for, "" for none."""
        if _count(self._folders.get("memory", ""), ("memory.events", "memory.oom_control"), "oom_kill"):
            return "memory"
        return "processes" if _count(self._folders.get("processes", ""), ("pids.events",), "max") else ""

    def close(self) -> None:
        """Remove the groups that we made; systemd removes its own."""
        for folder in set(self._folders.values()) if self._is_ours else ():
            try:
                os.rmdir(folder)
            except OSError:
                continue  # somebody else's process is in it
        self._folders = {}


def named(session: str) -> str:
    """Return what the group of a session is called, by its id."""
    return f"agent-dev-{session}"


def put(folder: str, pid: int) -> bool:
    """Put a process into a group, with its threads and all its future children; return whether it is there."""
    return _write(f"{folder}/cgroup.procs", pid)


def group(pid: int) -> str:
    """Return the folder of a process's group of version 2; "" where there is none, or the process is gone."""
    try:
        return _groups(pid).get("", "")
    except OSError:
        return ""


def places(controller: str = "") -> tuple[str, ...]:
    """Return the folders below which a group could be made, the nearest first; of version 2 where no controller is named."""
    groups = _groups("self")
    place = groups.get(controller) or groups.get("", "")
    above = []
    while place.startswith(_ROOT) and place != _ROOT:
        above.append(place.rstrip("/"))
        place = os.path.dirname(place.rstrip("/"))
    return tuple(above) if controller in groups else (*above, _ROOT)


def _groups(pid: int | str) -> dict[str, str]:
    """Return the folders of a process's groups: by controller for version 1, as "" for version 2."""
    found: dict[str, str] = {}
    with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers:
                found |= {name: f"{_ROOT}/{name}{path}" for name in controllers.split(",")}
            else:
                root = f"{_ROOT}/unified" if os.path.isdir(f"{_ROOT}/unified") else _ROOT
                found[""] = root + path
    return found


def _made(place: str, name: str, limit: str, value: int) -> str:
    """Make a group with a limit below a folder, or use the one that is there; "" where that is not possible."""
    folder = f"{place}/{name}"
    try:
        os.mkdir(folder)
    except FileExistsError:
        pass  # made for the other limit
    except OSError:
        return ""
    if any(_write(f"{folder}/{file}", value) for file in _FILES[limit][1:]):
        _write(f"{folder}/memory.swap.max", 0)
        return folder
    try:
        os.rmdir(folder)
    except OSError:
        pass  # the other limit is held there
    return ""


def _write(path: str, value: int) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, b"%d" % value)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _count(folder: str, files: tuple[str, ...], word: str) -> int:
    for name in files:
        try:
            with open(f"{folder}/{name}", encoding="ascii") as file:
                rows = dict(line.split() for line in file)
        except (OSError, ValueError):
            continue
        return int(rows.get(word, "0"))
    return 0
