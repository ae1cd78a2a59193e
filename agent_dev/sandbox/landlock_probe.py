"""Whether Landlock's file rules can be put on behind the mounts, and the plan that does it.

Why inside, and why so few profiles: docs/decisions/0025-second-wall.md.
"""

import os
import sys

from agent_dev.linux import syscalls as kernel
from agent_dev.sandbox import landlock as wall
from agent_dev.sandbox.plan import SandboxPlan

_SINCE = 2  # ABI: before it nothing can be moved from one directory to another
_SYSTEM = "/usr/bin/python3"


def add(plan: SandboxPlan) -> SandboxPlan:
    """Return the plan with the step that puts them on; the plan itself where that cannot be done."""
    python = next((path for path in pythons() if wall.is_shown(plan, path)), "")
    if kernel.landlock() < _SINCE or not python:
        return plan
    with open(os.path.join(os.path.dirname(__file__), "../inside/landlock_exec.py"), "rb") as file:
        return wall.behind(plan, python, file.read())


def missing() -> str:
    """Say why they cannot be put on here; nothing where they can."""
    if kernel.landlock() < _SINCE:
        return "needs Linux 5.19 with Landlock"
    return "" if any(path.startswith("/usr/") for path in pythons()) else "needs a Python below /usr"


def pythons() -> tuple[str, ...]:
    """Return the Pythons that a sandbox may show, by their real paths."""
    found = (os.path.realpath(sys.executable), os.path.realpath(_SYSTEM))
    return tuple(path for path in found if os.access(path, os.X_OK))
