"""Control groups: those of a process, and new ones for a single sandbox.

A process that makes a user and a cgroup namespace can mount control groups and sees its own group and those below. Where the user
owns those files (root, or a delegated subtree), an agent could kill, freeze and limit the launcher, its neighbours and other
sandboxes, or raise its own limits. So the setup process first enters a new child group of each hierarchy, while the launcher
plans: the first move waits up to 10 ms for the kernel. See docs/decisions/0031-own-control-group.md.
"""

import os
import select

_ROOT = "/sys/fs/cgroup"
PREFIX = "agent-dev-in-"
_UNUSED_UID = 0xFFFF_FFFD  # owned by no user
_MAX_GROUPS = 2000  # checked; with more, some may belong to the user
_LEAF_LINKS = 2  # of a directory without subdirectories
_TRIES = 3  # another launcher may remove an empty group as it ends
_CPUSET = ("cpuset.cpus", "cpuset.mems")  # empty in a new v1 group, which then accepts no process
_TIMEOUT = 2000  # ms for the setup process to exit


def groups_of(pid: int | str) -> dict[str, str]:
    """Return the folders of a process's groups, by controller for v1, under "" for v2. Raises OSError."""
    folders: dict[str, str] = {}
    with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers:
                names = (name.removeprefix("name=") for name in controllers.split(","))
                folders |= {name: f"{_ROOT}/{name}{path}" for name in names}
            else:
                root = f"{_ROOT}/unified" if os.path.isdir(f"{_ROOT}/unified") else _ROOT
                folders[""] = root + path
    return folders


def add_process(folder: str, pid: int) -> bool:
    """Add a process, with its threads and future children, to a group; return whether it worked."""
    return write_value(f"{folder}/cgroup.procs", pid)


def write_value(path: str, value: int) -> bool:
    """Write a number to a group's file; return whether the kernel accepted it."""
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


def new_name() -> str:
    """Return a name for the groups of one sandbox."""
    return PREFIX + os.urandom(6).hex()


def _hierarchies() -> tuple[str, ...]:
    """Return the folder of our group in each hierarchy; several v1 controllers may share one."""
    return tuple(dict.fromkeys(os.path.realpath(folder) for folder in groups_of("self").values()))


def join_new(name: str) -> bool:
    """Move this process into a new child of each group that it could write to; return whether it can reach no other group."""
    try:
        folders = _hierarchies()
    except OSError:
        return False
    return all([_is_unwritable(folder) or enter_new(folder, name, 0) for folder in folders])  # noqa: C419  (all of them)


def enter_new(parent: str, name: str, pid: int) -> bool:
    """Create a child group and move a process into it (0: this one); return whether it is there and can write no other group."""
    folder = f"{parent}/{name}"
    for _ in range(_TRIES):
        try:
            os.mkdir(folder)
            for file in _CPUSET if "/cpuset" in parent else ():
                _copy_file(f"{parent}/{file}", f"{folder}/{file}")
            is_safe = _take_from_user(folder)
        except FileExistsError:
            return False
        except FileNotFoundError:
            continue
        except OSError:
            break
        if add_process(folder, pid):
            return is_safe
    remove_tree(folder)
    return False


def _take_from_user(folder: str) -> bool:
    """Give a group's files to an unused uid; return whether the remaining ones are harmless.

    Even SIGKILL does not end a process that a v1 freezer stopped, so the sandbox would never end.
    """
    if os.geteuid() == 0:
        for name in os.listdir(folder):
            os.chown(f"{folder}/{name}", _UNUSED_UID, -1)
        os.chown(folder, _UNUSED_UID, -1)
        return True
    return not os.path.exists(f"{folder}/freezer.state")


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb", 0) as file:
        data = file.read()
    with open(target, "wb", 0) as file:
        file.write(data)


def _is_unwritable(group: str) -> bool:
    """Return whether this user owns nothing in a group and its subgroups: an agent may mount cgroupfs and write to its own files.

    In subgroups only the files that a delegation must hand over are checked.
    """
    found = [group]
    try:
        for number, folder in enumerate(found):  # it grows
            if number > _MAX_GROUPS or _is_partly_ours(folder, found, is_first=number == 0):
                return False
    except OSError:
        return False  # not mounted at the usual path
    return True


def _is_partly_ours(folder: str, found: list[str], *, is_first: bool) -> bool:
    """Return whether this user can write to a group's directory or its files; add its subgroups to `found`.

    By descriptor: there are hundreds of files where each controller has its own hierarchy (v1).
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        if is_first:
            raise
        return False  # just removed
    try:
        status = os.fstat(fd)
        if _is_ours(status) or any(_is_ours_below(fd, name) for name in (os.listdir(fd) if is_first else ("cgroup.procs",))):
            return True
        if status.st_nlink != _LEAF_LINKS:
            with os.scandir(fd) as entries:
                found += [f"{folder}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]
        return False
    finally:
        os.close(fd)


def _is_ours_below(fd: int, name: str) -> bool:
    try:
        return _is_ours(os.stat(name, dir_fd=fd, follow_symlinks=False))
    except FileNotFoundError:
        return False  # just removed


def _is_ours(found: os.stat_result) -> bool:
    is_our_group = found.st_mode & 0o020 and found.st_gid in {os.getegid(), *os.getgroups()}
    return bool(found.st_uid == os.geteuid() or found.st_mode & 0o002 or is_our_group)


def remove_finished(name: str, setup_pid: int) -> None:
    """Remove the groups of a finished sandbox once its setup process has exited, and those of killed launchers."""
    try:
        pidfd = os.pidfd_open(setup_pid)
    except OSError:
        pass  # it has ended
    else:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll(_TIMEOUT)
        os.close(pidfd)
    for parent in _hierarchies():
        try:
            names = os.listdir(parent)
        except OSError:
            continue
        for child in names:
            if child == name:
                remove_tree(f"{parent}/{child}")
            elif child.startswith(PREFIX):
                _remove_empty(f"{parent}/{child}")


def remove_tree(folder: str) -> None:
    """Remove a group and the groups that an agent created in it."""
    folders = [folder]
    for each in folders:  # grows in the loop
        try:
            folders += (entry.path for entry in os.scandir(each) if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
    for each in reversed(folders):
        _remove_empty(each)


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        pass  # in use, or already removed
