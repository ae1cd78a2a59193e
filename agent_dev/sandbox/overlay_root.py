"""Open the overlay of a root from outside, as a running sandbox sees it.

The agent can move the directories above a root in its home and replace them by links, so no link in the path is followed.
"""

import os

from agent_dev.linux import syscalls

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def open_overlay(pid: int, path: str) -> int:
    """Open a root as a process of the sandbox sees it, without following links; -1 if that is not an overlay."""
    try:
        top = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fd = syscalls.open_across(top, os.fsencode(path.lstrip("/")), _FOLDER)
    except OSError:
        return -1
    finally:
        os.close(top)
    if _is_overlay(pid, os.fstat(fd).st_dev):
        return fd
    os.close(fd)
    return -1


def _is_overlay(pid: int, device: int) -> bool:
    """Return whether a device is an overlay in a process's mount namespace, in which the agent cannot mount."""
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        for line in file:
            fields = line.split()
            if fields[2] == wanted and fields[fields.index(b"-") + 1] == b"overlay":
                return True
    return False
