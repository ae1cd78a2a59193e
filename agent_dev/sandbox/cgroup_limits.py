"""Control groups that limit memory and processes of a whole sandbox.

They are created below our group or an ancestor that is delegated to us, otherwise by the user's systemd, for an existing
process, with the call of `systemd-run --user --scope`. If neither works, only per-process limits (setrlimit) apply. Version 2
is used, and version 1 where it has the controllers. See docs/decisions/0013-limits.md.
"""

import os
import time

from agent_dev.linux import cgroups, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = "/sys/fs/cgroup"
_FILES = {  # limit → (controller, file of version 2, file of version 1)
    "memory": ("memory", "memory.max", "memory.limit_in_bytes"),
    "processes": ("pids", "pids.max", "pids.max"),
}
_PROPERTIES = {"memory": "MemoryMax", "processes": "TasksMax"}
_TIMEOUT = 3.0  # s for systemd


class LimitGroups:
    """The control groups of one sandbox, created for its first process and removed at its end.

    `report`: called with the limits for which no control group can be created.
    """

    def __init__(
        self,
        name: str,
        limits: dict[str, int],
        busctl: str,
        environ: dict[str, str],
        report: "Callable[[tuple[str, ...]], None] | None" = None,
    ) -> None:
        self._report = report
        self._name, self._busctl, self._environ = group_name(name), busctl, environ
        self._limits = {limit: value for limit, value in limits.items() if limit in _FILES}
        self._groups: dict[str, str] = {}  # limit → the folder that enforces it
        self._is_created = True
        self._inner = ""

    def add_process(self, pid: int, inner: str) -> None:
        """Move a process and its future children into a subgroup, `inner`, of the groups, as far as this machine allows."""
        self._inner = inner
        for limit, value in self._limits.items():
            folder = next(
                filter(None, (_create(parent, self._name, limit, value) for parent in possible_parents(_FILES[limit][0]))), ""
            )
            if folder and (folder in self._groups.values() or cgroups.enter_new(folder, inner, pid)):
                self._groups[limit] = folder
            elif folder:
                os.rmdir(folder)
        if not self._groups and self._limits and self._busctl:
            self._call_systemd(pid)
            for folder in set(self._groups.values()):
                cgroups.enter_new(folder, inner, pid)
        missing = tuple(limit for limit in self._limits if limit not in self._groups)
        if missing and self._report:
            self._report(missing)

    def _call_systemd(self, pid: int) -> None:
        unit = f"{self._name}.scope"
        manager = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
        limits = [argument for limit, value in self._limits.items() for argument in (_PROPERTIES[limit], "t", str(value))]
        command = ["busctl", "--user", "--quiet", "call", *manager, "StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail"]
        command += [str(1 + len(self._limits)), "PIDs", "au", "1", str(pid), *limits, "0"]
        null_streams = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (1, 2)]
        caller = os.posix_spawn(self._busctl, command, self._environ, file_actions=null_streams, setsigdef=(signals.PIPE,))
        if os.waitpid(caller, 0)[1]:
            return
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            folder = next(
                (folder_of_pid for folder_of_pid in cgroups.groups_of(pid).values() if folder_of_pid.endswith(unit)), ""
            )
            if folder:
                self._is_created = False
                self._groups = dict.fromkeys(self._limits, folder)
                return
            time.sleep(0.01)

    def reached_limit(self) -> str:
        """Return the limit for which processes were killed or refused, "" if none was."""
        if _count(self._groups.get("memory", ""), ("memory.events", "memory.oom_control"), "oom_kill"):
            return "memory"
        folder = self._groups.get("processes", "")
        counts = (
            _count(counted, ("pids.events",), "max") for counted in (folder, f"{folder}/{self._inner}")
        )  # before Linux 6.10
        return "processes" if any(counts) else ""

    def close(self) -> None:
        """Remove the groups that we created; systemd removes its own."""
        for folder in set(self._groups.values()) if self._is_created else ():
            cgroups.remove_tree(folder)
        self._groups = {}


def group_name(session: str) -> str:
    """Return the name of a session's group, by the session's id."""
    return f"agent-dev-{session}"


def group_of(pid: int) -> str:
    """Return the folder of a process's v2 group; "" if there is none or the process is gone."""
    try:
        return cgroups.groups_of(pid).get("", "")
    except OSError:
        return ""


def possible_parents(controller: str = "") -> tuple[str, ...]:
    """Return the folders below which a group could be created, nearest first; those of v2 if no controller is named."""
    groups = cgroups.groups_of("self")
    folder = groups.get(controller) or groups.get("", "")
    parents = []
    while folder.startswith(_ROOT) and folder != _ROOT:
        parents.append(folder.rstrip("/"))
        folder = os.path.dirname(folder.rstrip("/"))
    return tuple(parents) if controller in groups else (*parents, _ROOT)


def _create(parent: str, name: str, limit: str, value: int) -> str:
    """Create a group with a limit below a folder, or use an existing one; "" if that fails."""
    folder = f"{parent}/{name}"
    try:
        os.mkdir(folder)
    except FileExistsError:
        pass  # created for the other limit
    except OSError:
        return ""
    if any(cgroups.write_value(f"{folder}/{file}", value) for file in _FILES[limit][1:]):
        cgroups.write_value(f"{folder}/memory.swap.max", 0)
        return folder
    try:
        os.rmdir(folder)
    except OSError:
        pass  # the other limit uses it
    return ""


def _count(folder: str, files: tuple[str, ...], key: str) -> int:
    for name in files:
        try:
            with open(f"{folder}/{name}", encoding="ascii") as file:
                rows = dict(line.split() for line in file)
        except (OSError, ValueError):
            continue
        return int(rows.get(key, "0"))
    return 0
