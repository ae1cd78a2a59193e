"""What Landlock lets through behind a plan's mounts: a second wall, for sandboxes that cannot mount (`nested: false`)."""

from agent_dev.sandbox.plan import RUN, Bind, Cover, File, Mask, Mount, SandboxPlan, Symlink, is_below

READ, WRITE = "r", "w"
SCRIPT = f"{RUN}/wall"


def rules(plan: SandboxPlan) -> tuple[str, ...]:
    """Return `r` or `w` and a path for each place of the plan: what may be read and run there, or changed too."""
    return tuple(f"{_right(mount)}{mount.target}" for mount in plan.mounts if not isinstance(mount, Symlink))


def _right(mount: Mount) -> str:
    match mount:
        case Bind(_, _, writable):
            return WRITE if writable else READ
        case File() | Mask() | Cover():
            return READ
        case _:
            return WRITE


def is_shown(plan: SandboxPlan, path: str) -> bool:
    """Whether a program of the system's is there inside, at its own path, where no agent can write."""
    system = (m for m in plan.mounts if isinstance(m, Bind) and not m.writable and m.source == m.target)
    return any(is_below(path, mount.target) for mount in system) and not any(is_below(path, w) for w in plan.writable())


def behind(plan: SandboxPlan, python: str, script: bytes) -> SandboxPlan:
    """Return the plan whose command puts the rules on and then becomes the agent."""
    step = (python, "-I", "-S", "-B", SCRIPT, *rules(plan), "--", *plan.command)
    return plan.but(mounts=(*plan.mounts, File(SCRIPT, script)), command=step)
