"""Landlock rules in addition to a plan's mounts, for sandboxes that cannot mount (`nested: false`)."""

from agent_dev.paths import RUN, is_below
from agent_dev.sandbox.plan import Bind, File, Mask, MaskedView, Mount, SandboxPlan, Symlink

READ, WRITE = "r", "w"
SCRIPT = f"{RUN}/landlock"


def landlock_rules(plan: SandboxPlan) -> tuple[str, ...]:
    """Return the rules: `r` or `w`, then the path of each mount: read and execute, or also write."""
    return tuple(f"{_access(mount)}{mount.target}" for mount in plan.mounts if not isinstance(mount, Symlink))


def _access(mount: Mount) -> str:
    match mount:
        case Bind(_, _, writable):
            return WRITE if writable else READ
        case File() | Mask() | MaskedView():
            return READ
        case _:
            return WRITE


def is_shown(plan: SandboxPlan, path: str) -> bool:
    """Return whether the sandbox shows a system program at its own path, at which no agent can write."""
    system = (m for m in plan.mounts if isinstance(m, Bind) and not m.writable and m.source == m.target)
    return any(is_below(path, mount.target) for mount in system) and not any(is_below(path, w) for w in plan.writable_targets())


def add_landlock_step(plan: SandboxPlan, python: str, script: bytes) -> SandboxPlan:
    """Return the plan with a command that applies the rules and then execs the agent."""
    step = (python, "-I", "-S", "-B", SCRIPT, *landlock_rules(plan), "--", *plan.command)
    return plan.replace(mounts=(*plan.mounts, File(SCRIPT, script)), command=step)
