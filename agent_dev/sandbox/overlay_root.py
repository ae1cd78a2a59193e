"""The overlay of a root as a running sandbox has it, opened from outside.

The agent can move the directories above a root that lies in its home, and put links there: no path of it is ever followed.
"""

import os

from agent_dev.linux import syscalls as kernel

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def open_overlay(pid: int, path: str) -> int:
    """Open a root for a process of the sandbox: the overlay itself, by a path on which no link is followed; -1 for none."""
    try:
        top = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fd = kernel.open_across(top, os.fsencode(path.lstrip("/")), _FOLDER)
    except OSError:
        return -1
    finally:
        os.close(top)
    if _is_overlay(pid, os.fstat(fd).st_dev):
        return fd
    os.close(fd)
    return -1


def _is_overlay(pid: int, device: int) -> bool:
    """Whether a device is an overlay's in the mount namespace of a process, which the agent cannot mount in."""
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        for line in file:
            words = line.split()
            if words[2] == wanted and words[words.index(b"-") + 1] == b"overlay":
                return True
    return False
