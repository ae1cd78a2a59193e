"""Halve the kernel's per-user limits for a sandbox.

A process that uses all inotify instances, pending signals or locked memory makes every other program of the user fail. The limits
are those of the sandbox's user namespace (user_namespaces(7), /proc/sys/user) and resource limits.
"""

import os

from agent_dev.linux import syscalls

_FOLDER = "/proc/sys/user"  # shows the user namespace of the process that opens it


def read_limits() -> dict[str, int]:
    """Return the limit of each counted kind, such as inotify instances."""
    limits = {}
    try:
        for name in os.listdir(_FOLDER):
            with open(f"{_FOLDER}/{name}", "rb", 0) as file:
                limits[name] = int(file.read())
    except OSError:
        pass  # masked, as in some containers
    return limits


def halve_limits(limits: dict[str, int]) -> None:
    """Set each limit to half, so that the rest remains for the user's other programs."""
    for name, value in limits.items():
        try:
            with open(f"{_FOLDER}/{name}", "wb", 0) as file:
                file.write(b"%d" % ((value + 1) // 2))
        except OSError:
            continue  # read-only, as in some containers
    for resource in syscalls.PER_USER_LIMITS:
        syscalls.halve_limit(resource)
