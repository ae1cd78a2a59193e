"""Test whether Landlock rules can be applied in addition to the mounts, and add them to a plan.

For the reasons, see docs/decisions/0025-landlock-rules.md.
"""

import os
import sys

from agent_dev.linux import syscalls
from agent_dev.sandbox import landlock
from agent_dev.sandbox.plan import SandboxPlan

_MIN_ABI = 2  # ABI: older ones forbid moves between directories
_SCRIPT = ("exec_command.py", "landlock_exec.py")
_SYSTEM_PYTHON = "/usr/bin/python3"


def add_landlock(plan: SandboxPlan) -> SandboxPlan:
    """Return the plan with a step that applies the rules; the unchanged plan if that is not possible."""
    python = next((path for path in candidate_pythons() if landlock.is_shown(plan, path)), "")
    if syscalls.landlock_abi() < _MIN_ABI or not python:
        return plan
    return landlock.add_landlock_step(plan, python, read_script(*_SCRIPT))


def missing_requirement() -> str:
    """Return why the rules cannot be applied here; empty if they can."""
    if syscalls.landlock_abi() < _MIN_ABI:
        return "requires Linux 5.19 with Landlock"
    return "" if any(path.startswith("/usr/") for path in candidate_pythons()) else "requires a Python below /usr"


def read_script(*names: str) -> bytes:
    """Return a script that runs in the sandbox: files of `agent_dev.inside`, concatenated in this order."""
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "inside")
    parts = []
    for name in names:
        with open(f"{folder}/{name}", "rb", 0) as file:
            parts.append(file.read())
    return b"".join(parts)


def candidate_pythons() -> tuple[str, ...]:
    """Return the real paths of the Pythons that a sandbox may show."""
    candidates = (os.path.realpath(sys.executable), os.path.realpath(_SYSTEM_PYTHON))
    return tuple(path for path in candidates if os.access(path, os.X_OK))
